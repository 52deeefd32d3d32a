package notary

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/ledger"
)

func refusedIn(t *testing.T, dir string) []refusal {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "refused.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []refusal
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if len(lines.Bytes()) > 2000 {
			t.Errorf("a line of %d bytes", len(lines.Bytes()))
		}
		var r refusal
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("%s: %v", lines.Bytes(), err)
			continue
		}
		out = append(out, r)
	}
	return out
}

// envelopeWith is a run's record with something changed before it is signed.
func envelopeWith(node string, change func(*ledger.Statement, *ledger.Benchmark)) ledger.Record {
	id := newID()
	s := statement(id, node, epoch, 1)
	var b ledger.Benchmark
	if err := json.Unmarshal(s.Predicate, &b); err != nil {
		panic(err)
	}
	change(&s, &b)
	if s.PredicateType == ledger.GPUBenchmark {
		s.Predicate = must(json.Marshal(b))
	}
	return ledger.Record{ID: id, Kind: ledger.KindEnvelope, Node: node, Value: signed(held(node), s)}
}

func TestRefusals(t *testing.T) {
	good := func() ledger.Record { return runRecord("node-0", 1) }
	with := func(change func(*Incoming)) Incoming {
		in := Incoming{Time: epoch.Add(time.Second), Record: good()}
		change(&in)
		return in
	}
	replayed := good()
	replayed.ID = newID()
	selfSigned := must(ledger.StateKey(context.Background(), held("thief").Public(), held("thief"), ledger.KeyOptions{Node: "node-0", Owner: "a thief", ID: newID(), Now: epoch}))
	byNode := must(ledger.StateKey(context.Background(), held("friend").Public(), held("node-0"), ledger.KeyOptions{Node: "friend", Owner: "a friend", ID: newID(), Now: epoch}))
	for _, c := range []struct {
		name string
		in   Incoming
		want Reason
		say  string
	}{
		{"not one of ours", Incoming{Time: epoch, Err: errors.New("header assay-id twice")}, ReasonRecord, "twice"},
		{"no id", with(func(in *Incoming) { in.Record.ID = ulid.ULID{} }), ReasonRecord, "no id"},
		{"unknown kind", with(func(in *Incoming) { in.Record.Kind = "poem" }), ReasonRecord, "poem"},
		{"too large", with(func(in *Incoming) { in.Record.Value = bytes.Repeat([]byte("x"), ledger.MaxValue+1) }), ReasonRecord, "64001"},
		{"empty", with(func(in *Incoming) { in.Record.Value = nil }), ReasonRecord, "0 bytes"},
		{"no time", with(func(in *Incoming) { in.Time = time.Time{} }), ReasonTime, "LogAppendTime"},
		{"no JSON", with(func(in *Incoming) { in.Record.Value = []byte("hello") }), ReasonEnvelope, "not a signed envelope"},
		{"another spelling", with(func(in *Incoming) { in.Record.Value = append([]byte(" "), in.Record.Value...) }), ReasonEnvelope, "did not put there"},
		{"two signatures", with(func(in *Incoming) {
			e := must(ledger.ReadEnvelope(in.Record.Value))
			e.Signatures = append(e.Signatures, e.Signatures[0])
			in.Record.Value = e.Encode()
		}), ReasonEnvelope, "2 signatures"},
		{"no statement", with(func(in *Incoming) {
			in.Record.Value = must(ledger.Sign(context.Background(), held("node-0"), []byte(`{}`))).Encode()
		}), ReasonStatement, "its type is"},
		{"unknown predicate", with(func(in *Incoming) {
			in.Record = envelopeWith("node-0", func(s *ledger.Statement, _ *ledger.Benchmark) {
				s.PredicateType = "https://example.org/poem/v1"
			})
		}), ReasonStatement, "poem"},
		{"replayed under a new id", with(func(in *Incoming) { in.Record = replayed }), ReasonID, "old statement"},
		{"under another node's name", with(func(in *Incoming) { in.Record.Node = "node-1" }), ReasonNode, "node-1"},
		{"unknown member", with(func(in *Incoming) {
			in.Record = envelopeWith("node-0", func(s *ledger.Statement, _ *ledger.Benchmark) {
				s.PredicateType = ledger.TestResult
				s.Predicate = json.RawMessage(`{"result":"PASSED","colour":"red","configuration":[{"name":"run.json#config","annotations":` + string(must(json.Marshal(ledger.Stamp{ID: ulid.ULID{1: 9}, Node: "node-0", Time: epoch}))) + `}]}`)
			})
			in.Record.ID = ulid.ULID{1: 9}
		}), ReasonSchema, "colour"},
		{"value neither known nor explained", with(func(in *Incoming) {
			in.Record = envelopeWith("node-0", func(_ *ledger.Statement, b *ledger.Benchmark) { b.Results[0].Value = nil })
		}), ReasonSchema, "does not say why"},
		{"no list of GPUs", with(func(in *Incoming) {
			in.Record = envelopeWith("node-0", func(_ *ledger.Statement, b *ledger.Benchmark) { b.GPUs = nil })
		}), ReasonSchema, "gpus"},
		{"altered", with(func(in *Incoming) {
			e := must(ledger.ReadEnvelope(in.Record.Value))
			e.Payload = bytes.Replace(e.Payload, []byte("12.5"), []byte("99.5"), 1)
			in.Record.Value = e.Encode()
		}), ReasonSignature, "altered"},
		{"unknown key", with(func(in *Incoming) { in.Record = runRecord("stranger", 1) }), ReasonKey, "vouches"},
		{"another node's key", with(func(in *Incoming) {
			id := newID()
			in.Record = ledger.Record{ID: id, Kind: ledger.KindEnvelope, Node: "node-1", Value: signed(held("node-0"), statement(id, "node-1", epoch, 1))}
		}), ReasonOtherNode, "another node"},
		{"signed before the key was valid", with(func(in *Incoming) {
			id := newID()
			in.Record = ledger.Record{ID: id, Kind: ledger.KindEnvelope, Node: "node-0", Value: signed(held("node-0"), statement(id, "node-0", epoch.AddDate(0, 0, -9), 1))}
		}), ReasonEarly, "not valid yet"},
		{"logged after the key's time", with(func(in *Incoming) { in.Time = epoch.AddDate(2, 0, 0) }), ReasonExpired, "came too late"},
		{"logged before the key's time, as by a broker's clock that stepped back", with(func(in *Incoming) { in.Time = epoch.AddDate(-1, 0, 0) }), ReasonEarly, "clocks"},
		{"by a broker whose clock is ahead", with(func(in *Incoming) { in.Time = epoch.Add(time.Hour) }), ReasonClock, "59m0s after this notary's time"},
		{"a key's own word", with(func(in *Incoming) { in.Record = keyRecord(selfSigned) }), ReasonKey, "vouches"},
		{"certified by who may not", with(func(in *Incoming) { in.Record = keyRecord(byNode) }), ReasonRole, "authority"},
		{"a long complaint", Incoming{Time: epoch, Err: errors.New(strings.Repeat("\x00é", 5000))}, ReasonRecord, "\uFFFDé"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, m := t.TempDir(), filled(1, 2)
			m.put(0, ledger.Record{})
			at := len(m.topic[0]) - 1
			c.in.Position = m.topic[0][at].Position
			c.in.Topic = ledger.Topic
			m.topic[0][at] = c.in
			m.put(0, good())
			o := options(t, dir)
			if c.want != ReasonClock && c.in.Time.After(epoch) {
				o.Now = func() time.Time { return c.in.Time } // the record came in time
			}
			n := mustNotarise(t, o, m)
			wantLogged(t, dir, m, func(in Incoming) bool { return envelopes(in) && in.Offset != int64(at) })
			got := refusedIn(t, dir)
			if len(got) != 1 || got[0].Reason != c.want || !strings.Contains(got[0].Why, c.say) || got[0].Offset != int64(at) {
				t.Errorf("got %+v; want %s with %q", got, c.want, c.say)
			}
			if n.m.refused[c.want] != 1 {
				t.Errorf("counted %v", n.m.refused)
			}
		})
	}
}

