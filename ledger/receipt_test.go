package ledger

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	f_log "github.com/transparency-dev/formats/log"
	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// runReceipt is one receipt with the envelope that it is about.
func runReceipt(t testing.TB) (Receipt, []byte, *runLog) {
	t.Helper()
	l := &runLog{}
	l.add([]byte("a"))
	e := Entry{Position: Position{Topic, 2, 7}, Time: runNow, ID: runID(1), Envelope: []byte("{}\n")}
	at := l.add(e.Encode())
	for range 5 {
		l.add([]byte("b"))
	}
	return l.receipt(t, e, at, 7, l.checkpoint(t, 7, 1, 2)), e.Envelope, l
}

// receiptFiles are what ledger/c2sp reads with another implementation. It is a
// module of its own: what it needs would come into our binaries otherwise.
func receiptFiles(t *testing.T) map[string][]byte {
	t.Helper()
	r, envelope, _ := runReceipt(t)
	return map[string][]byte{
		"receipt.tlog-proof": r.Encode(), "receipt.dsse.json": envelope,
		"receipt.keys": []byte(NoteVerifierKey(runOrigin, runSigner('L').Public()) + "\n" + CosignatureVerifierKey("w1.example.org", runSigner('W'+1).Public()) + "\n"),
	}
}

func TestReceiptFiles(t *testing.T) {
	for name, want := range receiptFiles(t) {
		path := filepath.Join("testdata", name)
		if *updateRun {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is written now (-update-run): %v\n%s", path, err, got)
		}
	}
}

// Checkpoints that formats/note signed are good for us.
func TestForeignCheckpoint(t *testing.T) {
	logSecret, logVKey, err := note.GenerateKey(nil, "their.example/log")
	if err != nil {
		t.Fatal(err)
	}
	wSecret, wVKey, err := note.GenerateKey(nil, "their.example/witness")
	if err != nil {
		t.Fatal(err)
	}
	if wVKey, err = f_note.VKeyToCosignatureV1(wVKey); err != nil {
		t.Fatal(err)
	}
	l, err := note.NewSigner(logSecret)
	if err != nil {
		t.Fatal(err)
	}
	w, err := f_note.NewSignerForCosignatureV1(wSecret)
	if err != nil {
		t.Fatal(err)
	}
	root := make([]byte, 32)
	raw, err := note.Sign(&note.Note{Text: string(f_log.Checkpoint{Origin: "their.example/log", Size: 9, Hash: root}.Marshal())}, l, w)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParsePolicy(fmt.Appendf(nil, "log %s\nwitness w %s\nquorum w\n", logVKey, wVKey))
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Open(raw)
	if err != nil || c.Size != 9 || c.Origin != "their.example/log" || len(c.Cosigned) != 1 || time.Since(c.Cosigned[0].Time).Abs() > time.Hour {
		t.Errorf("%+v, %v", c, err)
	}
	if v := p.LogVerifiers(); len(v) != 1 || v[0].KeyHash() != l.KeyHash() {
		t.Error("another verifier of the log")
	}
}

func TestReceiptRoundTrip(t *testing.T) {
	r, envelope, _ := runReceipt(t)
	got, err := ReadReceipt(r.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}
	p := runPolicy(t)
	c, err := p.VerifyReceipt(got, envelope)
	if err != nil || c.Size != 7 || !bytes.Equal(c.Raw, r.Checkpoint) {
		t.Errorf("%+v, %v", c, err)
	}
	want := []Cosignature{{"one", runNow.Add(61 * time.Minute)}, {"two", runNow.Add(62 * time.Minute)}}
	if diff := cmp.Diff(want, c.Cosigned); diff != "" {
		t.Error(diff)
	}
}

