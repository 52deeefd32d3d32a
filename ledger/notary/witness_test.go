package notary

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/witness"
)

// watched starts a witness of our own and gives a policy that needs it.
func watched(t *testing.T, hears *parttest.Buffer) (policy []byte, server *httptest.Server) {
	t.Helper()
	key := held("witness")
	const name = "example.org/witness"
	v := must(note.NewVerifier(ledger.NoteVerifierKey(origin, held("log").Public())))
	o := witness.Options{
		Dir: t.TempDir(), Signer: must(ledger.CosignatureSigner(context.Background(), name, key, time.Now)), Logs: []note.Verifier{v},
		Log: slog.New(slog.NewTextHandler(hears, nil)),
	}
	if err := witness.Create(o); err != nil {
		t.Fatal(err)
	}
	w, err := witness.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	server = httptest.NewServer(w)
	t.Cleanup(server.Close)
	return fmt.Appendf(nil, "log %s\nwitness w %s %s\nquorum w\n", ledger.NoteVerifierKey(origin, held("log").Public()), ledger.CosignatureVerifierKey(name, key.Public()), server.URL), server
}

func TestWitnessedAndForked(t *testing.T) {
	var hears parttest.Buffer
	policy, _ := watched(t, &hears)
	dir, m := t.TempDir(), filled(1, 20)
	o := options(t, dir)
	o.Policy = policy
	mustNotarise(t, o, m)
	wantLogged(t, dir, m, envelopes)
	raw, err := os.ReadFile(filepath.Join(dir, "log", "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	p := must(ledger.ParsePolicy(policy))
	if cp, err := p.Open(raw); err != nil || cp.Size != 21 || len(cp.Cosigned) != 1 {
		t.Fatalf("%+v, %v\n%s", cp, err, raw)
	}

	// The same log under the same name with other entries: the witness refuses, the
	// checkpoint is not published, and nothing is said to be well.
	fork, other := t.TempDir(), filled(1, 30)
	o = options(t, fork)
	o.Policy = policy
	n := mustOpen(t, o)
	if err := n.Run(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "0 of 31") {
		t.Errorf("got %v", err)
	}
	if raw, size, err := published(n.checkpointPath()); err != nil || size > 0 {
		t.Errorf("published %s, %v", raw, err)
	}
	if all := hears.String(); !strings.Contains(all, "fork") && !strings.Contains(all, "not grow") && !strings.Contains(all, "consisten") {
		t.Errorf("the witness said %q", hears.String())
	}
}

// Witnesses that are away hold up checkpoints and nothing else; when they are
// back, the checkpoint comes.
func TestWitnessesAway(t *testing.T) {
	var hears parttest.Buffer
	policy, server := watched(t, &hears)
	var away struct {
		sync.Mutex
		yes bool
	}
	away.yes = true
	inner := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		away.Lock()
		defer away.Unlock()
		if away.yes {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		inner.ServeHTTP(w, r)
	})
	dir, m := t.TempDir(), filled(1, 20)
	o := options(t, dir)
	o.Policy = policy
	n := mustOpen(t, o)
	if err := n.Run(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if n.size != 21 {
		t.Errorf("%d entries", n.size)
	}
	n.release()
	away.Lock()
	away.yes = false
	away.Unlock()
	mustNotarise(t, o, m)
	wantLogged(t, dir, m, envelopes)
}
