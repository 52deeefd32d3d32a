package tlog

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
	"k8s.io/klog/v2"

	"github.com/assay-bench/assay/ledger"
)

const testOrigin = "log.example.org/test"

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// testKey is a key from a word, so that tests do not differ from run to run.
type testKey struct{ ed25519.PrivateKey }

func keyOf(word string) testKey {
	seed := sha256.Sum256([]byte(word))
	return testKey{ed25519.NewKeyFromSeed(seed[:])}
}

func (k testKey) Public() ed25519.PublicKey { return k.PrivateKey.Public().(ed25519.PublicKey) }
func (k testKey) Sign(_ context.Context, msg []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, msg), nil
}

func logSigner(t testing.TB) note.Signer {
	t.Helper()
	s, err := ledger.NoteSigner(context.Background(), testOrigin, keyOf("log"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func logVKey() string { return ledger.NoteVerifierKey(testOrigin, keyOf("log").Public()) }

func testPolicy(t testing.TB) ledger.Policy {
	t.Helper()
	return policyOf(t, "log "+logVKey()+"\nquorum none\n")
}

func policyOf(t testing.TB, text string) ledger.Policy {
	t.Helper()
	p, err := ledger.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// testEntry is entry i of history h.
func testEntry(h string, i int) ledger.Entry {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", h, i))
	var id ulid.ULID
	copy(id[:], sum[:])
	id[0] &= 0x7f >> 5
	return ledger.Entry{
		Position: ledger.Position{Topic: "t", Partition: int32(i % 3), Offset: int64(i)},
		Time:     time.UnixMilli(int64(1_700_000_000_000 + i)).UTC(),
		ID:       id,
		Envelope: fmt.Appendf(nil, "{%s %d}", h, i),
	}
}

// appender is a log at work, as the notary sets it up.
type appender struct {
	add   *tessera.Appender
	read  tessera.LogReader
	close func(context.Context) error
	stop  context.CancelFunc
}

type logOptions struct {
	batch     uint
	witnesses *tessera.WitnessGroup
	collect   time.Duration
}

func startLog(t testing.TB, dir string, o logOptions) *appender {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d, err := posix.New(ctx, posix.Config{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if o.batch == 0 {
		o.batch = 256
	}
	ao := tessera.NewAppendOptions().WithCheckpointSigner(logSigner(t)).WithBatching(o.batch, 50*time.Millisecond).
		WithCheckpointInterval(100 * time.Millisecond).WithGarbageCollectionInterval(o.collect)
	if o.witnesses != nil {
		ao = ao.WithWitnesses(*o.witnesses, nil)
	}
	a, shutdown, r, err := tessera.NewAppender(ctx, d, ao)
	if err != nil {
		t.Fatal(err)
	}
	return &appender{a, r, shutdown, cancel}
}

// append adds the entries from..to-1 of a history and waits until they are
// published.
func (a *appender) append(t testing.TB, entries ...ledger.Entry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var last tessera.IndexFuture
	for _, e := range entries {
		last = a.add.Add(ctx, tessera.NewEntry(e.Encode()))
	}
	if _, _, err := tessera.NewPublicationAwaiter(ctx, a.read.ReadCheckpoint, 20*time.Millisecond).Await(ctx, last); err != nil {
		t.Fatal(err)
	}
}

func (a *appender) end(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := a.close(ctx); err != nil {
		t.Fatal(err)
	}
	a.stop()
}

func history(h string, from, to int) []ledger.Entry {
	var list []ledger.Entry
	for i := from; i < to; i++ {
		list = append(list, testEntry(h, i))
	}
	return list
}

// makeLog makes a log by Tessera that had a checkpoint at each of these sizes.
func makeLog(t testing.TB, dir, h string, sizes ...int) {
	t.Helper()
	a := startLog(t, dir, logOptions{batch: 1024})
	from := 0
	for _, to := range sizes {
		a.append(t, history(h, from, to)...)
		from = to
	}
	a.end(t)
}

func open(t testing.TB, where string) Log {
	t.Helper()
	l, err := Open(where, OpenOptions{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func files(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "log")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func checkpointOf(t testing.TB, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// prove makes the receipt of an entry under the log's newest checkpoint.
func prove(ctx context.Context, src Source, p ledger.Policy, index uint64) (ledger.Receipt, []byte, error) {
	c, err := Checkpoint(ctx, src, p)
	if err != nil {
		return ledger.Receipt{}, nil, err
	}
	return ProveAt(ctx, src, p, c, index)
}