// A revocation takes effect by the broker's time.
func TestRevokedInTheMiddle(t *testing.T) {
	dir, m := t.TempDir(), newMemory(1)
	_, k := nodeKey("node-0")
	m.put(0, keyRecord(k), runRecord("node-0", 0))
	v := must(ledger.StateRevocation(context.Background(), k, held("authority"), epoch.Add(2*time.Second), "stolen", ledger.RevocationOptions{ID: newID(), Now: epoch}))
	m.put(0, ledger.Record{ID: v.Stamp.ID, Kind: ledger.KindEnvelope, Node: v.Node, Value: v.Envelope})
	m.put(0, runRecord("node-0", 0)) // still before the revocation's time
	m.clock = epoch.Add(3 * time.Second)
	m.put(0, runRecord("node-0", 0), runRecord("node-0", 0))
	want := func(in Incoming) bool { return in.Offset < 4 }
	mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, want)

	// Known again from the log after a start, with and without the hint.
	for _, lose := range []string{"", "positions.json"} {
		if lose != "" {
			os.Remove(filepath.Join(dir, lose))
		}
		m.put(0, runRecord("node-0", 0))
		mustNotarise(t, options(t, dir), m)
		wantLogged(t, dir, m, want)
	}
	reasons := map[Reason]int{}
	for _, r := range refusedIn(t, dir) {
		reasons[r.Reason]++
	}
	// The last start read all of it anew: refused lines are there at least once.
	if len(reasons) != 1 || reasons[ReasonRevoked] < 4 {
		t.Errorf("refused %v", reasons)
	}
}

