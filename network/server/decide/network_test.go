package decide

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/summary"
)

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// network is a registry with evidence, and a decider on it.
type network struct {
	*testing.T
	clock   *clock
	db      *database.DB
	store   *store.Store
	objects *evidence.Directory
	server  ledger.Signer
	d       *Decider
	scratch string
	owner   string // of those that are taken in; empty: o
	plain   string // a directory of objects beside; empty: none
}

const origin = "https://assay.example"

// policy is the default one with some lines changed.
func (n *network) policy(changes ...string) string {
	n.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "control", "default-policy.yaml"))
	if err != nil {
		n.Fatal(err)
	}
	text := string(b)
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			n.Fatalf("the default policy has no %q", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return text
}

// loose admits nodes without a card, as on a laptop.
func (n *network) loose() string {
	return n.policy("gpu: required", "gpu: none", "min_peers: 3", "min_peers: 2", "share: 0.1", "share: 0.5")
}

func newNetwork(t *testing.T, change func(*Options)) *network {
	t.Helper()
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return newNetworkOn(t, db, change)
}

func newNetworkOn(t *testing.T, db *database.DB, change func(*Options)) *network {
	t.Helper()
	n := &network{T: t, clock: &clock{}, db: db, server: newSigner(t), scratch: t.TempDir()}
	n.store = recording(db, n.server)
	if _, _, err := n.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	if n.objects, err = evidence.NewDirectory(evidence.DirectoryOptions{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.objects.Close() })
	n.apply(n.loose())
	n.d = n.decider(change)
	return n
}

func (n *network) decider(change func(*Options)) *Decider {
	n.Helper()
	o := Options{Store: n.store, Signer: n.server, Origin: origin, Evidence: n.objects, Scratch: n.scratch, Now: n.clock.now, Log: slog.New(slog.NewTextHandler(logTo{n.T}, nil)), Every: 20 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	d, err := New(o)
	if err != nil {
		n.Fatal(err)
	}
	return d
}

// logTo writes to the test's log, also after its end.
type logTo struct{ t *testing.T }

func (l logTo) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(string(bytes.TrimSpace(p)))
	}
	return len(p), nil
}

// recording is the registry with the server's key, as a server has it.
func recording(db *database.DB, by ledger.Signer) *store.Store {
	return store.New(db).RecordedBy(server.Identity{Origin: origin, Own: by}.Record)
}

func newSigner(t *testing.T) ledger.Signer {
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.HeldKey(priv)
}

func (n *network) apply(policy string) {
	n.Helper()
	if _, _, err := n.store.ApplyPolicy(n.Context(), store.Policy{Bytes: []byte(policy), By: "person:1", At: n.clock.now()}, store.Trail{}); err != nil {
		n.Fatal(err)
	}
}

// node is a machine of the network.
type node struct {
	*network
	id     string
	signer ledger.Signer
	key    ledger.Key
}

func newID() string { return ulid.Make().String() }

func (n *network) enrol() *node {
	n.Helper()
	m := n.takeIn()
	if err := n.d.Enrolled(n.Context(), m.id); err != nil {
		n.Fatal(err)
	}
	return m
}

// takeIn is the first half of it.
func (n *network) takeIn() *node {
	n.Helper()
	now := n.clock.now()
	m, owner := &node{network: n, id: newID(), signer: newSigner(n.T)}, cmp.Or(n.owner, "o")
	var err error
	if m.key, err = ledger.StateKey(n.Context(), m.signer.Public(), m.signer, ledger.KeyOptions{Node: m.id, Owner: owner, Now: now, NotAfter: now.AddDate(1, 0, 0)}); err != nil {
		n.Fatal(err)
	}
	hash := store.Hash(m.id)
	if err := n.store.CreateEnrolmentToken(n.Context(), everybody, store.EnrolmentToken{ID: newID(), Hash: hash, Owner: owner, Created: now, Expires: now.Add(time.Hour)}, store.Trail{}); err != nil {
		n.Fatal(err)
	}
	_, err = n.store.Enrol(n.Context(), store.Enrolment{
		TokenHash: hash, At: now,
		Node: store.Node{ID: m.id, Facts: store.Facts{Admission: "pending", Intent: "serve", Contact: "seen", Reasons: []string{"enrolled"}}},
		Key:  store.NodeKey{ID: m.key.ID, PublicKey: m.key.Public, Statement: m.key.Envelope, NotBefore: m.key.NotBefore, NotAfter: m.key.NotAfter},
	})
	if err != nil {
		n.Fatal(err)
	}
	return m
}

