package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Limits of a receipt.
const (
	MaxReceipt  = 96 << 10
	maxProof    = 63 // hashes: as many as the tree can be high
	receiptHead = "c2sp.org/tlog-proof@v1\n"
)

// Receipt proves without a network that an envelope is in a log: the entry's
// head, its index, the hashes that lead to the root, and the checkpoint that
// holds the root. It is C2SP's tlog-proof.
type Receipt struct {
	Entry      // without its envelope, which lies beside the receipt
	Index      uint64
	Proof      [][sha256.Size]byte
	Checkpoint []byte
}

// Errors of a receipt.
var (
	ErrReceipt      = errors.New("not a receipt")
	ErrNotInTheLog  = errors.New("the receipt does not lead from this envelope to the log's root: one of them was altered, or the receipt is another's")
	ErrOtherReceipt = errors.New("the receipt is about another statement")
)

// Encode is the receipt's file.
func (r Receipt) Encode() []byte {
	b := []byte(receiptHead)
	b = fmt.Appendf(b, "extra %s\nindex %d\n", base64.StdEncoding.EncodeToString(r.Head()), r.Index)
	for _, h := range r.Proof {
		b = fmt.Appendf(b, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	b = append(b, '\n')
	return append(b, r.Checkpoint...)
}

// ReadReceipt reads a receipt. It takes the one spelling that Encode writes, so
// that no byte of it can be changed unnoticed.
func ReadReceipt(b []byte) (Receipt, error) {
	fail := func(why string) (Receipt, error) { return Receipt{}, fmt.Errorf("%w: %s", ErrReceipt, why) }
	if len(b) > MaxReceipt {
		return fail(fmt.Sprintf("it has %d bytes; at most %d are allowed", len(b), MaxReceipt))
	}
	rest, ok := bytes.CutPrefix(b, []byte(receiptHead))
	if !ok {
		return fail("it does not begin with c2sp.org/tlog-proof@v1")
	}
	line := func(prefix string) (string, bool) {
		l, after, ok := bytes.Cut(rest, []byte("\n"))
		l, has := bytes.CutPrefix(l, []byte(prefix))
		if ok && has {
			rest = after
		}
		return string(l), ok && has
	}
	extra, ok1 := line("extra ")
	index, ok2 := line("index ")
	if !ok1 || !ok2 {
		return fail("it has no lines extra and index")
	}
	var r Receipt
	head, err := base64.StdEncoding.Strict().DecodeString(extra)
	if err != nil || len(head) > 700 {
		return fail("its extra data is not an entry's head")
	}
	if r.Entry, err = parseHead(head); err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	if r.Index, err = strconv.ParseUint(index, 10, 63); err != nil {
		return fail("its index is not a number")
	}
	for {
		l, ok := line("")
		if !ok || len(r.Proof) > maxProof {
			return fail("its hashes do not end")
		}
		if l == "" {
			break
		}
		h, err := base64.StdEncoding.Strict().DecodeString(l)
		if err != nil || len(h) != sha256.Size {
			return fail("a line of its proof is not a hash")
		}
		r.Proof = append(r.Proof, [sha256.Size]byte(h))
	}
	r.Checkpoint = bytes.Clone(rest)
	if !bytes.Equal(r.Encode(), b) {
		return fail("it has another spelling than ours")
	}
	return r, nil
}

// VerifyReceipt checks that the envelope is in a log that the policy trusts, at
// a checkpoint that enough of its witnesses have seen.
func (p Policy) VerifyReceipt(r Receipt, envelope []byte) (Checkpoint, error) {
	c, err := p.Open(r.Checkpoint)
	if err != nil {
		return Checkpoint{}, err
	}
	return c, verifyInclusion(c, r, envelope)
}

// verifyInclusion checks that an envelope is in the log at a checkpoint.
func verifyInclusion(c Checkpoint, r Receipt, envelope []byte) error {
	if r.Index >= c.Size {
		return fmt.Errorf("%w: index %d in a log of %d entries", ErrNotInTheLog, r.Index, c.Size)
	}
	e := r.Entry
	e.Envelope = envelope
	hashes := make([][]byte, len(r.Proof))
	for i := range r.Proof {
		hashes[i] = r.Proof[i][:]
	}
	leaf := rfc6962.DefaultHasher.HashLeaf(e.Encode())
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, r.Index, c.Size, leaf, hashes, c.Root[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrNotInTheLog, err)
	}
	return nil
}