// The broker's clock steps back: entries have its time as it was given, and order
// is that of offsets.
func TestClockSteppingBack(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 3)
	m.clock = epoch.Add(-30 * time.Second)
	m.put(0, runRecord("node-0", 0), runRecord("node-0", 0))
	o := options(t, dir)
	k := 0
	o.Now = func() time.Time { k++; return epoch.Add(-time.Duration(k) * time.Millisecond) }
	n := mustNotarise(t, o, m)
	wantLogged(t, dir, m, envelopes)
	if n.m.logged != 6 {
		t.Errorf("logged %d", n.m.logged)
	}
}

// A key's statement counts for the record right behind it, in one delivery.
func TestKeyThenRun(t *testing.T) {
	dir, m := t.TempDir(), newMemory(1)
	for _, node := range []string{"a", "b", "c", "d"} {
		_, k := nodeKey(node)
		m.put(0, runRecord(node, 0), keyRecord(k), runRecord(node, 0), runRecord(node, 0))
	}
	mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, func(in Incoming) bool { return in.Offset%4 != 0 })
	p, err := readPositions(dir)
	if err != nil || !slices.Equal(p.Keys, []uint64{0, 3, 6, 9}) {
		t.Errorf("keys at %v, %v", p.Keys, err)
	}
	m.put(0, runRecord("c", 0))
	mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, func(in Incoming) bool { return in.Offset%4 != 0 || in.Offset == 16 })
}

// The same where another core has the run in hand before the key's turn comes.
func TestKeyThenRunOnAllCores(t *testing.T) {
	m := newMemory(1)
	_, k := nodeKey("old")
	m.put(0, keyRecord(k))
	for i := range 20 {
		for range 7 {
			m.put(0, runRecord("old", 0))
		}
		node := fmt.Sprint("new-", i)
		_, k := nodeKey(node)
		m.put(0, keyRecord(k))
		for range 8 {
			m.put(0, runRecord(node, 0))
		}
	}
	n := checker(options(t, ""))
	for i, c := range n.check(t.Context(), m.topic[0]) {
		if c.fate != toBeLogged {
			t.Errorf("record %d: %+v", i, c.refusal)
		}
	}
}

