package notary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/transparency-dev/tessera"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/ledger"
	ourtlog "github.com/assay-bench/assay/ledger/tlog"
)

// Whatever is lost or wrong beside the log, the log says what is in it.
func TestFilesBesideTheLogAreOnlyHints(t *testing.T) {
	edit := func(name string, change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(b), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	lie := func(change func(*positions)) func(*testing.T, string) {
		return edit("positions.json", func(b []byte) []byte {
			p := must(parsePositions(b))
			change(&p)
			return p.encode()
		})
	}
	for _, c := range []struct {
		name   string
		damage func(*testing.T, string)
		full   bool // the topic is read from its beginning
	}{
		{"nothing", func(*testing.T, string) {}, false},
		{"no positions", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "positions.json")) }, true},
		{"no ids", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "ids")) }, false},
		{"neither", func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, "positions.json"))
			os.Remove(filepath.Join(dir, "ids"))
		}, true},
		{"no refusals", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "refused.jsonl")) }, false},
		{"torn ids", edit("ids", func(b []byte) []byte { return b[:len(b)/2-3] }), false},
		{"empty ids", edit("ids", func([]byte) []byte { return nil }), false},
		{"ids too long", edit("ids", func(b []byte) []byte { return append(b, "something that a write left"...) }), false},
		{"an id flipped", edit("ids", func(b []byte) []byte { b[33] ^= 1; return b }), false},
		{"empty positions", edit("positions.json", func([]byte) []byte { return nil }), true},
		{"torn positions", edit("positions.json", func(b []byte) []byte { return b[:len(b)-9] }), true},
		{"a flipped digit", edit("positions.json", func(b []byte) []byte { return bytes.Replace(b, []byte(`"1":50`), []byte(`"1":51`), 1) }), true},
		{"torn refusals", edit("refused.jsonl", func([]byte) []byte { return []byte(`{"topic":"gpu-mon`) }), false},
		{"another topic", lie(func(p *positions) { p.Topic = "other" }), true},
		{"another log", lie(func(p *positions) { p.Origin = "example.org/other" }), true},
		{"a larger log", lie(func(p *positions) { p.Size++ }), true},
		{"another last leaf", lie(func(p *positions) { p.LastLeaf = p.IDs }), true},
		{"a smaller size", lie(func(p *positions) { p.Size-- }), true},
		{"partitions swapped", lie(func(p *positions) { p.Last[0], p.Last[1] = p.Last[1], p.Last[0] }), true},
		{"read less than logged", lie(func(p *positions) { p.Next[0] = 3 }), true},
		{"beyond the log", lie(func(p *positions) { p.Last[0] = p.Size }), true},
		{"negative", lie(func(p *positions) { p.Next[0] = -1; delete(p.Last, 0) }), true},
		{"keys elsewhere", lie(func(p *positions) { p.Keys[0] = 1 }), true},
		{"keys beyond the log", lie(func(p *positions) { p.Keys[0] = 1 << 40 }), true},
		{"other ids", lie(func(p *positions) { p.IDs = p.LastLeaf }), false},
		{"ids no number", lie(func(p *positions) { p.IDs = "xyz" }), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, m := t.TempDir(), filled(2, 40)
			mustNotarise(t, options(t, dir), m)
			m.put(0, runRecord("node-0", 0), m.topic[0][9].Record, eventRecord("node-0"))
			double := int64(len(m.topic[0]) - 2)
			c.damage(t, dir)
			n := mustNotarise(t, options(t, dir), m)
			wantLogged(t, dir, m, func(in Incoming) bool {
				return envelopes(in) && (in.Partition != 0 || in.Offset != double)
			})
			if n.m.logged != 1 {
				t.Errorf("logged %d", n.m.logged)
			}
			if full := n.m.again > 50; full != c.full {
				t.Errorf("read %d records again", n.m.again)
			}
			ids, err := os.ReadFile(filepath.Join(dir, "ids"))
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range readLog(t, dir) {
				if len(ids) < ourtlog.MarkSize*(i+1) || ourtlog.ParseMark(ids[ourtlog.MarkSize*i:]) != ourtlog.MarkOf(e.ID, e.Envelope) {
					t.Fatalf("mark %d is not the entry's", i)
				}
			}
			if len(ids) != ourtlog.MarkSize*int(n.size) {
				t.Errorf("ids has %d bytes for %d entries", len(ids), n.size)
			}
		})
	}
}

