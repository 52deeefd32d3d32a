// Package c2sp reads our receipts with the reference implementation of C2SP's
// formats: a stranger who must agree with us. It is a module of its own, since the
// version that can read them brings a module without a release, which must not get
// into our binaries; and it imports nothing of ours.
package c2sp

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	f_log "github.com/transparency-dev/formats/log"
	f_note "github.com/transparency-dev/formats/note"
	f_proof "github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Receipts, checkpoints and proofs that we write are C2SP's.
func TestReceiptsAreC2SPs(t *testing.T) {
	receipt, envelope := file(t, "receipt.tlog-proof"), file(t, "receipt.dsse.json")
	keys := strings.Fields(string(file(t, "receipt.keys")))
	var p f_proof.TLogProof
	if err := p.Unmarshal(receipt); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(p.Marshal(), receipt) {
		t.Errorf("theirs is\n%s\nours\n%s", p.Marshal(), receipt)
	}
	logKey, err := note.NewVerifier(keys[0])
	if err != nil {
		t.Fatal(err)
	}
	witness, err := f_note.NewVerifierForCosignatureV1(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	cp, _, n, err := f_log.ParseCheckpoint(p.Checkpoint, logKey.Name(), logKey, witness)
	if err != nil || len(n.Sigs) != 2 {
		t.Fatalf("%v, %d signatures", err, len(n.Sigs))
	}
	var proof tlog.RecordProof
	for _, h := range p.Hashes {
		proof = append(proof, h)
	}
	leaf := tlog.RecordHash(append(p.ExtraData, envelope...))
	if err := tlog.CheckRecord(proof, int64(cp.Size), tlog.Hash(cp.Hash), int64(p.Index), leaf); err != nil {
		t.Error(err)
	}
	for _, s := range n.Sigs {
		if s.Name != witness.Name() {
			continue
		}
		if at, err := f_note.CoSigV1Timestamp(s); err != nil || at.Unix() <= 0 {
			t.Errorf("%v, %v", at, err)
		}
	}
}