func TestATornLineIsEnded(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 2)
	if err := os.WriteFile(filepath.Join(dir, "refused.jsonl"), []byte(`{"topic":"gpu-mon`), 0o644); err != nil {
		t.Fatal(err)
	}
	m.put(0, runRecord("stranger", 0))
	mustNotarise(t, options(t, dir), m)
	b, err := os.ReadFile(filepath.Join(dir, "refused.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(string(b), "\n"); len(lines) != 3 || !json.Valid([]byte(lines[1])) {
		t.Errorf("%s", b)
	}
}

func TestDuplicates(t *testing.T) {
	dir, m := t.TempDir(), filled(2, 20)
	double := map[ledger.Position]bool{}
	again := func(p int32, of Incoming) {
		double[ledger.Position{Topic: ledger.Topic, Partition: p, Offset: int64(len(m.topic[p]))}] = true
		m.put(p, of.Record)
	}
	want := func(in Incoming) bool { return envelopes(in) && !double[in.Position] }
	m.put(0, runRecord("node-0", 0))
	again(0, m.topic[0][len(m.topic[0])-1]) // right behind
	again(0, m.topic[0][1])                 // the key's statement
	again(1, m.topic[1][7])
	n := mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, want)
	if n.m.doubles != 3 {
		t.Errorf("counted %d", n.m.doubles)
	}
	again(1, m.topic[1][8]) // after a start
	n = mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, want)
	if n.m.doubles != 1 {
		t.Errorf("counted %d", n.m.doubles)
	}
}

// Beyond the window an id is taken again; but what was once passed over stays so
// when the topic must be read from its beginning.
func TestDuplicatesAndTheWindow(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 4)
	small := func() Options {
		o := options(t, dir)
		o.Window, o.BatchSize = 8, 4
		return o
	}
	near := int64(len(m.topic[0]))
	m.put(0, m.topic[0][2].Record)
	for range 40 {
		m.put(0, runRecord("node-0", 0))
	}
	mustNotarise(t, small(), m)
	m.put(0, m.topic[0][4].Record) // after a start, when no more than the window is known
	mustNotarise(t, small(), m)
	want := func(in Incoming) bool { return envelopes(in) && in.Offset != near }
	wantLogged(t, dir, m, want)
	os.Remove(filepath.Join(dir, "positions.json"))
	n := mustNotarise(t, small(), m)
	wantLogged(t, dir, m, want)
	if n.ids.older != nil {
		t.Error("all ids are kept in memory for ever")
	}
}

// signedAt is a run of a node under an id that it may have used before; at makes
// statements differ.
func signedAt(id ulid.ULID, node string, at time.Time) ledger.Record {
	return ledger.Record{ID: id, Kind: ledger.KindEnvelope, Node: node, Value: signed(held(node), statement(id, node, at, 0))}
}

