package tlog

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/tessera"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/witness"
)

// The appender goes on with a restored log, and who has seen the old one sees a
// continuation.
func TestRestoredLogGoesOn(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "log")
	a := startLog(t, dir, logOptions{batch: 1024})
	a.append(t, history("a", 0, 300)...)
	backup := copyDir(t, dir)
	a.append(t, history("a", 300, 700)...)
	s := serve(t, dir)
	mirror, state := filepath.Join(base, "mirror"), filepath.Join(base, "state")
	m := monitor(t, open(t, s.URL), MonitorOptions{State: state, Mirror: mirror})
	if _, err := m.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.end(t)
	witnessed := checkpointOf(t, dir)

	into := filepath.Join(base, "new", "log")
	if err := os.Mkdir(filepath.Dir(into), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Restore(t.Context(), []Source{open(t, backup)}, into, testPolicy(t), [][]byte{witnessed}, RestoreOptions{})
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "300..699 are in none of the copies") {
		t.Fatalf("a backup that ends too early: %v", err)
	}
	if left := files(t, filepath.Dir(into)); len(left) != 0 {
		t.Fatalf("it left %q", left)
	}
	r, err := Restore(t.Context(), []Source{open(t, backup), open(t, mirror)}, into, testPolicy(t), [][]byte{witnessed}, RestoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Size != 700 || r.From[backup] != 1 || r.From[mirror] != 2 {
		t.Fatalf("%+v", r)
	}
	if r := fsckDir(t, into); !r.OK() || r.Size != 700 || r.Integrated != 700 || len(r.Notes) != 0 {
		t.Fatalf("%+v", r)
	}
	if err := tesseraFsck(t, open(t, into)); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), []Source{open(t, mirror)}, into, testPolicy(t), nil, RestoreOptions{}); !errors.Is(err, ErrNotEmpty) {
		t.Fatalf("over a log that is there: %v", err)
	}

	b := startLog(t, into, logOptions{batch: 1024})
	b.append(t, history("a", 700, 1000)...)
	b.end(t)
	if r := fsckDir(t, into); !r.OK() || r.Size != 1000 {
		t.Fatalf("%+v", r)
	}
	s.dir = into
	if seen, err := m.Check(t.Context()); err != nil || seen.Before != 700 || seen.Size != 1000 {
		t.Fatalf("%+v %v", seen, err)
	}
	// The same, gone on from the backup alone: what everybody would have seen.
	c := startLog(t, backup, logOptions{batch: 1024})
	c.append(t, history("b", 300, 1100)...)
	c.end(t)
	s.dir = backup
	if _, err := m.Check(t.Context()); !errors.Is(err, ErrFork) {
		t.Fatal(err)
	}
}

// A witness has seen more than was published: the quorum was not reached in
// time. The entries are in the backup all the same.
func TestRestoreUpToWhatAWitnessSaw(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "log")
	makeLog(t, dir, "a", 300)
	published := checkpointOf(t, dir)
	a := startLog(t, dir, logOptions{batch: 1024})
	a.append(t, history("a", 300, 333)...)
	a.end(t)
	witnessed := checkpointOf(t, dir)
	if err := os.WriteFile(dir+"/checkpoint", published, 0o644); err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(base, "new")
	r, err := Restore(t.Context(), []Source{open(t, dir)}, into, testPolicy(t), [][]byte{witnessed}, RestoreOptions{})
	if err != nil || r.Size != 333 {
		t.Fatalf("%+v %v", r, err)
	}
	if r := fsckDir(t, into); !r.OK() || r.Size != 333 {
		t.Fatalf("%+v", r)
	}
}

func TestRestoreRefusesCopiesThatDisagree(t *testing.T) {
	base := t.TempDir()
	good, forked := filepath.Join(base, "a", "log"), filepath.Join(base, "b", "log")
	makeLog(t, good, "a", 300)
	makeLog(t, forked, "b", 400)
	altered := copyDir(t, good)
	b, err := os.ReadFile(altered + "/tile/entries/000")
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-2] ^= 1
	if err := os.WriteFile(altered+"/tile/entries/000", b, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string][]string{"forked": {good, forked}, "altered": {altered}} {
		var src []Source
		for _, f := range from {
			src = append(src, open(t, f))
		}
		_, err := Restore(t.Context(), src, filepath.Join(base, "new"), testPolicy(t), nil, RestoreOptions{})
		if !errors.Is(err, ErrAltered) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The damaged copy and a good one: the good one first.
	if _, err := Restore(t.Context(), []Source{open(t, good), open(t, altered)}, filepath.Join(base, "new"), testPolicy(t), nil, RestoreOptions{}); err != nil {
		t.Error(err)
	}
	// A hole in the middle is named.
	if err := os.Remove(good + "/tile/entries/000"); err != nil {
		t.Fatal(err)
	}
	_, err = Restore(t.Context(), []Source{open(t, good)}, filepath.Join(base, "new2"), testPolicy(t), nil, RestoreOptions{})
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "0..255 are in none") {
		t.Error(err)
	}
}

// A log that went on from a backup that is too old is refused by its witness for
// ever; one that was restored up to what the witness has seen is not.
func TestWitnessAcceptsTheRestoredLog(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "log")
	signer, err := ledger.CosignatureSigner(context.Background(), "witness.example.org", keyOf("witness"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	wo := witness.Options{Dir: filepath.Join(base, "witness"), Signer: signer, Logs: testPolicy(t).LogVerifiers()}
	if err := witness.Create(wo); err != nil {
		t.Fatal(err)
	}
	w, err := witness.New(wo)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	srv := httptest.NewServer(w)
	defer srv.Close()
	vkey := ledger.CosignatureVerifierKey("witness.example.org", keyOf("witness").Public())
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	wit, err := tessera.NewWitness(vkey, u)
	if err != nil {
		t.Fatal(err)
	}
	group := tessera.NewWitnessGroup(1, wit)
	o := logOptions{batch: 1024, witnesses: &group}
	policy := policyOf(t, "log "+logVKey()+"\nwitness w "+vkey+"\nquorum w\n")

	a := startLog(t, dir, o)
	a.append(t, history("a", 0, 300)...)
	early := copyDir(t, dir)
	a.append(t, history("a", 300, 700)...)
	a.end(t)
	backup, seen := copyDir(t, dir), [][]byte{checkpointOf(t, dir)}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), []Source{open(t, early)}, dir, policy, seen, RestoreOptions{}); !errors.Is(err, ErrMissing) {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), []Source{open(t, early), open(t, backup)}, dir, policy, seen, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	b := startLog(t, dir, o)
	b.append(t, history("a", 700, 800)...)
	b.end(t)
	c, err := policy.Open(checkpointOf(t, dir))
	if err != nil || c.Size != 800 || len(c.Cosigned) != 1 {
		t.Fatalf("%+v %v", c, err)
	}
	// From the early backup alone it would have been the end of the log.
	f := startLog(t, early, o)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	future := f.add.Add(ctx, tessera.NewEntry(testEntry("b", 900).Encode()))
	if _, _, err := tessera.NewPublicationAwaiter(ctx, f.read.ReadCheckpoint, 20*time.Millisecond).Await(ctx, future); err == nil {
		t.Fatal("the witness signed a log that went back")
	}
	f.stop()
}