// addDirectly puts entries of a topic into a log behind the notary's back: what a
// write that failed in the middle leaves.
func addDirectly(t *testing.T, o Options, ins ...Incoming) {
	t.Helper()
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range ins {
		e := ledger.Entry{Position: in.Position, Time: in.Time, ID: in.Record.ID, Envelope: in.Record.Value}
		if _, err := n.appender.Add(context.Background(), tessera.NewEntry(e.Encode()))(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A batch failed and the one behind it did not: the hole is filled, and what is
// in the log is not logged again.
func TestHolesAreFilled(t *testing.T) {
	for _, hint := range []bool{false, true} {
		t.Run(fmt.Sprint("hint ", hint), func(t *testing.T) {
			dir, m := t.TempDir(), filled(1, 40)
			var ins []Incoming
			for _, in := range m.topic[0] {
				if envelopes(in) {
					ins = append(ins, in)
				}
			}
			if hint {
				all := m.topic[0]
				m.topic[0] = all[:11]
				mustNotarise(t, narrow(t, dir), m)
				m.topic[0] = all
				var rest []Incoming
				for _, in := range ins {
					if in.Offset >= 11 {
						rest = append(rest, in)
					}
				}
				ins = rest
			}
			addDirectly(t, narrow(t, dir), append(ins[:3:3], ins[9:14]...)...)
			mustNotarise(t, narrow(t, dir), m)
			got := map[int64]int{}
			for _, e := range readLog(t, dir) {
				got[e.Offset]++
			}
			for _, in := range m.topic[0] {
				if want := map[bool]int{true: 1}[envelopes(in)]; got[in.Offset] != want {
					t.Errorf("offset %d is %d times in the log", in.Offset, got[in.Offset])
				}
			}
			mustNotarise(t, narrow(t, dir), m)
			if after := len(readLog(t, dir)); after != len(got) {
				t.Errorf("a start more, and the log has %d entries, not %d", after, len(got))
			}
		})
	}
}

// narrow remembers one id only: places alone say what is in the log.
func narrow(t *testing.T, dir string) Options {
	o := options(t, dir)
	o.Window = 1
	return o
}

// Any history of growing topics, failing feeds, lost files and starts.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		m := filled(2, 3)
		double := map[ledger.Position]bool{}
		lost := errors.New("the network is gone")
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			p := int32(rapid.IntRange(0, 1).Draw(r, "partition"))
			node := fmt.Sprintf("node-%d", p)
			for range rapid.IntRange(0, 40).Draw(r, "records") {
				switch rapid.IntRange(0, 9).Draw(r, "kind") {
				case 0:
					m.put(p, eventRecord(node))
				case 1:
					k := rapid.IntRange(0, len(m.topic[p])-1).Draw(r, "double of")
					if of := m.topic[p][k]; of.Record.Kind == ledger.KindEnvelope {
						double[ledger.Position{Topic: ledger.Topic, Partition: p, Offset: int64(len(m.topic[p]))}] = true
						m.put(p, of.Record)
					}
				default:
					m.put(p, runRecord(node, 0))
				}
			}
			m.batch, m.fail, m.failAt = rapid.IntRange(1, 30).Draw(r, "batch"), nil, rapid.IntRange(1, 100).Draw(r, "fails at")
			if rapid.Bool().Draw(r, "fails") {
				m.fail = lost
			}
			for _, name := range []string{"positions.json", "ids"} {
				if rapid.IntRange(0, 3).Draw(r, "lose "+name) == 0 {
					os.Remove(filepath.Join(dir, name))
				}
			}
			o := options(nil, dir)
			o.BatchSize = rapid.IntRange(1, 20).Draw(r, "entries a batch")
			n, err := Open(t.Context(), o)
			if err != nil {
				r.Fatal(err)
			}
			if err := n.Run(t.Context(), m); err != nil && !errors.Is(err, lost) {
				r.Fatal(err)
			}
			n.release() // without the wait for a checkpoint
		}
		m.fail = nil
		mustNotarise(t, options(nil, dir), m)
		wantLogged(t, dir, m, func(in Incoming) bool { return envelopes(in) && !double[in.Position] })
	})
}

// What a batch that was never finished left on the disk goes away, and nothing
// else does.
func TestUnfinishedBatchesAreSweptAway(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 299) // 300 entries
	mustNotarise(t, options(t, dir), m)
	stale := []string{"tile/entries/001.p/60", "tile/0/001.p/60", "tile/0/001", "tile/entries/001", "tile/entries/003.p/7", "tile/0/009", "tile/1/000.p/2", "tile/1/000.p/200"}
	for _, path := range stale {
		path = filepath.Join(dir, "log", path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("an unfinished batch"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	mustNotarise(t, options(t, dir), m)
	for _, path := range stale {
		if _, err := os.Stat(filepath.Join(dir, "log", path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	fsck(t, dir)
	for range 40 { // beyond the width that was swept away
		m.put(0, runRecord("node-0", 0))
	}
	mustNotarise(t, options(t, dir), m)
	wantLogged(t, dir, m, envelopes)
	fsck(t, dir)
}