// A statement with an id that its key has used is refused with its reason, in one
// delivery, in the next and after a start; the same bytes are a duplicate; and
// nobody keeps another's statement out by taking up its id.
func TestAnIDIsUsedTwice(t *testing.T) {
	dir, m := t.TempDir(), filled(2, 3)
	m.batch = 5
	first := runRecord("node-0", 0)
	other := func(k int) ledger.Record {
		return signedAt(first.ID, "node-0", epoch.Add(time.Duration(k)*time.Second))
	}
	refused := map[ledger.Position]bool{}
	double := map[ledger.Position]bool{}
	put := func(p int32, r ledger.Record, kind map[ledger.Position]bool) {
		m.put(p, r)
		if kind != nil {
			kind[m.topic[p][len(m.topic[p])-1].Position] = true
		}
	}
	put(0, first, nil)
	put(0, other(1), refused)
	put(0, first, double)
	for range 20 {
		put(0, runRecord("node-0", 0), nil)
	}
	put(0, other(2), refused)
	put(1, signedAt(first.ID, "node-1", epoch), nil) // another node's key: its own id
	put(1, signedAt(first.ID, "node-1", epoch.Add(time.Second)), refused)

	n := mustNotarise(t, options(t, dir), m)
	want := func(in Incoming) bool { return envelopes(in) && !refused[in.Position] && !double[in.Position] }
	wantLogged(t, dir, m, want)
	if n.m.refused[ReasonIDUsed] != 3 || n.m.doubles != 1 {
		t.Errorf("refused %v, %d duplicates", n.m.refused, n.m.doubles)
	}
	for _, r := range refusedIn(t, dir) {
		if r.Reason != ReasonIDUsed || !refused[ledger.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}] || !strings.Contains(r.Why, first.ID.String()) {
			t.Errorf("refused %+v", r)
		}
	}

	// After a start, with what is beside the log and without it.
	for _, lose := range []string{"", "ids", "positions.json"} {
		if lose != "" {
			os.Remove(filepath.Join(dir, lose))
		}
		put(0, other(3), refused)
		put(0, first, double)
		put(1, other(4), refused)
		mustNotarise(t, options(t, dir), m)
		wantLogged(t, dir, m, want)
	}
	fsck(t, dir)

	// Each is found by its key, and without one the last is.
	h := n.Handler()
	entries := readLog(t, dir)
	for _, node := range []string{"node-0", "node-1"} {
		_, body := get(t, h, "/lookup/"+first.ID.String()+"?key="+ledger.KeyID(held(node).Public()))
		var at struct{ Index int }
		if err := json.Unmarshal([]byte(body), &at); err != nil || entries[at.Index].ID != first.ID || must(ledger.ReadEnvelope(entries[at.Index].Envelope)).Signatures[0].KeyID != ledger.KeyID(held(node).Public()) {
			t.Errorf("%s is found at %s, %v", node, body, err)
		}
	}
	if r, _ := get(t, h, "/lookup/"+first.ID.String()+"?key="+ledger.KeyID(held("node-9").Public())); r.StatusCode != 404 {
		t.Errorf("a key that signed nothing: %d", r.StatusCode)
	}
	if r, _ := get(t, h, "/lookup/"+first.ID.String()+"?key=nonsense"); r.StatusCode != 400 {
		t.Errorf("no key: %d", r.StatusCode)
	}
}

// A statement about a key that is not logged, for its id was used, does not count.
func TestAKeyUnderAUsedIDDoesNotCount(t *testing.T) {
	dir, m := t.TempDir(), newMemory(1)
	_, a := nodeKey("a")
	s := held("b")
	b := must(ledger.StateKey(t.Context(), s.Public(), held("authority"), ledger.KeyOptions{
		Node: "b", Owner: "Owner of b", ID: a.Stamp.ID, Now: epoch.Add(-time.Minute), NotAfter: epoch.AddDate(1, 0, 0),
	}))
	m.put(0, keyRecord(a), runRecord("a", 0), keyRecord(b), runRecord("b", 0))
	n := mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, func(in Incoming) bool { return in.Offset < 2 })
	if n.m.refused[ReasonIDUsed] != 1 || n.m.refused[ReasonKey] != 1 {
		t.Errorf("refused %v", n.m.refused)
	}
}

// What the feed gives a second time after it was refused is not logged, and its
// id stays free for the statement that is sent again.
func TestWhatIsGivenTwiceKeepsNoID(t *testing.T) {
	dir, m := t.TempDir(), newMemory(1)
	_, k := nodeKey("node-0")
	early := runRecord("node-0", 0)
	m.put(0, early, keyRecord(k), early)
	n := mustOpen(t, options(t, dir))
	defer n.release()
	if err := n.Run(t.Context(), &givesTwice{m, n}); err != nil {
		t.Fatal(err)
	}
	if n.size != 2 {
		t.Errorf("%d entries: the statement that was sent again is not in the log", n.size)
	}
}

// givesTwice delivers its first record a second time when the first two are done.
type givesTwice struct {
	*memory
	n *Notary
}

func (g *givesTwice) Read(_ context.Context, _ map[int32]int64, deliver func([]Incoming) error) error {
	done := func(k int64) bool {
		g.n.m.mu.Lock()
		defer g.n.m.mu.Unlock()
		return g.n.m.handled[0] >= k
	}
	rs := g.topic[0]
	for _, part := range [][]Incoming{rs[:2], rs[:1], rs[2:]} {
		if err := deliver(slices.Clone(part)); err != nil {
			return err
		}
		for !done(2) {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}
