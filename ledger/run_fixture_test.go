package ledger

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// runNow is when everything in these tests is signed.
var runNow = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

const runNonce = "00112233445566778899aabbccddeeff"

// proofFiles are those of a run.
var proofFiles = runLayout.proofs()

// runSigner is a key that is the same in every test run.
func runSigner(n byte) Signer {
	seed := sha256.Sum256([]byte{'r', 'u', 'n', n})
	return HeldKey(ed25519.NewKeyFromSeed(seed[:]))
}

func runID(n byte) ulid.ULID { return ulid.ULID{1, 2, 3, 15: n} }

func runKey(t testing.TB, s, by Signer, node string, roles ...Role) Key {
	t.Helper()
	k, err := StateKey(context.Background(), s.Public(), by, KeyOptions{
		Node: node, Owner: "Ada Example", Roles: roles, ID: runID(200), Now: runNow.AddDate(0, -1, 0), NotAfter: runNow.AddDate(0, 1, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// runSummary and runHealth stand for what is computed from the small run.
func runSummary(id string) assay.Summary {
	p := func(v float64) assay.Dist {
		return assay.Dist{N: 2, Effective: 2, Mean: v, Min: v, Max: v, Percentiles: []assay.Percentile{
			{Level: 50, Value: v, Lo: math.NaN(), Hi: math.NaN(), Need: 6}, {Level: 99, Value: v, Lo: math.NaN(), Hi: math.NaN(), Need: 368},
		}}
	}
	return assay.Summary{
		Format: assay.SummaryFormat, RunID: id, Status: assay.StatusComplete,
		Client: assay.ClientSummary{Certificate: assay.Certified, Clock: assay.ClockKernel},
		Stages: []assay.StageSummary{{
			Name: "1 stream", Complete: true, SteadyFrom: 1, SteadyTo: 2, Requests: 2, OK: 2,
			TTFT: p(12.5), TPOT: p(3.25), E2E: p(40), RequestsPerSecond: 2, OutputTokensPerSecond: 20, GoodputPerSecond: 2,
			Objectives: []assay.Held{{Objective: assay.Objective{Metric: "ttft", Stat: "p99", Max: 200}, Measured: assay.Quantity{N: 2, Est: 12.5, Lo: 12, Hi: 13}, Verdict: assay.Pass}},
			Kept:       assay.Pass,
		}},
		Warnings: []assay.Warning{},
	}
}

func runHealth(id string) assay.Health {
	score := 0.9
	return assay.Health{
		Format: assay.HealthFormat, RunID: id, NodeID: "node-1", Timestamp: "2026-11-15T11:00:00Z", Verdict: assay.Pass, Because: "all is well",
		Score: assay.HealthScore{Overall: &score}, Findings: []assay.Finding{}, GPUs: []assay.GPUHealth{},
	}
}

func runRecompute(dir string) (assay.Summary, assay.Health, error) {
	run, err := journal.Open(dir)
	if err != nil {
		return assay.Summary{}, assay.Health{}, err
	}
	return runSummary(run.Manifest().ID), runHealth(run.Manifest().ID), nil
}

// runDirectory makes a small run that has ended.
func runDirectory(t testing.TB, id, node, nonce string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := journal.Create(dir, assay.Manifest{
		ID: id, Created: runNow.Add(-time.Hour).UnixNano(), Node: assay.Node{ID: node, Hostname: "bench", OS: "linux", Arch: "amd64", Cores: 2, GPUs: []assay.GPU{{UUID: "GPU-0", Name: "made up"}}},
		Engine: assay.Engine{URL: "http://127.0.0.1:8000", Backend: "openai-chat", Model: "made-up", Version: "1"}, Clock: assay.ClockKernel,
		Nonce: nonce, Version: assay.Version{Assay: "0.1.0", Go: "go1.26", BinarySHA256: fmt.Sprintf("%064x", 7)}, Config: json.RawMessage(`{"load": {"mode": "closed"}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	value := 42.0
	sum, health := runSummary(id), runHealth(id)
	for _, err := range []error{
		w.Request(&assay.Request{ID: "a", Stage: "1 stream", Sent: 1, First: 2, Last: 3, End: 4}),
		w.Request(&assay.Request{ID: "b", Stage: "1 stream", Sent: 2, First: 3, Last: 4, End: 5}),
		w.Reading(assay.Reading{At: 1, Source: "nvml", Name: "gpu_power_watts", Device: "GPU-0", Value: &value}),
		w.Check(assay.Check{At: 1, Name: "compute.product", Device: "GPU-0", Verdict: assay.Pass, Evidence: "right"}),
		w.Event(assay.Event{At: 1, Kind: assay.EventStageStarted, Stage: "1 stream"}),
		w.Checkpoint(assay.Checkpoint{At: 5, Status: assay.StatusComplete, Sent: 2, Done: 2}),
		w.Summary(&sum), w.Health(&health), w.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runLog is a log in memory: C2SP's bytes with none of its tiles.
type runLog struct {
	leaves [][]byte // hashes
}

const runOrigin = "log.example.org/gpu"

func (l *runLog) add(entry []byte) uint64 {
	l.leaves = append(l.leaves, rfc6962.DefaultHasher.HashLeaf(entry))
	return uint64(len(l.leaves) - 1)
}

func (l *runLog) hash(id compact.NodeID) []byte {
	begin, end := id.Coverage()
	r := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	for _, h := range l.leaves[begin:end] {
		if err := r.Append(h, nil); err != nil {
			panic(err)
		}
	}
	h, err := r.GetRootHash(nil)
	if err != nil {
		panic(err)
	}
	return h
}

// checkpoint is the log at a size, cosigned by witnesses an hour after runNow.
func (l *runLog) checkpoint(t testing.TB, size int, witnesses ...byte) []byte {
	t.Helper()
	r := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	for _, h := range l.leaves[:size] {
		if err := r.Append(h, nil); err != nil {
			t.Fatal(err)
		}
	}
	root, err := r.GetRootHash(nil)
	if err != nil {
		t.Fatal(err)
	}
	return runCheckpoint(t, size, root, witnesses...)
}

func runCheckpoint(t testing.TB, size int, root []byte, witnesses ...byte) []byte {
	t.Helper()
	signers := []note.Signer{runNote(NoteSigner(context.Background(), runOrigin, runSigner('L')))}
	for _, w := range witnesses {
		at := func() time.Time { return runNow.Add(time.Hour + time.Duration(w)*time.Minute) }
		signers = append(signers, runNote(CosignatureSigner(context.Background(), fmt.Sprintf("w%d.example.org", w), runSigner('W'+w), at)))
	}
	b64, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	b, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", runOrigin, size, b64[1:len(b64)-1])}, signers...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func runNote(s note.Signer, err error) note.Signer {
	if err != nil {
		panic(err)
	}
	return s
}

// receipt proves an entry in the log at a size.
func (l *runLog) receipt(t testing.TB, e Entry, index uint64, size int, checkpoint []byte) Receipt {
	t.Helper()
	n, err := proof.Inclusion(index, uint64(size))
	if err != nil {
		t.Fatal(err)
	}
	var hashes [][]byte
	for _, id := range n.IDs {
		hashes = append(hashes, l.hash(id))
	}
	if hashes, err = n.Rehash(hashes, rfc6962.DefaultHasher.HashChildren); err != nil {
		t.Fatal(err)
	}
	r := Receipt{Entry: e, Index: index, Checkpoint: checkpoint}
	r.Entry.Envelope = nil
	for _, h := range hashes {
		r.Proof = append(r.Proof, [32]byte(h))
	}
	return r
}

func runPolicyText() string {
	return fmt.Sprintf("# of the tests\nlog %s\nwitness one %s\nwitness two %s\ngroup both 2 one two\nquorum both\n",
		NoteVerifierKey(runOrigin, runSigner('L').Public()),
		CosignatureVerifierKey("w1.example.org", runSigner('W'+1).Public()),
		CosignatureVerifierKey("w2.example.org", runSigner('W'+2).Public()))
}

func runPolicy(t testing.TB) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(runPolicyText()))
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// provedRun is a run, signed and logged.
type provedRun struct {
	dir  string
	key  Key
	log  *runLog
	opts VerifyOptions
}

func newProvedRun(t testing.TB) provedRun {
	t.Helper()
	s := provedRun{dir: runDirectory(t, "01K74T0AB00000000000000000", "node-1", runNonce), log: &runLog{}}
	signer := runSigner(1)
	s.key = runKey(t, signer, signer, "node-1", RoleRun)
	records, err := SignRun(context.Background(), s.dir, signer, s.key, SignOptions{Now: runNow, IDs: [2]ulid.ULID{runID(1), runID(2)}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		s.log.add([]byte{byte(i)})
	}
	keyEntry := Entry{Position: Position{Topic, 1, 0}, Time: runNow, ID: s.key.Stamp.ID, Envelope: s.key.Envelope}
	entries, at := []Entry{keyEntry}, []uint64{s.log.add(keyEntry.Encode())}
	for i, r := range records {
		e := Entry{Position: Position{Topic, 0, int64(i)}, Time: runNow.Add(time.Second), ID: r.ID, Envelope: r.Value}
		entries, at = append(entries, e), append(at, s.log.add(e.Encode()))
	}
	s.log.add([]byte("later"))
	size := len(s.log.leaves)
	cp := s.log.checkpoint(t, size, 1, 2)
	for i, name := range []string{KeyReceipt, TestResultReceipt, BenchmarkReceiptFile} {
		s.put(t, name, s.log.receipt(t, entries[i], at[i], size, cp).Encode())
	}
	s.opts = VerifyOptions{Keys: NewKeyring(s.key), Policy: runPolicy(t), NeedReceipt: true, Recompute: runRecompute, Now: runNow.Add(2 * time.Hour)}
	return s
}

func (s provedRun) put(t testing.TB, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (s provedRun) get(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (s provedRun) verify(t testing.TB) Verification {
	t.Helper()
	v, err := VerifyRun(s.dir, s.opts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
