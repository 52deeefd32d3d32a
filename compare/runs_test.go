package compare

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// writeRun records a made-up run of stages of 50 requests each, all at the given
// speed, that began at the given second.
func writeRun(t *testing.T, dir string, second int64, speed float64, stages ...assay.Stage) {
	t.Helper()
	begin := (1_790_000_000 + second) * 1e9
	w, err := journal.Create(dir, assay.Manifest{ID: fmt.Sprintf("RUN%d", second), Created: begin, Clock: assay.ClockKernel, Node: assay.Node{ID: "node", Hostname: "box"},
		Engine: assay.Engine{URL: "http://127.0.0.1:8000", Backend: "openai-chat", Model: "m"}, Version: assay.Version{Assay: "test", Go: "go"}, Config: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	keep := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(uint64(second), 7))
	speed *= math.Exp(0.02 * rng.NormFloat64())
	now := begin
	for n, st := range stages {
		keep(w.Event(assay.Event{At: now, Kind: assay.EventStageStarted, Stage: st.Name, Plan: &st}))
		keep(w.Event(assay.Event{At: now, Kind: assay.EventStageSteady, Stage: st.Name}))
		for i := range 50 {
			ttft := int64(50e6 * speed * math.Exp(0.05*rng.NormFloat64()))
			rest := int64(450e6 * speed * math.Exp(0.05*rng.NormFloat64()))
			r := &assay.Request{ID: fmt.Sprintf("%d-%d", n, i), Stage: st.Name, Scheduled: now, Eligible: now, Sent: now, First: now + ttft, Last: now + ttft + rest, End: now + ttft + rest,
				InputTokens: 20, OutputTokens: 10, TokensFrom: "usage", Reads: 10, Prompt: i}
			for range 9 {
				r.Gaps = append(r.Gaps, int32(rest/9/1000))
			}
			keep(w.Request(r))
			now = r.End
		}
		keep(w.Event(assay.Event{At: now, Kind: assay.EventStageLoadEnd, Stage: st.Name}))
		keep(w.Event(assay.Event{At: now, Kind: assay.EventStageEnded, Stage: st.Name}))
	}
	keep(w.Checkpoint(assay.Checkpoint{At: now, Status: assay.StatusComplete}))
	keep(w.Close())
}

func closed(name string, n int) assay.Stage {
	return assay.Stage{Name: name, Kind: assay.LoadClosed, Concurrency: n, Requests: 50}
}

// runsOf writes rounds of runs of two engines, in blocks or one after the other.
func runsOf(t *testing.T, rounds int, blocks bool, slower float64) (a, b string) {
	dir := t.TempDir()
	a, b = filepath.Join(dir, "old"), filepath.Join(dir, "new")
	for r := range rounds {
		at, bt := int64(r)*200, int64(r)*200+100
		if !blocks {
			at, bt = int64(r)*100, int64(rounds+r)*100
		}
		writeRun(t, filepath.Join(a, fmt.Sprintf("r%02d", r)), at, 1, closed("c1", 1))
		writeRun(t, filepath.Join(b, fmt.Sprintf("r%02d", r)), bt, slower, closed("c1", 1))
	}
	return a, b
}

func TestDirectoriesOfRuns(t *testing.T) {
	for _, blocks := range []bool{true, false} {
		a, b := runsOf(t, 12, blocks, 1.2)
		e, err := FromRuns(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if e.Paired != blocks || !slices.Equal(e.Workloads, []string{"c1"}) || len(e.Samples) != 24 || e.Engines[0].Name != "old" || e.Engines[0].Lock["model"] != "m" {
			t.Errorf("in blocks %v: paired %v, %v, %d samples", blocks, e.Paired, e.Workloads, len(e.Samples))
		}
		an := Analyze(e)
		c := an.between("new", "old", "c1", "e2e_ms_p50")
		if c == nil || c.Verdict != Slower || c.Paired != blocks || !(c.Change.Lo < 1.2 && 1.2 < c.Change.Hi) {
			t.Errorf("in blocks %v: %+v", blocks, c)
		}
		if an.Overall.Fastest != "old" {
			t.Errorf("the fastest is %s because %s", an.Overall.Fastest, an.Overall.Because)
		}
		gates, err := ParseGates("ttft_p50<=+5%")
		if err != nil {
			t.Fatal(err)
		}
		if _, v := CheckGates(e, an, gates); v != assay.Fail {
			t.Errorf("20 %% slower: the gate says %s", v)
		}
	}
}

// A run that was recorded with a password in its engine's address does not hand it
// on.
func TestRunsHandOnNoPassword(t *testing.T) {
	engine := engineOf("a", []reduced{{manifest: assay.Manifest{Engine: assay.Engine{URL: "http://alice:pa55word@host:8000"}}}})
	if got := engine.Lock["url"]; got != "http://[secret]@host:8000" {
		t.Error(got)
	}
}

// Stages of 50 requests, as a run has them and as a run has two repetitions of
// one: a median can be told, a 99th percentile cannot.
func TestRunsSayHowManyRequestsTheyNeed(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	writeRun(t, a, 0, 1, closed("c1", 1))
	twice := closed("c1#2", 1)
	twice.Run = 2
	writeRun(t, b, 100, 1, closed("c1", 1), twice)
	e, err := FromRuns(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Samples) != 2 {
		t.Fatalf("%d samples", len(e.Samples))
	}
	for _, s := range e.Samples {
		if s.Needed["ttft_ms_p99"] < 368 || s.Needed["e2e_ms_p99"] < 368 || s.Needed["ttft_ms_p50"] != 0 || s.Needed["tpot_ms_p50"] != 0 {
			t.Errorf("%s needs %v", s.Engine, s.Needed)
		}
	}
}

func TestSingleRunsDecideNothing(t *testing.T) {
	a, b := runsOf(t, 1, true, 2)
	e, err := FromRuns(filepath.Join(a, "r00"), b)
	if err != nil {
		t.Fatal(err)
	}
	an := Analyze(e)
	c := an.between("new", "r00", "c1", "e2e_ms_p50")
	if c == nil || c.Verdict != NotEnough || !math.IsNaN(c.Change.Lo) || !(math.Abs(c.Change.Est-2) <= 0.2) {
		t.Errorf("%+v", c)
	}
	f := an.of("new", "c1", "ttft_ms_p50")
	if f == nil || f.Within == nil || !(f.Within.Lo < f.Mean.Est && f.Mean.Est < f.Within.Hi) {
		t.Errorf("no interval within the run: %+v", f)
	}
	if p99 := an.of("new", "c1", "ttft_ms_p99"); p99.Within == nil || !math.IsNaN(p99.Within.Lo) || p99.Within.Why != "n<368" {
		t.Errorf("50 requests hold up a p99: %+v", p99.Within)
	}
	gates, err := ParseGates("ttft_p50<=+500%")
	if err != nil {
		t.Fatal(err)
	}
	if held, v := CheckGates(e, an, gates); v != assay.Unknown || !strings.Contains(held[0].Why, "single runs decide nothing") {
		t.Errorf("the gate says %s: %+v", v, held)
	}
	table := figureTable(e, an, "c1")
	if !slices.ContainsFunc(table.Rows, func(r []string) bool { return strings.HasPrefix(r[len(r)-1], "[") }) || !strings.Contains(table.Note, "decides nothing") {
		t.Error("the table does not show it")
	}
}

// A stage that was repeated within a run is one sample, and loads of one name
// that differ are not compared.
func TestStagesBecomeWorkloads(t *testing.T) {
	dir := t.TempDir()
	again := closed("c1#2", 1)
	again.Run = 2
	first := closed("c1", 1)
	first.Run = 1
	writeRun(t, filepath.Join(dir, "a"), 0, 1, first, again, closed("c8", 8))
	writeRun(t, filepath.Join(dir, "b"), 500, 1, first, again, closed("c8", 16))
	e, err := FromRuns(filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"c1", "c8", "c8 (load 2)"}; !slices.Equal(e.Workloads, want) {
		t.Fatalf("workloads %v, want %v", e.Workloads, want)
	}
	if len(e.Samples) != 4 || e.Samples[0].Requests != 100 || e.Samples[0].OutputTokens != 10 || e.Samples[0].Within != nil {
		t.Errorf("samples: %+v", e.Samples)
	}
	if v := e.Samples[0].Metrics["ttft_ms_p50"]; !(v >= 40 && v <= 60) {
		t.Errorf("the mean over repetitions is %v", v)
	}
	if Analyze(e).between("a", "b", "c8", "ttft_ms_p50") != nil {
		t.Error("8 streams were compared with 16")
	}
}

func TestDirectoriesThatAreNoRuns(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, filepath.Join(dir, "a"), 0, 1, closed("c1", 1))
	if _, err := FromRuns(filepath.Join(dir, "a")); err == nil {
		t.Error("one directory is compared")
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := FromRuns(filepath.Join(dir, "a"), filepath.Join(dir, "empty")); !errors.Is(err, ErrNoRuns) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := FromRuns(filepath.Join(dir, "a"), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none at all: %v", err)
	}
	// The same name twice, and the same run twice.
	e, err := FromRuns(filepath.Join(dir, "a"), filepath.Join(dir, "a"))
	if err != nil || e.Engines[0].Name == e.Engines[1].Name {
		t.Errorf("%v: %v", err, e.Engines)
	}
}
