package operate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/clitest"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/witness"
)

type memoryKey ed25519.PrivateKey

func (k memoryKey) Public() ed25519.PublicKey {
	return ed25519.PrivateKey(k).Public().(ed25519.PublicKey)
}
func (k memoryKey) Sign(_ context.Context, b []byte) ([]byte, error) {
	return ed25519.Sign(ed25519.PrivateKey(k), b), nil
}

func TestWitnessCommand(t *testing.T) {
	dir := t.TempDir()
	key := memoryKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)))
	skey, vkey, err := note.GenerateKey(nil, "log.example.org/gpu")
	if err != nil {
		t.Fatal(err)
	}
	logSigner, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(dir, "policy.txt")
	if err := os.WriteFile(policy, []byte("log "+vkey+"\nquorum none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := witnessFlags{
		key: keys.SignerFlags{Key: filepath.Join(dir, "absent.key")}, listen: cli.Listener{Address: "127.0.0.1:0"},
		dir: filepath.Join(dir, "state"), name: "witness.example.org/w1", policy: policy,
	}

	for _, c := range []struct {
		name  string
		spoil func(*witnessFlags)
		want  string
	}{
		{"no directory", func(f *witnessFlags) { f.dir = "" }, "--dir"},
		{"no key", func(f *witnessFlags) { f.key.Key = "" }, "--key"},
		{"no name", func(f *witnessFlags) { f.name = "" }, "--name"},
		{"no log", func(f *witnessFlags) { f.policy = "" }, "--log"},
		{"bad log", func(f *witnessFlags) { f.logs = []string{"nonsense"} }, "verifier key"},
		{"reached by others", func(f *witnessFlags) { f.listen.Address = "0.0.0.0:0" }, "--insecure"},
		{"no such key", func(*witnessFlags) {}, "absent.key"},
	} {
		f := good
		c.spoil(&f)
		if err := f.run(t.Context(), keys.Secrets{Now: time.Now}, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}

	logs, err := good.verifiers()
	if err != nil {
		t.Fatal(err)
	}
	f := good
	f.name = "my witness"
	if err := f.serve(t.Context(), key, logs, time.Now, io.Discard); !errors.Is(err, ledger.ErrNoteName) {
		t.Errorf("a name with a space: %v", err)
	}
	f = good
	if err := f.serve(t.Context(), key, logs, time.Now, io.Discard); !errors.Is(err, witness.ErrNotBegun) || !strings.Contains(err.Error(), "--new") {
		t.Errorf("a directory that nobody made: %v", err)
	}
	f.create = true
	for _, want := range []error{nil, witness.ErrBegun} {
		if err := f.serve(t.Context(), key, logs, time.Now, io.Discard); !errors.Is(err, want) {
			t.Errorf("--new: %v, want %v", err, want)
		}
	}
	w := clitest.Serve(t, func(ctx context.Context, out io.Writer) error {
		f := good
		return f.serve(ctx, key, logs, time.Now, out)
	})
	url := w.URL
	f = good
	if err := f.serve(t.Context(), key, logs, time.Now, io.Discard); !errors.Is(err, witness.ErrInUse) {
		t.Errorf("a second one in the directory: %v", err)
	}
	var answer bytes.Buffer
	if err := askHealth(t.Context(), url, "", &answer); err != nil || answer.String() != "ok\n" {
		t.Errorf("health: %v %q", err, answer.String())
	}
	cp, err := note.Sign(&note.Note{Text: "log.example.org/gpu\n1\n" + tlog.RecordHash([]byte("leaf")).String() + "\n"}, logSigner)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url+"/add-checkpoint", "", strings.NewReader("old 0\n\n"+string(cp)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sig, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %s %v", resp.StatusCode, sig, err)
	}
	// The key of the line that was printed for policies verifies it.
	_, line, _ := strings.Cut(w.Said.String(), "witness NAME ")
	v, err := fnote.NewVerifierForCosignatureV1(strings.Fields(line)[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open(append(cp, sig...), note.VerifierList(v)); err != nil {
		t.Error(err)
	}
	if err := w.Stop(); err != nil {
		t.Errorf("told to end: %v", err)
	}
}

func TestHealthCommand(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/well/healthz":
		case "/moved/healthz":
			http.Redirect(w, r, "/well/healthz", http.StatusFound)
		default:
			http.Error(w, "disk\x1b full", http.StatusServiceUnavailable)
		}
	}))
	if err := askHealth(t.Context(), srv.URL+"/well/", "", io.Discard); err != nil {
		t.Error(err)
	}
	err := askHealth(t.Context(), srv.URL, "", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "not well") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("not well: %v", err)
	}
	if err := askHealth(t.Context(), srv.URL+"/moved", "", io.Discard); err == nil || !strings.Contains(err.Error(), "302") {
		t.Errorf("sent elsewhere: %v", err)
	}
	srv.Close()
	if err := askHealth(t.Context(), srv.URL, "", io.Discard); err == nil || !strings.Contains(err.Error(), "did not answer") {
		t.Errorf("gone: %v", err)
	}
}
