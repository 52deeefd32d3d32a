package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Challenge is what a run that answers a command carries: its nonce, and the seed of
// the product that its GPUs compute. Both follow from the command's id, which nobody
// knows before it is given: a run with them is not older than the command.
func Challenge(command string) (nonce string, seed uint64) {
	sum := sha256.Sum256([]byte("assay challenge v1\n" + command))
	return hex.EncodeToString(sum[:16]), binary.BigEndian.Uint64(sum[16:24]) | 1 // zero would mean none
}
