package operate

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"k8s.io/klog/v2"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/tlog"
)

const logOrigin = "log.example.org/commands"

// logKey is a key that is the same in each test.
type logKey struct{ ed25519.PrivateKey }

func (k logKey) Public() ed25519.PublicKey { return k.PrivateKey.Public().(ed25519.PublicKey) }
func (k logKey) Sign(_ context.Context, msg []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, msg), nil
}

var theLogKey = logKey{ed25519.NewKeyFromSeed([]byte("a key of the log for tests only."))}

// statementEnvelope is a signed statement with an id.
func statementEnvelope(t *testing.T, id ulid.ULID) []byte {
	t.Helper()
	payload := fmt.Sprintf(`{"_type":%q,"subject":[{"name":"run.json","digest":{"sha256":"%064d"}}],"predicateType":%q,"predicate":{"id":%q,"node":"n","nonce":"","time":"2026-11-15T00:00:00Z"}}`,
		ledger.StatementType, 0, ledger.GPUBenchmark, id)
	e, err := ledger.Sign(context.Background(), theLogKey, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return e.Encode()
}

func idOf(i int) ulid.ULID { return ulid.ULID{0, 1, 15: byte(i), 14: byte(i >> 8)} }

// growLog appends entries from..to-1 to the log in a notary's directory.
func growLog(t *testing.T, dir string, from, to int) {
	t.Helper()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	d, err := posix.New(ctx, posix.Config{Path: filepath.Join(dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ledger.NoteSigner(context.Background(), logOrigin, theLogKey)
	if err != nil {
		t.Fatal(err)
	}
	a, shutdown, r, err := tessera.NewAppender(ctx, d, tessera.NewAppendOptions().WithCheckpointSigner(signer).
		WithBatching(256, 50*time.Millisecond).WithCheckpointInterval(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	var last tessera.IndexFuture
	for i := from; i < to; i++ {
		e := ledger.Entry{Position: ledger.Position{Topic: "gpu-monitor", Offset: int64(i)}, Time: time.UnixMilli(1_790_000_000_000), ID: idOf(i), Envelope: statementEnvelope(t, idOf(i))}
		last = a.Add(ctx, tessera.NewEntry(e.Encode()))
	}
	if _, _, err := tessera.NewPublicationAwaiter(ctx, r.ReadCheckpoint, 20*time.Millisecond).Await(ctx, last); err != nil {
		t.Fatal(err)
	}
	if err := shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}

func policyFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.txt")
	text := "log " + ledger.NoteVerifierKey(logOrigin, theLogKey.Public()) + "\nquorum none\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// try runs a command and gives what it printed.
func try(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// exits is the exit code that an error stands for.
func exits(err error) int {
	inner := errors.Unwrap(err)
	switch {
	case err == nil:
		return cli.ExitOK
	case inner != nil && reflect.DeepEqual(err, cli.Failed(inner)):
		return cli.ExitFailed
	case inner != nil && reflect.DeepEqual(err, cli.Unknown(inner)):
		return cli.ExitUnknown
	}
	return cli.ExitUsage
}

func TestLedgerFsckCommand(t *testing.T) {
	dir, policy := t.TempDir(), policyFile(t)
	growLog(t, dir, 0, 300)
	out, err := try(t, newLedgerFsck(), dir, "--policy", policy)
	if err != nil || !strings.Contains(out, "entries      300 under a signed checkpoint") || !strings.HasSuffix(out, "good\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(dir, "log/tile/0/000")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[40] ^= 1
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err = try(t, newLedgerFsck(), dir, "--policy", policy)
	if exits(err) != cli.ExitFailed || !strings.Contains(out, "WRONG: tile/0/000: was altered: its hash 1 is not that of entry 1") || strings.Contains(out, "good") {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err = try(t, newLedgerFsck(), dir, "--policy", policy, "--format", "json")
	var r tlog.Report
	if jerr := json.Unmarshal([]byte(out), &r); exits(err) != cli.ExitFailed || jerr != nil || len(r.Problems) != 1 {
		t.Fatalf("%v %v\n%s", err, jerr, out)
	}
	if _, err := try(t, newLedgerFsck(), dir); exits(err) != cli.ExitUsage {
		t.Fatalf("without a policy: %v", err)
	}
	if _, err := try(t, newLedgerFsck(), filepath.Join(dir, "nothing"), "--policy", policy); exits(err) != cli.ExitUnknown {
		t.Fatalf("of nothing: %v", err)
	}
}

// Who can write into a log's directory chooses names there, and steers no
// terminal by them.
func TestFsckSteersNoTerminal(t *testing.T) {
	dir, policy := t.TempDir(), policyFile(t)
	growLog(t, dir, 0, 10)
	const evil = "x\x1b[2J\u009b31m\u202eevil\nWRONG: nothing"
	for _, at := range []string{"log", "log/tile", "log/tile/0"} {
		if err := os.WriteFile(filepath.Join(dir, at, evil), nil, 0o644); err != nil {
			t.Skip(err) // a file system that has no such names
		}
	}
	for _, format := range []string{"text", "json"} {
		out, err := try(t, newLedgerFsck(), dir, "--policy", policy, "--format", format)
		if exits(err) != cli.ExitFailed && err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			if line = strings.TrimSuffix(line, "\n"); !foreign.Plain(line) || strings.HasPrefix(line, "WRONG: nothing") {
				t.Errorf("%s: %q", format, line)
			}
		}
		if !strings.Contains(out, "evil") {
			t.Errorf("the files are not named:\n%s", out)
		}
	}
}

func TestLedgerProveCommand(t *testing.T) {
	dir, policy, run := t.TempDir(), policyFile(t), t.TempDir()
	growLog(t, dir, 0, 10)
	p, err := readPolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	statements := []string{"test-result", "gpu-benchmark"}
	for i, name := range statements {
		if err := os.WriteFile(filepath.Join(run, name+".dsse.json"), statementEnvelope(t, idOf(4+i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := try(t, newLedgerProve(), run, "--log", dir, "--policy", policy)
	if err != nil || !strings.Contains(out, "gpu-benchmark.tlog-proof: entry 5 of 10 in "+logOrigin) {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range statements {
		raw, err1 := os.ReadFile(filepath.Join(run, name+".tlog-proof"))
		envelope, err2 := os.ReadFile(filepath.Join(run, name+".dsse.json"))
		r, err3 := ledger.ReadReceipt(raw)
		_, err4 := p.VerifyReceipt(r, envelope)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
	}
	out, err = try(t, newLedgerProve(), "--index", "3", "--log", dir, "--policy", policy)
	if r, rerr := ledger.ReadReceipt([]byte(out)); err != nil || rerr != nil || r.Index != 3 {
		t.Fatalf("%v %v\n%s", err, rerr, out)
	}
	if _, err := try(t, newLedgerProve(), "--id", idOf(99).String(), "--log", dir, "--policy", policy); exits(err) != cli.ExitUnknown || !errors.Is(err, tlog.ErrNotFound) {
		t.Fatalf("not in the log: %v", err)
	}
	if err := os.WriteFile(filepath.Join(run, "test-result.dsse.json"), statementEnvelope(t, idOf(99)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := try(t, newLedgerProve(), run, "--log", dir, "--policy", policy, "--wait", "700ms"); exits(err) != cli.ExitUnknown {
		t.Fatalf("a run that is still on its way: %v", err)
	}
	if _, err := try(t, newLedgerProve(), run, "--id", idOf(1).String(), "--log", dir, "--policy", policy); exits(err) != cli.ExitUsage {
		t.Fatalf("two things at once: %v", err)
	}
}

func TestLedgerMonitorAndRestoreCommands(t *testing.T) {
	base, policy := t.TempDir(), policyFile(t)
	dir, mirror, state := filepath.Join(base, "notary"), filepath.Join(base, "mirror"), filepath.Join(base, "state")
	growLog(t, dir, 0, 100)
	early := filepath.Join(base, "early")
	if err := os.CopyFS(early, os.DirFS(filepath.Join(dir, "log"))); err != nil {
		t.Fatal(err)
	}
	serves := dir
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.FileServerFS(os.DirFS(filepath.Join(serves, "log"))).ServeHTTP(w, r)
	}))
	defer srv.Close()
	look := func() (string, error) {
		return try(t, newLedgerMonitor(), "--log", srv.URL, "--policy", policy, "--state", state, "--mirror", mirror, "--once")
	}
	if out, err := look(); err != nil || !strings.Contains(out, "100 entries, the first look") {
		t.Fatalf("%v\n%s", err, out)
	}
	growLog(t, dir, 100, 300)
	if out, err := look(); err != nil || !strings.Contains(out, "300 entries, 200 new, goes on from the last, 300 in the mirror") {
		t.Fatalf("%v\n%s", err, out)
	}
	to := filepath.Join(base, "restored")
	_, err := try(t, newLedgerRestore(), "--from", early, "--to", to, "--policy", policy, "--witnessed", state)
	if exits(err) != cli.ExitFailed || !strings.Contains(err.Error(), "100..299 are in none of the copies") {
		t.Fatal(err)
	}
	out, err := try(t, newLedgerRestore(), "--from", early, "--from", mirror, "--to", to, "--policy", policy, "--witnessed", state)
	if err != nil || !strings.Contains(out, "300 entries") {
		t.Fatalf("%v\n%s", err, out)
	}
	growLog(t, to, 300, 310)
	serves = to
	if out, err := look(); err != nil || !strings.Contains(out, "310 entries, 10 new") {
		t.Fatalf("%v\n%s", err, out)
	}
	serves = dir // the old one came back
	_, err = look()
	if exits(err) != cli.ExitFailed || !errors.Is(err, tlog.ErrRollback) {
		t.Fatal(err)
	}
	srv.Close()
	if _, err := look(); exits(err) != cli.ExitUnknown {
		t.Fatalf("a log that is away: %v", err)
	}
}