// measurement is a run to be made up.
type measurement struct {
	slow   float64 // 1: as fast as nodes are
	began  time.Time
	node   string // another one's
	gpus   []string
	checks []assay.Check
	model  string
	stages int

	replica string
	nonce   string
	card    string         // its name
	kind    assay.LoadKind // empty: closed
}

// run makes a run directory, as a load of four streams for 40 seconds has it.
func (m *node) run(x measurement) string {
	m.Helper()
	if x.began.IsZero() {
		x.began = m.clock.now()
	}
	if x.node == "" {
		x.node = m.id
	}
	if x.model == "" {
		x.model = "made-up"
	}
	dir := filepath.Join(m.TempDir(), "run")
	t0 := x.began.UnixNano()
	man := assay.Manifest{
		Format: assay.RunFormat, ID: newID(), Created: t0, Clock: "kernel", Seed: 1, Nonce: x.nonce, Config: json.RawMessage(`{"streams":4}`),
		Node: assay.Node{ID: x.node, Hostname: "bench", Cores: 2}, Engine: assay.Engine{URL: "http://127.0.0.1:8000", Backend: "openai-chat", Model: x.model, Replica: x.replica},
		Version: assay.Version{Assay: "0.1.0", Go: "go1.26"},
	}
	for i, u := range x.gpus {
		man.Node.GPUs = append(man.Node.GPUs, assay.GPU{UUID: u, Name: cmp.Or(x.card, "made up"), Index: i})
	}
	w, err := journal.Create(dir, man)
	if err != nil {
		m.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			m.Fatal(err)
		}
	}
	const seconds = 40
	at := func(s float64) int64 { return t0 + int64(s*1e9) }
	for i := range max(1, x.stages) {
		name := "c4"
		if i > 0 {
			name = fmt.Sprintf("c4-%d", i)
		}
		plan := assay.Stage{Name: name, Kind: cmp.Or(x.kind, assay.LoadClosed), Concurrency: 4, DurationNS: seconds * 1e9, GraceNS: 5e9}
		must(w.Event(assay.Event{At: at(0), Kind: assay.EventStageStarted, Stage: name, Plan: &plan}))
		must(w.Event(assay.Event{At: at(1), Kind: assay.EventStageSteady, Stage: name}))
	}
	sent := 0
	for s := 1; s <= 4; s++ {
		for t, i := 0.0, 0; t < seconds; i++ {
			// A little noise that is the same in each run.
			noise := 1 + 0.05*float64((i*7+s*3)%11-5)/5
			ttft, gap := 0.05*x.slow*noise, 0.01*x.slow*noise
			r := assay.Request{
				ID: fmt.Sprintf("c4-%d-%d", s, i), Stage: "c4", Stream: s, Scheduled: at(t), Eligible: at(t), Sent: at(t), First: at(t + ttft),
				AskedInput: 100, AskedOutput: 16, InputTokens: 100, OutputTokens: 16, TokensFrom: "usage", Status: 200, Reads: 16,
			}
			for range 15 {
				r.Gaps = append(r.Gaps, int32(gap*1e6))
			}
			t += ttft + 15*gap
			r.Last, r.End = at(t), at(t+0.0001)
			t += 0.0002
			must(w.Request(&r))
			sent++
		}
	}
	for i := range seconds * 4 {
		for name, v := range map[string]float64{"client_cpu_seconds_total": 0.01 * float64(i), "client_in_flight": 4, "client_resident_memory_bytes": 4e7} {
			must(w.Reading(assay.Reading{At: at(float64(i) / 4), Source: "client", Name: name, Value: &v}))
		}
	}
	for _, c := range x.checks {
		must(w.Check(c))
	}
	must(w.Event(assay.Event{At: at(seconds), Kind: assay.EventStageLoadEnd, Stage: "c4"}))
	must(w.Event(assay.Event{At: at(seconds + 1), Kind: assay.EventStageEnded, Stage: "c4"}))
	must(w.Checkpoint(assay.Checkpoint{At: at(seconds + 1), Status: assay.StatusComplete, StageN: 1, StageOf: 1, ElapsedNS: seconds * 1e9, Sent: sent, Done: sent}))
	must(w.Close())
	rd, err := journal.Open(dir)
	must(err)
	sum, err := summary.Of(rd)
	must(err)
	b, err := json.Marshal(sum)
	must(err)
	must(os.WriteFile(filepath.Join(dir, journal.SummaryFile), append(b, 10), 0o600))
	return dir
}

