package witness

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

// teslog is a real Tessera log, with Tessera's own client of witnesses.
type teslog struct {
	add   func(word string, patience time.Duration) ([]byte, error) // gives the checkpoint that covers it
	close func()
}

// newTeslog opens a log; without a witness's URL it has none.
func newTeslog(t *testing.T, dir string, signer note.Signer, witnessURL string, c *cosigner) (teslog, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	u, err := url.Parse(witnessURL)
	if err != nil {
		t.Fatal(err)
	}
	tw, err := tessera.NewWitness(c.vkey(), u)
	if err != nil {
		t.Fatal(err)
	}
	group := tessera.NewWitnessGroup(0)
	if witnessURL != "" {
		group = tessera.NewWitnessGroup(1, tw)
	}
	driver, err := posix.New(ctx, posix.Config{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	appender, shutdown, reader, err := tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().
		WithCheckpointSigner(signer).
		WithBatching(1, 20*time.Millisecond).
		WithCheckpointInterval(100*time.Millisecond).
		WithWitnesses(group, nil))
	if err != nil {
		cancel()
		return teslog{}, err
	}
	awaiter := tessera.NewPublicationAwaiter(ctx, reader.ReadCheckpoint, 20*time.Millisecond)
	return teslog{
		add: func(word string, patience time.Duration) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			_, cp, err := awaiter.Await(ctx, appender.Add(ctx, tessera.NewEntry([]byte(word))))
			return cp, err
		},
		close: func() {
			end, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer stop()
			_ = shutdown(end) // a log whose checkpoint nobody signs does not end in order
			cancel()
		},
	}, nil
}

func mustTeslog(t *testing.T, dir string, signer note.Signer, witnessURL string, c *cosigner) teslog {
	t.Helper()
	l, err := newTeslog(t, dir, signer, witnessURL, c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Tessera gets cosignatures from our witness over HTTP; a second log with the
// same key, and the same log restored from an old copy, do not.
func TestTesseraLogs(t *testing.T) {
	t.Parallel()
	skey, vkey, err := note.GenerateKey(nil, "log.test/tessera")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	var said words
	c := newCosigner("witness.test/w1", time.Now)
	w := open(t, Options{Logs: []note.Verifier{key}, Signer: c, Verifier: c.verifier(t), Log: said.log()})
	srv := httptest.NewServer(w)
	defer srv.Close()

	dir, backup := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "old")
	check := func(cp []byte) {
		t.Helper()
		n, err := note.Open(cp, note.VerifierList(key, c.verifier(t)))
		if err != nil || len(n.Sigs) != 2 {
			t.Fatalf("checkpoint is not cosigned: %v\n%s", err, cp)
		}
	}
	honest := mustTeslog(t, dir, signer, srv.URL, c)
	for i := range 5 {
		cp, err := honest.add(fmt.Sprint("entry", i), 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		check(cp)
	}
	honest.close()
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	honest = mustTeslog(t, dir, signer, srv.URL, c) // begins with old size 0, learns the size by the 409
	for i := range 4 {
		cp, err := honest.add(fmt.Sprint("later", i), 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		check(cp)
	}
	honest.close()
	if got := w.logs["log.test/tessera"].last.size; got != 9 {
		t.Fatalf("the witness has signed size %d, want 9", got)
	}

	// refused opens a log, adds to it, and wants no cosignature at any step.
	refused := func(t *testing.T, dir string) {
		t.Helper()
		l, err := newTeslog(t, dir, signer, srv.URL, c)
		if err != nil {
			return // Tessera does not begin without its witness
		}
		defer l.close()
		if cp, err := l.add("one more", time.Second); err == nil {
			t.Fatalf("cosigned:\n%s", cp)
		}
	}
	t.Run("another log with the same key", func(t *testing.T) {
		fork := filepath.Join(t.TempDir(), "fork")
		refused(t, fork)
		if !strings.Contains(said.String(), "rolled back") {
			t.Errorf("said %q", said.String())
		}
		l := mustTeslog(t, fork, signer, "", c)
		for i := range 8 {
			if _, err := l.add(fmt.Sprint("forked", i), 20*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		l.close()
		refused(t, fork)
		if !strings.Contains(said.String(), "FORK") {
			t.Errorf("said %q", said.String())
		}
	})
	t.Run("rolled back, then grown past what was signed", func(t *testing.T) {
		l := mustTeslog(t, backup, signer, "", c)
		for i := range 7 { // from 5 to 12, past 9
			if _, err := l.add(fmt.Sprint("other", i), 20*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		l.close()
		refused(t, backup)
		if !strings.Contains(said.String(), "forked") {
			t.Errorf("said %q", said.String())
		}
	})
	if got := w.logs["log.test/tessera"].last.size; got != 9 {
		t.Errorf("the witness has signed size %d, want 9", got)
	}
	// The honest log goes on.
	honest = mustTeslog(t, dir, signer, srv.URL, c)
	defer honest.close()
	cp, err := honest.add("after all that", 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	check(cp)
}