func TestReceiptsThatAreNone(t *testing.T) {
	r, envelope, log := runReceipt(t)
	good := string(r.Encode())
	for name, b := range map[string]string{
		"nothing":         "",
		"another version": strings.Replace(good, "@v1", "@v2", 1),
		"no extra":        strings.Replace(good, "extra ", "extr ", 1),
		"index with zero": strings.Replace(good, "index 1", "index 01", 1),
		"index with plus": strings.Replace(good, "index 1", "index +1", 1),
		"index too large": strings.Replace(good, "index 1", "index 99999999999999999999", 1),
		"no empty line":   strings.Replace(good, "\n\n", "\n", 2),
		"carriage return": strings.Replace(good, "\n", "\r\n", 1),
		"too many hashes": strings.Replace(good, "index 1\n", "index 1\n"+strings.Repeat(base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n", 70), 1),
		"too long":        good + strings.Repeat("x", MaxReceipt),
		"a short hash":    strings.Replace(good, "index 1\n", "index 1\nAAAA\n", 1),
	} {
		if _, err := ReadReceipt([]byte(b)); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := runPolicy(t)
	for name, c := range map[string]struct {
		change func(*Receipt)
		want   error
	}{
		"another index":          {func(r *Receipt) { r.Index = 2 }, ErrNotInTheLog},
		"index beyond the log":   {func(r *Receipt) { r.Index = 7 }, ErrNotInTheLog},
		"a hash less":            {func(r *Receipt) { r.Proof = r.Proof[1:] }, ErrNotInTheLog},
		"another time":           {func(r *Receipt) { r.Time = r.Time.Add(time.Millisecond) }, ErrNotInTheLog},
		"another offset":         {func(r *Receipt) { r.Offset++ }, ErrNotInTheLog},
		"a checkpoint too old":   {func(r *Receipt) { r.Checkpoint = log.checkpoint(t, 1, 1, 2) }, ErrNotInTheLog},
		"a checkpoint too new":   {func(r *Receipt) { r.Checkpoint = log.checkpoint(t, 6, 1, 2) }, ErrNotInTheLog},
		"a witness too few":      {func(r *Receipt) { r.Checkpoint = log.checkpoint(t, 7, 1) }, ErrQuorum},
		"a witness nobody asked": {func(r *Receipt) { r.Checkpoint = log.checkpoint(t, 7, 1, 2, 3) }, ErrUnknownSigner},
	} {
		x := r
		c.change(&x)
		if _, err := p.VerifyReceipt(x, envelope); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := p.VerifyReceipt(r, []byte("{ }\n")); !errors.Is(err, ErrNotInTheLog) {
		t.Errorf("another envelope: %v", err)
	}
}

func TestCheckpointErrors(t *testing.T) {
	_, _, log := runReceipt(t)
	p := runPolicy(t)
	good := string(log.checkpoint(t, 7, 1, 2))
	signs := func(s string) string { return s[strings.LastIndex(s, "\n\n")+2:] }
	lines := strings.SplitAfter(signs(good), "\n")
	sign := func(text string, signers ...note.Signer) string {
		b, err := note.Sign(&note.Note{Text: text}, signers...)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	own := runNote(NoteSigner(context.Background(), runOrigin, runSigner('L')))
	hash := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, c := range map[string]struct {
		raw  string
		want error
	}{
		"good":                  {good, nil},
		"empty":                 {"", ErrCheckpoint},
		"no signatures":         {strings.TrimSuffix(good, signs(good)), ErrCheckpoint},
		"twice":                 {good + lines[1], ErrCheckpoint},
		"not signed by the log": {strings.Replace(good, lines[0], "", 1), ErrNotTheLog},
		"another root":          {strings.Replace(good, "\n7\n", "\n8\n", 1), ErrCheckpointSignature},
		"a line break within":   {good[:len(good)-3] + "\r" + good[len(good)-3:], ErrCheckpoint},
		"cut":                   {good[:len(good)-1], ErrCheckpoint},
		"more text":             {good + "more\n", ErrCheckpoint},
		"another log's name":    {sign("other.example\n7\n"+hash+"\n", own), ErrNotTheLog},
		"no lines":              {sign("x\n", own), ErrCheckpoint},
		"size with zero":        {sign(runOrigin+"\n07\n"+hash+"\n", own), ErrCheckpoint},
		"size below zero":       {sign(runOrigin+"\n-7\n"+hash+"\n", own), ErrCheckpoint},
		"short root":            {sign(runOrigin+"\n7\nAAAA\n", own), ErrCheckpoint},
		"quorum":                {sign(runOrigin+"\n7\n"+hash+"\n", own), ErrQuorum},
		"too long":              {strings.Repeat("x", maxCheckpoint) + good, ErrCheckpoint},
	} {
		if _, err := p.Open([]byte(c.raw)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := p.Open([]byte(sign(runOrigin+"\n7\n"+hash+"\n", own))); err == nil || !strings.Contains(err.Error(), "0 of the 2 that are asked for, among 2 (one, two)") {
		t.Errorf("quorum: %v", err)
	}
	if _, err := (Policy{}).Open([]byte(good)); !errors.Is(err, ErrUnknownSigner) {
		t.Errorf("the zero policy: %v", err)
	}
}