// report signs a run, delivers its statement, uploads its files and has them
// confirmed. Change may lie about the report.
func (m *node) report(dir string, change func(*store.Report)) store.Report {
	m.Helper()
	signAs := m.id
	if rd, err := journal.Open(dir); err == nil {
		signAs = rd.Manifest().Node.ID
	}
	key := m.key
	if signAs != m.id {
		key, _ = ledger.StateKey(m.Context(), m.signer.Public(), m.signer, ledger.KeyOptions{Node: signAs, Owner: "o", Now: m.clock.now()})
	}
	records, err := ledger.SignRun(m.Context(), dir, m.signer, key, ledger.SignOptions{Now: m.clock.now()})
	if err != nil {
		m.Fatal(err)
	}
	statement := records[len(records)-1]
	if _, err := m.store.Deliver(m.Context(), m.id, []store.Record{{ID: statement.ID.String(), Kind: string(statement.Kind), Bytes: statement.Value}}, m.clock.now()); err != nil {
		m.Fatal(err)
	}
	r := store.Report{ID: newID(), At: m.clock.now(), Node: m.id, Run: "run", Statement: statement.ID.String()}
	for _, name := range evidenceFiles {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			m.Fatal(err)
		}
		r.Files = append(r.Files, store.File{Name: name, SHA256: store.Hash(b), Size: int64(len(b))})
		if name == journal.RunFile {
			r.RunSHA256 = store.Hash(b)
		}
		m.put(b)
	}
	if change != nil {
		change(&r)
	}
	return m.announce(r)
}

func (m *node) announce(r store.Report) store.Report {
	m.Helper()
	r, err := m.store.AnnounceReport(m.Context(), r, store.Trail{})
	if err != nil {
		m.Fatal(err)
	}
	if err := m.store.ConfirmReport(m.Context(), r.ID, m.clock.now(), store.Trail{}); err != nil {
		m.Fatal(err)
	}
	r, err = m.store.Report(m.Context(), everybody, m.id, r.ID)
	if err != nil {
		m.Fatal(err)
	}
	return r
}

func (n *network) put(b []byte) {
	n.Helper()
	if n.plain != "" {
		if err := os.WriteFile(filepath.Join(n.plain, store.Hash(b)), b, 0o600); err != nil {
			n.Fatal(err)
		}
	}
	o := evidence.Object{SHA256: store.Hash(b), Size: int64(len(b))}
	l, err := n.objects.Presign(n.Context(), o)
	if err != nil {
		n.Fatal(err)
	}
	req := httptest.NewRequest(l.Method, l.URL, bytes.NewReader(b))
	for k, v := range l.Headers {
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	n.objects.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		n.Fatalf("upload: %d %s", w.Code, w.Body)
	}
}

// measured is a report of a run that was just made, judged.
func (m *node) measured(x measurement) store.Report {
	m.Helper()
	m.clock.pass(time.Minute)
	return m.judged(m.report(m.run(x), nil))
}

func (m *node) judged(r store.Report) store.Report {
	m.Helper()
	if err := m.d.Judge(m.Context(), r); err != nil {
		m.Fatal(err)
	}
	r, err := m.store.Report(m.Context(), everybody, m.id, r.ID)
	if err != nil {
		m.Fatal(err)
	}
	if r.Scored.IsZero() {
		m.Fatalf("report %s is not scored", r.ID)
	}
	return r
}

func (m *node) row() store.Node {
	m.Helper()
	r, err := m.store.Node(m.Context(), everybody, m.id)
	if err != nil {
		m.Fatal(err)
	}
	return r
}

func (m *node) is(admission control.Admission) {
	m.Helper()
	if r := m.row(); r.Admission != string(admission) {
		m.Fatalf("it is %s: %q, not %s", r.Admission, r.Reasons, admission)
	}
}

// act is a person's word.
func (m *node) act(e control.Event) control.Outcome {
	m.Helper()
	e.Actor = control.Actor{Kind: control.ActorPerson, ID: "1"}
	out, err := m.d.Happen(m.Context(), Happening{Node: m.id, Scope: everybody, Event: e, Actor: "person:1"})
	if err != nil {
		m.Fatal(err)
	}
	return out
}

// broken is an evidence store whose answers a test chooses.
type broken struct {
	Evidence
	open func(o evidence.Object) (io.ReadCloser, error)
}

func (b *broken) Open(ctx context.Context, o evidence.Object) (io.ReadCloser, error) {
	if b.open != nil {
		if r, err := b.open(o); r != nil || err != nil {
			return r, err
		}
	}
	return b.Evidence.Open(ctx, o)
}
