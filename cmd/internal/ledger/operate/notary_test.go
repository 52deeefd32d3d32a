package operate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	stdlog "log"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"k8s.io/klog/v2"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/brokers"
	"github.com/assay-bench/assay/cmd/internal/cli/clitest"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
	"github.com/assay-bench/assay/ledger/notary"
)

func TestNotaryCommandIsUsedRightly(t *testing.T) {
	dir := t.TempDir()
	key := memoryKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, 32)))
	k, err := ledger.StateKey(context.Background(), key.Public(), key, ledger.KeyOptions{Node: "hq", Owner: "Example", Roles: []ledger.Role{ledger.RoleAuthority}})
	if err != nil {
		t.Fatal(err)
	}
	pub, policy := filepath.Join(dir, "a.pub"), filepath.Join(dir, "policy.txt")
	for path, b := range map[string][]byte{pub: k.Envelope, policy: []byte("log " + ledger.NoteVerifierKey("log.example.org", key.Public()) + "\nquorum none\n")} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*notaryFlags)
		want  string
	}{
		{"no directory", func(f *notaryFlags) { f.dir = "" }, "--dir"},
		{"no key", func(f *notaryFlags) { f.key.Key = "" }, "--key"},
		{"no origin", func(f *notaryFlags) { f.origin = "" }, "--origin"},
		{"nobody trusted", func(f *notaryFlags) { f.trust = nil }, "--trust"},
		{"a policy as trust", func(f *notaryFlags) { f.trust = []string{policy} }, "--policy"},
		{"keys as policy", func(f *notaryFlags) { f.policy = pub }, "not a policy"},
		{"no policy file", func(f *notaryFlags) { f.policy = pub + "x" }, "--policy"},
		{"no broker", func(f *notaryFlags) { f.Flags = brokers.Flags{} }, "--kafka"},
		{"batches of nothing", func(f *notaryFlags) { f.batchSize = 0 }, "--batch-size"},
		{"no clock is right", func(f *notaryFlags) { f.clocks = 0 }, "--max-clock-difference"},
		{"open to others", func(f *notaryFlags) { f.listen.Address = "0.0.0.0:8080" }, "--tls-cert"},
		{"no such key", func(*notaryFlags) {}, "absent.key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := notaryFlags{
				key:    keys.SignerFlags{Key: filepath.Join(dir, "absent.key")},
				listen: cli.Listener{Address: "127.0.0.1:0"}, dir: filepath.Join(dir, "notary"), origin: "log.example.org", trust: []string{pub},
				batchSize: 10, batchAge: time.Millisecond, checkpoints: time.Second, clocks: time.Minute,
			}
			kafka := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.Register(kafka)
			if err := kafka.Set("kafka", "127.0.0.1:1"); err != nil {
				t.Fatal(err)
			}
			c.spoil(&f)
			err := f.run(t.Context(), keys.Secrets{Getenv: func(string) string { return "" }, Now: time.Now})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}

// oneRecord is a feed with a key's statement that is in order.
type oneRecord struct{ in notary.Incoming }

func (o oneRecord) Partitions(context.Context) (map[int32]notary.Range, error) {
	return map[int32]notary.Range{0: {Start: 0, End: 1}}, nil
}

