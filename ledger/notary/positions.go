package notary

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay/internal/disk"
)

const positionsFormat = "assay/positions/v1"

// positions says how far the notary had come when its log had Size entries. It is
// a hint: a log without it is read from its beginning, and so is one that it does
// not fit.
type positions struct {
	Format   string           `json:"format"`
	Topic    string           `json:"topic"`
	Origin   string           `json:"origin"`
	Size     uint64           `json:"size"`
	LastLeaf string           `json:"last_leaf"`        // hash of entry Size-1, hexadecimal; empty at size 0
	IDs      string           `json:"ids"`              // sha256 of the first Size ids
	Next     map[int32]int64  `json:"next"`             // everything below was logged, refused or passed over
	Last     map[int32]uint64 `json:"last"`             // index of the partition's last entry
	Keys     []uint64         `json:"keys"`             // indices of entries with key statements and revocations
	Looked   map[int32]look   `json:"looked,omitempty"` // where the partition ended when it was last looked at
	SHA256   string           `json:"sha256"`           // of this document with this member empty
}

var (
	errHint   = errors.New("it does not fit")
	errNoHint = errors.New("there is none")
)

func (p positions) encode() []byte {
	p.Format, p.SHA256 = positionsFormat, ""
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers and strings only
	}
	sum := sha256.Sum256(body)
	p.SHA256 = hex.EncodeToString(sum[:])
	if body, err = json.Marshal(p); err != nil {
		panic(err)
	}
	return append(body, '\n')
}

func parsePositions(b []byte) (positions, error) {
	var p positions
	if err := json.Unmarshal(b, &p); err != nil {
		return positions{}, fmt.Errorf("%w: %w", errHint, err)
	}
	if !bytes.Equal(p.encode(), b) {
		return positions{}, fmt.Errorf("%w: it is not as it was written", errHint)
	}
	return p, nil
}

// readPositions gives errHint or errNoHint for what says nothing, another error for
// a disk that cannot be read.
func readPositions(dir string) (positions, error) {
	b, err := os.ReadFile(filepath.Join(dir, "positions.json"))
	if errors.Is(err, os.ErrNotExist) {
		return positions{}, errNoHint
	} else if err != nil {
		return positions{}, fmt.Errorf("read how far the log is: %w", err)
	}
	return parsePositions(b)
}

func (p positions) write(dir string) error {
	if err := disk.Replace(filepath.Join(dir, "positions.json"), 0o644, disk.Bytes(p.encode())); err != nil {
		return fmt.Errorf("%w: %w", ErrWrite, err)
	}
	return nil
}
