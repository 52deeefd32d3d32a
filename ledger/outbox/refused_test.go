package outbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
)

// refusals reads what lies in refused/, oldest first.
func refusals(t *testing.T, dir string) []refusal {
	t.Helper()
	var all []refusal
	for _, name := range []string{refusedOld, refusedNew} {
		b, err := os.ReadFile(filepath.Join(dir, refusedDir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r refusal
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatalf("%s: %v: %.80s", name, err, lines.Text())
			}
			all = append(all, r)
		}
	}
	return all
}

var testTime = time.Unix(1_800_000_000, 0)

func refuseEvery(n int, reason string) func([]ledger.Record) []Outcome {
	return func(rs []ledger.Record) []Outcome {
		out := AllTaken(len(rs))
		for i, r := range rs {
			switch number(r) % n {
			case 0:
				out[i] = Outcome{Refused, reason}
			case 1:
				out[i] = Outcome{State: Duplicate}
			}
		}
		return out
	}
}

func TestRefusedBlockNothingAndAreKept(t *testing.T) {
	dir := t.TempDir()
	b := mustOpen(t, testOptions(dir))
	m := &memory{answer: refuseEvery(5, "the key is \x1b[31mrevoked\n")}
	var w words
	stop := start(t, b, m, w.log())
	if err := b.Add(t.Context(), records(0, 20, 300)...); err != nil {
		t.Fatal(err)
	}
	err := b.Flush(t.Context())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "4") {
		t.Errorf("Flush does not tell that four were refused: %v", err)
	}
	if got := m.numbers(); len(got) != 20 || !slices.IsSorted(got) {
		t.Errorf("delivered: %v", got)
	}
	if got, want := b.Counts(), (Counts{Taken: 12, Duplicate: 4, Refused: 4}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if err := stop(); err != nil {
		t.Errorf("a refusal is an error of Run: %v", err)
	}
	kept := refusals(t, dir)
	if len(kept) != 4 {
		t.Fatalf("%d refused records are kept, want 4", len(kept))
	}
	for i, r := range kept {
		want := record(5*i, 300)
		if r.ID != want.ID.String() || r.Kind != string(want.Kind) || r.Node != want.Node || !bytes.Equal(r.Value, want.Value) || r.At == "" {
			t.Errorf("kept %+v, want %+v", r, want)
		}
		if r.Reason != "the key is \uFFFD[31mrevoked" {
			t.Errorf("the reason is %q", r.Reason)
		}
	}
	if all := strings.Join(w.all(), ""); strings.Count(all, "were refused") != 1 || strings.Contains(all, "\x1b") {
		t.Errorf("logged: %s", all)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// Nothing comes again.
	b = mustOpen(t, testOptions(dir))
	start(t, b, m, nil)
	if err := b.Flush(t.Context()); err != nil {
		t.Errorf("a new process is told of old refusals: %v", err)
	}
	if n := len(m.numbers()); n != 20 {
		t.Errorf("%d deliveries after a restart, want 20", n)
	}
}

func TestRefusedIsBounded(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(dir)
	o.RefusedBytes = 1 // less than the least
	b := mustOpen(t, o)
	m := &memory{answer: refuseEvery(1, "no")}
	start(t, b, m, nil)
	for n := 0; n < 40; n += 8 {
		if err := b.Add(t.Context(), records(n, 8, 50_000)...); err != nil {
			t.Fatal(err)
		}
		if err := b.Flush(t.Context()); !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
		size, err := filesIn(filepath.Join(dir, refusedDir))
		if err != nil || size > minRefused {
			t.Fatalf("refused/ takes %d bytes (%v), the bound is %d", size, err, minRefused)
		}
	}
	kept := refusals(t, dir)
	if len(kept) < 2 || kept[len(kept)-1].ID != record(39, 1).ID.String() {
		t.Errorf("%d are kept, and the last refused is not the last of them", len(kept))
	}
	if n := b.Counts().Refused; n != 40 {
		t.Errorf("%d counted as refused, want 40", n)
	}
}

// An answer that leaves a record open is no answer: all of them come again.
func TestOutcomesAreWhole(t *testing.T) {
	for name, bad := range map[string]func([]ledger.Record) []Outcome{
		"none":  func([]ledger.Record) []Outcome { return nil },
		"short": func(rs []ledger.Record) []Outcome { return AllTaken(len(rs) - 1) },
		"zero":  func(rs []ledger.Record) []Outcome { return make([]Outcome, len(rs)) },
		"wild":  func(rs []ledger.Record) []Outcome { return append(AllTaken(len(rs)-1), Outcome{State: 9}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := mustOpen(t, testOptions(t.TempDir()))
			calls := 0
			m := &memory{answer: func(rs []ledger.Record) []Outcome {
				if calls++; calls < 3 {
					return bad(rs)
				}
				return AllTaken(len(rs))
			}}
			if err := b.Add(t.Context(), records(0, 3, 10)...); err != nil {
				t.Fatal(err)
			}
			start(t, b, m, nil)
			if err := b.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := m.numbers(); !slices.Equal(got, []int{0, 1, 2, 0, 1, 2, 0, 1, 2}) {
				t.Errorf("delivered: %v", got)
			}
		})
	}
}

// A copy that cannot be written is told and holds up nothing.
func TestRefusedWithoutACopy(t *testing.T) {
	dir := t.TempDir()
	b := mustOpen(t, testOptions(dir))
	if err := os.WriteFile(filepath.Join(dir, refusedDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var w words
	m := &memory{answer: refuseEvery(1, "no")}
	start(t, b, m, w.log())
	if err := b.Add(t.Context(), records(0, 30, 10)...); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(t.Context()); !errors.Is(err, ErrRefused) {
		t.Fatal(err)
	}
	if n, _ := b.Pending(); n != 0 {
		t.Errorf("%d records wait", n)
	}
	all := strings.Join(w.all(), "")
	if n := strings.Count(all, "is lost"); n != maxRefusedLog || !strings.Contains(all, record(0, 1).ID.String()) {
		t.Errorf("%d lost copies are logged, want %d: %s", n, maxRefusedLog, all)
	}
}

// A line that a dying process tore is cut off before the next is written.
func TestRefusedTornLine(t *testing.T) {
	dir := t.TempDir()
	for n := range 3 {
		r := record(n, 100)
		if err := keepRefusals(dir, []refusal{newRefusal(testTime, &r, "no")}, minRefused); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, refusedDir, refusedNew), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`{"at":"2026`); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	r := record(3, 100)
	if err := keepRefusals(dir, []refusal{newRefusal(testTime, &r, "")}, minRefused); err != nil {
		t.Fatal(err)
	}
	kept := refusals(t, dir)
	if len(kept) != 4 || kept[3].Reason != "no reason was given" {
		t.Errorf("kept: %+v", kept)
	}
}