func (o oneRecord) Read(ctx context.Context, from map[int32]int64, deliver func([]notary.Incoming) error) error {
	if from[0] == 0 {
		if err := deliver([]notary.Incoming{o.in}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestNotaryCommandServesAndStops(t *testing.T) {
	key := memoryKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, 32)))
	k, err := ledger.StateKey(context.Background(), key.Public(), key, ledger.KeyOptions{Node: "hq", Owner: "Example", Roles: []ledger.Role{ledger.RoleAuthority}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ledger.NoteSigner(context.Background(), "log.example.org", key)
	if err != nil {
		t.Fatal(err)
	}
	f := notaryFlags{listen: cli.Listener{Address: "127.0.0.1:0"}}
	feed := oneRecord{notary.Incoming{
		Position: ledger.Position{Topic: ledger.Topic}, Time: time.Now(),
		Record: ledger.Record{ID: k.Stamp.ID, Kind: ledger.KindEnvelope, Node: k.Node, Value: k.Envelope},
	}}
	dir := t.TempDir()
	served := clitest.Serve(t, func(ctx context.Context, out io.Writer) error {
		log := slog.New(slog.NewTextHandler(out, nil))
		routeTessera(log)
		return f.serve(ctx, feed, notary.Options{Dir: dir, Keys: ledger.NewKeyring(k), Signer: signer, CheckpointInterval: 100 * time.Millisecond, Log: log})
	})
	get := func(path string) (int, string) {
		resp, err := http.Get(served.URL + path)
		if err != nil {
			return 0, ""
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	var code int
	var body string
	for range 500 {
		if code, body = get("/lookup/" + k.Stamp.ID.String()); code == http.StatusOK {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if body != "{\"index\": 0}\n" {
		t.Errorf("lookup: %d %s\n%s", code, body, served.Said)
	}
	if code, body := get("/healthz"); code != http.StatusOK {
		t.Errorf("health: %d %s", code, body)
	}
	if err := served.Stop(); err != nil {
		t.Error(err)
	}
}

func TestNotaryOutcome(t *testing.T) {
	usage := func(err error) error { return err }
	for err, want := range map[error]func(error) error{
		notary.ErrTruncated: cli.Failed, notary.ErrRewritten: cli.Failed, notary.ErrRolledBack: cli.Failed,
		notary.ErrWrite: cli.Unknown, notary.ErrLocked: cli.Unknown, kafka.ErrUnreachable: cli.Unknown, errors.New("usage"): usage,
		feedError(kafka.ErrDeleted): cli.Failed, feedError(kafka.ErrTruncated): cli.Failed,
	} {
		if got := notaryOutcome(err); got != want(err) {
			t.Errorf("%v has the exit code of %#v", err, got)
		}
	}
	for line, want := range map[string]struct {
		level slog.Level
		words string
	}{
		"W1115 09:00:00.000000       1 files.go:155] publishCheckpoint: no\n": {slog.LevelWarn, "publishCheckpoint: no"},
		"I1115 09:00:00.000000       1 files.go:155] fine\n":                  {slog.LevelDebug, "fine"},
		"E": {slog.LevelError, "E"}, "": {slog.LevelDebug, ""},
	} {
		if level, words := klogWords([]byte(line)); level != want.level || words != want.words {
			t.Errorf("%q: %s %q", line, level, words)
		}
	}
}

// TestTesseraSpeaksInOurLog has what Tessera says by klog and by slog's default in
// our log, and the default where it was.
func TestTesseraSpeaksInOurLog(t *testing.T) {
	// klog has one logger for the process, to be set before anything speaks; the
	// notary of another test may have spoken here.
	const alone = "ASSAY_TEST_TESSERA_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	before := slog.Default()
	flags, out := stdlog.Flags(), stdlog.Writer()
	t.Cleanup(func() { stdlog.SetFlags(flags); stdlog.SetOutput(out) })
	var said parttest.Buffer
	routeTessera(slog.New(slog.NewTextHandler(&said, nil)))
	klog.Warning("by klog")
	slog.WarnContext(t.Context(), "Failed to remove temporary file", slog.String("name", "tile"), slog.Any("error", errors.New("no")))
	slog.Error("by slog")
	stdlog.Print("by log")
	for _, want := range []string{
		`level=WARN msg="by klog" from=tessera`,
		`level=WARN msg="Failed to remove temporary file name=tile error=no" from="default log"`,
		`level=ERROR msg="by slog" from="default log"`,
		`level=WARN msg="by log" from="default log"`,
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %s in\n%s", want, said.String())
		}
	}
	if slog.Default() != before {
		t.Error("slog has another default")
	}
}

// From a real broker into the log, with the broker killed in between.
func TestRealNotaryReadsKafka(t *testing.T) {
	c := kafkatest.Start(t, 1)
	ctx := t.Context()
	conf := kafka.Config{Brokers: c.Brokers, Topic: ledger.Topic}
	conn, err := kafka.Dial(ctx, conf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.EnsureTopic(ctx, 3); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	key := memoryKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, 32)))
	k, err := ledger.StateKey(context.Background(), key.Public(), key, ledger.KeyOptions{Node: "node", Owner: "Example"})
	if err != nil {
		t.Fatal(err)
	}
	sink, err := kafka.NewSink(conf)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	send := func(n int) {
		t.Helper()
		var rs []ledger.Record
		for range n {
			rs = append(rs, testRun(t, key, "node"))
		}
		if _, err := sink.Deliver(ctx, rs); err != nil {
			t.Fatal(err)
		}
	}
	send(100)
	signer, err := ledger.NoteSigner(context.Background(), "log.example.org", key)
	if err != nil {
		t.Fatal(err)
	}
	var said parttest.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	routeTessera(log)
	reader, err := kafka.NewReader(conf)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	n, err := notary.Open(ctx, notary.Options{Dir: t.TempDir(), Keys: ledger.NewKeyring(k), Signer: signer, CheckpointInterval: 100 * time.Millisecond, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- n.Run(run, &kafkaFeed{reader: reader, log: log}) }()
	logged := func(want string) {
		t.Helper()
		for range 3000 {
			w := &answerBuffer{header: http.Header{}}
			n.Handler().ServeHTTP(w, must(http.NewRequest(http.MethodGet, "/metrics", nil)))
			if strings.Contains(w.String(), "assay_notary_log_entries "+want+"\n") {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatalf("the log has not %s entries\n%s", want, said.String())
	}
	logged("100")
	c.Kill(1)
	c.Restart(1)
	send(50)
	logged("150")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type answerBuffer struct {
	bytes.Buffer
	header http.Header
}

func (a *answerBuffer) Header() http.Header { return a.header }
func (a *answerBuffer) WriteHeader(int)     {}

func testRun(t *testing.T, key ledger.Signer, node string) ledger.Record {
	t.Helper()
	st := ledger.Stamp{ID: ulid.Make(), Node: node, Nonce: strings.Repeat("0f", 16), Time: time.Now().UTC()}
	predicate := must(json.Marshal(ledger.Benchmark{Stamp: st, Run: ledger.BenchmarkRun{ID: "r", Status: "done", Created: st.Time},
		GPUs: []ledger.BenchmarkGPU{}, Tool: ledger.BenchmarkTool{Assay: "v1"}, Results: []ledger.Result{}}))
	payload := must(json.Marshal(ledger.Statement{Type: ledger.StatementType, PredicateType: ledger.GPUBenchmark, Predicate: predicate,
		Subject: []ledger.ResourceDescriptor{{Name: "run.json", Digest: map[string]string{"sha256": strings.Repeat("0", 64)}}}}))
	e, err := ledger.Sign(context.Background(), key, payload)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Record{ID: st.ID, Kind: ledger.KindEnvelope, Node: node, Value: e.Encode()}
}
