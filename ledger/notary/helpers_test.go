package notary

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"k8s.io/klog/v2"

	"github.com/assay-bench/assay/ledger"
	ourtlog "github.com/assay-bench/assay/ledger/tlog"
)

const origin = "example.org/notary-test"

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(discard{})
	slog.SetDefault(slog.New(slog.DiscardHandler)) // Tessera speaks by both
	if dir := os.Getenv("NOTARY_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue && os.Getenv("ASSAY_LONG") != "1" {
		if err := f.Value.Set("8"); err != nil { // each is several starts of a notary
			panic(err)
		}
	}
	os.Exit(m.Run())
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// held makes a key that is the same in each process.
func held(name string) ledger.Signer {
	seed := sha256.Sum256([]byte(name))
	return ledger.HeldKey(ed25519.NewKeyFromSeed(seed[:]))
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var entropy = struct {
	sync.Mutex
	n uint64
}{}

// newID is unique in the process and does not depend on chance.
func newID() ulid.ULID {
	entropy.Lock()
	defer entropy.Unlock()
	entropy.n++
	var id ulid.ULID
	if err := id.SetTime(uint64(epoch.UnixMilli())); err != nil {
		panic(err)
	}
	binary.BigEndian.PutUint64(id[8:], entropy.n)
	return id
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// authority is trusted; it certifies the keys of nodes.
func authority() (ledger.Signer, ledger.Key) {
	s := held("authority")
	return s, must(ledger.StateKey(context.Background(), s.Public(), s, ledger.KeyOptions{
		Node: "hq", Owner: "Example", Roles: []ledger.Role{ledger.RoleAuthority}, ID: ulid.ULID{1: 1},
		Now: epoch.Add(-time.Hour), NotAfter: epoch.AddDate(5, 0, 0),
	}))
}

func keyring() *ledger.Keyring {
	_, k := authority()
	return ledger.NewKeyring(k)
}

// nodeKey is a node's key, certified.
func nodeKey(node string) (ledger.Signer, ledger.Key) {
	s, by := held(node), held("authority")
	return s, must(ledger.StateKey(context.Background(), s.Public(), by, ledger.KeyOptions{
		Node: node, Owner: "Owner of " + node, ID: newID(), Now: epoch.Add(-time.Minute), NotAfter: epoch.AddDate(1, 0, 0),
	}))
}

func keyRecord(k ledger.Key) ledger.Record {
	return ledger.Record{ID: k.Stamp.ID, Kind: ledger.KindEnvelope, Node: k.Node, Value: k.Envelope}
}

func statement(id ulid.ULID, node string, at time.Time, pad int) ledger.Statement {
	st := ledger.Stamp{ID: id, Node: node, Nonce: strings.Repeat("0f", 16), Time: at}
	value := 12.5
	b := ledger.Benchmark{Stamp: st, Run: ledger.BenchmarkRun{ID: "run-" + id.String(), Status: "done", Created: at},
		GPUs: []ledger.BenchmarkGPU{}, Tool: ledger.BenchmarkTool{Assay: "v1", Go: "go1.26"}, Results: []ledger.Result{}}
	for range pad {
		b.Results = append(b.Results, ledger.Result{Stage: "steady", Metric: "ttft_ms", Stat: "p50", Unit: "ms", Value: &value, Lo: &value, Hi: &value, N: 100})
	}
	var subjects []ledger.ResourceDescriptor
	for _, name := range []string{"run.json", "requests.jsonl", "telemetry.jsonl", "summary.json"}[:min(4, pad+1)] {
		sum := sha256.Sum256([]byte(name + id.String()))
		subjects = append(subjects, ledger.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": fmt.Sprintf("%x", sum)}})
	}
	return ledger.Statement{Type: ledger.StatementType, Subject: subjects,
		PredicateType: ledger.GPUBenchmark, Predicate: must(json.Marshal(b))}
}

func signed(s ledger.Signer, st ledger.Statement) []byte {
	return must(ledger.Sign(context.Background(), s, must(json.Marshal(st)))).Encode()
}

func runRecord(node string, pad int) ledger.Record {
	id := newID()
	return ledger.Record{ID: id, Kind: ledger.KindEnvelope, Node: node, Value: signed(held(node), statement(id, node, epoch, pad))}
}

func eventRecord(node string) ledger.Record {
	return ledger.Record{ID: newID(), Kind: ledger.KindEvent, Node: node, Value: []byte(`{}`)}
}

// memory is a topic in memory.
type memory struct {
	mu     sync.Mutex
	topic  map[int32][]Incoming // by offset less start
	start  map[int32]int64
	batch  int           // records a delivery; 100 when zero
	pause  time.Duration // between deliveries
	follow bool          // does not end at the end
	fail   error         // given after failAt records
	failAt int
	clock  time.Time // the broker's
}

func newMemory(partitions int32) *memory {
	m := &memory{topic: map[int32][]Incoming{}, start: map[int32]int64{}, clock: epoch.Add(time.Second)}
	for p := range partitions {
		m.topic[p] = nil
	}
	return m
}

func (m *memory) put(partition int32, rs ...ledger.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rs {
		m.clock = m.clock.Add(time.Millisecond)
		offset := m.start[partition] + int64(len(m.topic[partition]))
		m.topic[partition] = append(m.topic[partition], Incoming{Position: ledger.Position{Topic: ledger.Topic, Partition: partition, Offset: offset}, Time: m.clock, Record: r})
	}
}

func (m *memory) Partitions(context.Context) (map[int32]Range, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[int32]Range{}
	for p, rs := range m.topic {
		out[p] = Range{m.start[p], m.start[p] + int64(len(rs))}
	}
	return out, nil
}

func (m *memory) Read(ctx context.Context, from map[int32]int64, deliver func([]Incoming) error) error {
	at := maps.Clone(from)
	given := 0
	for {
		idle := true
		for _, p := range slices.Sorted(maps.Keys(at)) {
			m.mu.Lock()
			rs := m.topic[p][at[p]-m.start[p]:]
			rs = slices.Clone(rs[:min(len(rs), cmp.Or(m.batch, 100))])
			m.mu.Unlock()
			if len(rs) == 0 {
				continue
			}
			idle = false
			at[p] += int64(len(rs))
			if err := deliver(rs); err != nil {
				return err
			}
			if given += len(rs); m.fail != nil && given >= m.failAt {
				return m.fail
			}
			if m.pause > 0 {
				time.Sleep(m.pause)
			}
		}
		if idle && !m.follow {
			return nil
		}
		if idle {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

func logSigner() note.Signer {
	return must(ledger.NoteSigner(context.Background(), origin, held("log")))
}

func options(t testing.TB, dir string) Options {
	log := io.Discard
	if t != nil {
		log = t.Output()
	}
	return Options{
		Dir: dir, Keys: keyring(), Signer: logSigner(), BatchSize: 64, BatchAge: 5 * time.Millisecond,
		CheckpointInterval: 100 * time.Millisecond, SaveInterval: 30 * time.Millisecond, WitnessTimeout: time.Second,
		Now: func() time.Time { return epoch.Add(time.Minute) },
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

// notarise opens, runs to the feed's end and closes.
func notarise(t testing.TB, o Options, feed Feed) (*Notary, error) {
	t.Helper()
	n, err := Open(t.Context(), o)
	if err != nil {
		return nil, err
	}
	err = n.Run(t.Context(), feed)
	if cerr := n.Close(t.Context()); cerr != nil && err == nil {
		t.Error(cerr)
	}
	return n, err
}

func mustNotarise(t testing.TB, o Options, feed Feed) *Notary {
	t.Helper()
	n, err := notarise(t, o, feed)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// readLog reads a log with nothing of ours and nothing of Tessera's: the size and
// root of its checkpoint must be those of its entries.
func readLog(t testing.TB, dir string) []ledger.Entry {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "log", "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	v := must(note.NewVerifier(ledger.NoteVerifierKey(origin, held("log").Public())))
	opened, err := note.Open(raw, note.VerifierList(v))
	if err != nil {
		t.Fatalf("checkpoint: %v\n%s", err, raw)
	}
	lines := strings.SplitN(opened.Text, "\n", 4)
	var size int64
	fmt.Sscan(lines[1], &size)
	var root tlog.Hash
	if root, err = tlog.ParseHash(lines[2]); err != nil {
		t.Fatal(err)
	}
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(at))
		for i, k := range at {
			out[i] = hashes[k]
		}
		return out, nil
	})
	var entries []ledger.Entry
	for index := int64(0); index*256 < size; index++ {
		path := filepath.Join(dir, "log", "tile", "entries", tileName(index))
		if left := size - index*256; left < 256 {
			path += fmt.Sprintf(".p/%d", left)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			k := 2 + int(binary.BigEndian.Uint16(b))
			more, err := tlog.StoredHashes(int64(len(entries)), b[2:k], reader)
			if err != nil {
				t.Fatal(err)
			}
			hashes = append(hashes, more...)
			e, err := ledger.ParseEntry(b[2:k])
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
			b = b[k:]
		}
	}
	if int64(len(entries)) != size {
		t.Fatalf("%d entries under a checkpoint of %d", len(entries), size)
	}
	got, err := tlog.TreeHash(size, reader)
	if err != nil {
		t.Fatal(err)
	}
	if size > 0 && got != root {
		t.Fatalf("root of the entries %v, of the checkpoint %v", got, root)
	}
	return entries
}

func tileName(n int64) string {
	s := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		s = fmt.Sprintf("x%03d/%s", n%1000, s)
	}
	return s
}

// wantLogged holds the log against what of the topic should be in it: each place
// once, with its bytes, and each partition in order.
func wantLogged(t testing.TB, dir string, m *memory, want func(Incoming) bool) {
	t.Helper()
	got := map[ledger.Position]int{}
	last := map[int32]int64{}
	for i, e := range readLog(t, dir) {
		got[e.Position]++
		if at, ok := last[e.Partition]; ok && e.Offset <= at {
			t.Errorf("entry %d: offset %d of partition %d after %d", i, e.Offset, e.Partition, at)
		}
		last[e.Partition] = e.Offset
		in := m.topic[e.Partition][e.Offset-m.start[e.Partition]]
		if string(in.Record.Value) != string(e.Envelope) || in.Record.ID != e.ID || !in.Time.Equal(e.Time) {
			t.Errorf("entry %d is not the record %v", i, e.Position)
		}
	}
	for p, rs := range m.topic {
		for _, in := range rs {
			k := 0
			if want(in) {
				k = 1
			}
			if got[in.Position] != k {
				t.Errorf("%d/%d is %d times in the log, want %d", p, in.Offset, got[in.Position], k)
			}
			delete(got, in.Position)
		}
	}
	if len(got) > 0 {
		t.Errorf("in the log and not in the topic: %v", got)
	}
}

func envelopes(in Incoming) bool { return in.Record.Kind == ledger.KindEnvelope && in.Err == nil }

// filled is a topic with keys, runs and events of some nodes.
func filled(partitions int32, runs int) *memory {
	m := newMemory(partitions)
	for p := range partitions {
		node := fmt.Sprintf("node-%d", p)
		_, k := nodeKey(node)
		m.put(p, eventRecord(node), keyRecord(k))
		for i := range runs {
			m.put(p, runRecord(node, 1))
			if i%5 == 0 {
				m.put(p, eventRecord(node))
			}
		}
	}
	return m
}

func mustOpen(t testing.TB, o Options) *Notary {
	t.Helper()
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// readAfter waits for a checkpoint over everything and reads the log.
func readAfter(t testing.TB, n *Notary, dir string) []ledger.Entry {
	t.Helper()
	for range 500 {
		if _, size, err := published(n.checkpointPath()); err == nil && size == n.size {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return readLog(t, dir)
}

// fsck holds the log's directory to everything that ledger/tlog looks at.
func fsck(t testing.TB, dir string) {
	t.Helper()
	src, err := ourtlog.Open(filepath.Join(dir, "log"), ourtlog.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := must(ledger.ParsePolicy([]byte("log " + ledger.NoteVerifierKey(origin, held("log").Public()) + "\nquorum none\n")))
	r, err := ourtlog.Fsck(t.Context(), src, p, ourtlog.FsckOptions{Keys: keyring()})
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() {
		t.Errorf("fsck: %+v", r.Problems)
	}
}

// checker is as much of a notary as checks records.
func checker(o Options) *Notary {
	o.MaxClockDifference = time.Hour
	n := &Notary{o: o, start: start{places: newPlaces()}, ids: &ids{}}
	n.ids.clear(1 << 10)
	n.rewind()
	return n
}
