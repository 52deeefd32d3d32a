package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Bounds of what a statement repeats: what an engine or a driver says of itself
// may be of any length.
const (
	maxWords   = 500    // bytes of one text
	maxName    = 100    // of a GPU
	maxGPUs    = 16     // more are left to run.json, which is signed
	maxResults = 26_000 // bytes of figures as JSON; more are left to summary.json
	maxTests   = 150    // names of tests in each list
)

// Benchmark is the predicate gpu-benchmark/v1.
type Benchmark struct {
	Stamp
	Run         BenchmarkRun      `json:"run"`
	Engine      assay.Engine      `json:"engine"`
	GPUs        []BenchmarkGPU    `json:"gpus"` // empty: none were found
	Tool        BenchmarkTool     `json:"tool"`
	Certificate assay.Certificate `json:"certificate"`
	Results     []Result          `json:"results"`
	LeftOut     int               `json:"results_left_out,omitempty"` // figures that did not fit
	Health      *BenchmarkHealth  `json:"health"`                     // null: not judged
}

// BenchmarkRun says which run it is.
type BenchmarkRun struct {
	ID      string       `json:"id"`
	Status  assay.Status `json:"status"`
	Created time.Time    `json:"created"`
}

// BenchmarkGPU is a GPU by its own word.
type BenchmarkGPU struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
}

// BenchmarkTool is what measured.
type BenchmarkTool struct {
	Assay string `json:"assay"`
	Go    string `json:"go"`
}

// BenchmarkHealth is what the run says of the node.
type BenchmarkHealth struct {
	Score   *float64      `json:"score"` // null: unknown
	Verdict assay.Verdict `json:"verdict"`
	Because string        `json:"because"`
}

// Result is one figure of one stage. A value that is null is not known, and Why
// says why; an interval that is null could not be had.
type Result struct {
	Stage  string   `json:"stage"`
	Metric string   `json:"metric"`
	Stat   string   `json:"stat,omitempty"`
	Unit   string   `json:"unit"`
	Value  *float64 `json:"value"`
	Lo     *float64 `json:"lo"`
	Hi     *float64 `json:"hi"`
	N      int      `json:"n"`
	Why    string   `json:"why,omitempty"`
}

// TestResultPredicate is in-toto's test-result/v0.1.
type TestResultPredicate struct {
	Result        string               `json:"result"` // PASSED, WARNED, FAILED
	Configuration []ResourceDescriptor `json:"configuration"`
	Passed        []string             `json:"passedTests"`
	Warned        []string             `json:"warnedTests"`
	Failed        []string             `json:"failedTests"`
}

// Results are the figures of a summary that a statement carries, by stage.
func Results(sum assay.Summary) []Result {
	units := map[string]string{}
	for _, m := range assay.Metrics() {
		units[m.Name] = m.Unit
	}
	var out []Result
	for _, st := range sum.Stages {
		name := clip(st.Name)
		for _, d := range []struct {
			metric string
			dist   assay.Dist
		}{{"ttft_ms", st.TTFT}, {"tpot_ms", st.TPOT}, {"e2e_ms", st.E2E}} {
			for _, level := range []float64{50, 99} {
				r := Result{Stage: name, Metric: d.metric, Stat: assay.PercentileName(level), Unit: units[d.metric], N: d.dist.N}
				if p, ok := d.dist.P(level); ok && d.dist.N > 0 {
					r.Value, r.Lo, r.Hi = resultValue(p.Value), resultValue(p.Lo), resultValue(p.Hi)
				}
				if r.Value == nil {
					r.Why = "nothing was measured"
				}
				out = append(out, r)
			}
		}
		steady, why := st.Windowed() && st.SteadyTo > st.SteadyFrom, "the stage had no steady window"
		if st.WindowWhy != "" {
			why += ": " + clip(st.WindowWhy)
		}
		for _, q := range []struct {
			metric string
			value  float64
			n      int
			known  bool
			why    string
		}{
			{"requests_per_second", st.RequestsPerSecond, st.OK, steady, why},
			{"output_tokens_per_second", st.OutputTokensPerSecond, st.OK, steady, why},
			{"goodput_requests_per_second", st.GoodputPerSecond, st.OK, steady, why},
			{"error_rate", st.ErrorRate, st.OK + st.Failed, st.OK+st.Failed > 0, "the engine ended no request"},
		} {
			r := Result{Stage: name, Metric: q.metric, Unit: units[q.metric], N: q.n}
			if q.known {
				r.Value = resultValue(q.value)
			}
			if r.Value == nil {
				r.Why = q.why
			}
			out = append(out, r)
		}
	}
	return out
}

func resultValue(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// fitting cuts results to what a statement can carry, whole figures from the
// beginning: all of them are in summary.json, whose hash is signed too.
func fitting(all []Result) (kept []Result, leftOut int) {
	size := 0
	for i, r := range all {
		b, err := json.Marshal(r)
		if size += len(b) + 1; err != nil || size > maxResults {
			return all[:i], len(all) - i
		}
	}
	return all, 0
}

// benchmark makes the statement with the figures.
func (r *readRun) benchmark(st Stamp) (string, any) {
	m := r.manifest
	b := Benchmark{
		Stamp:  st,
		Run:    BenchmarkRun{m.ID, r.status, time.Unix(0, m.Created).UTC()},
		Engine: assay.Engine{URL: clip(m.Engine.URL), Backend: clip(m.Engine.Backend), Model: clip(m.Engine.Model), Version: clip(m.Engine.Version)},
		GPUs:   []BenchmarkGPU{}, Tool: BenchmarkTool{clip(m.Version.Assay), clip(m.Version.Go)},
		Certificate: assay.NoClient, Results: []Result{},
	}
	for _, g := range m.Node.GPUs[:min(len(m.Node.GPUs), maxGPUs)] {
		b.GPUs = append(b.GPUs, BenchmarkGPU{foreign.Line(g.UUID, maxName), foreign.Line(g.Name, maxName)})
	}
	if r.summary != nil {
		if r.summary.Client.Certificate != "" {
			b.Certificate = r.summary.Client.Certificate
		}
		if res := Results(*r.summary); len(res) > 0 {
			b.Results, b.LeftOut = fitting(res)
		}
	}
	if h := r.health; h != nil {
		b.Health = &BenchmarkHealth{h.Score.Overall, h.Verdict, clip(h.Because)}
	}
	return GPUBenchmark, b
}

// testResult makes the statement that other tools know.
func (r *readRun) testResult(st Stamp) (string, any) {
	sum, err := compactSum(r.manifest.Config)
	config := ResourceDescriptor{Name: configSubject, Annotations: &st}
	if err == nil { // read once already, as JSON
		config.Digest = map[string]string{"sha256": sum}
	}
	p := TestResultPredicate{Configuration: []ResourceDescriptor{config}}
	p.Result, p.Passed, p.Warned, p.Failed = verdictLists(r.tests(), maxTests, maxWords)
	return TestResult, p
}

// verdictLists puts what was judged into lists by its verdict, of at most so many
// names of at most so many bytes, and says what it comes to: unknown is a warning,
// and so is nothing at all.
func verdictLists(tests map[string]assay.Verdict, most, length int) (result string, passed, warned, failed []string) {
	lists := [3][]string{{}, {}, {}}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		l := &lists[badness(tests[name])]
		*l = append(*l, foreign.Line(name, length))
	}
	passed, warned, failed = lists[0], lists[1], lists[2]
	switch {
	case len(failed) > 0:
		result = "FAILED"
	case len(warned) > 0 || len(passed) == 0:
		result = "WARNED"
	default:
		result = "PASSED"
	}
	for _, list := range []*[]string{&passed, &warned, &failed} {
		if more := len(*list) - most; more > 0 {
			*list = append((*list)[:most], fmt.Sprintf("and %d more", more))
		}
	}
	return result, passed, warned, failed
}

// tests are the things that were judged, by name.
func (r *readRun) tests() map[string]assay.Verdict {
	out := map[string]assay.Verdict{}
	add := func(v assay.Verdict, name ...string) {
		key := strings.Join(name, "/")
		if old, ok := out[key]; !ok || badness(v) > badness(old) {
			out[key] = v
		}
	}
	pass := func(ok bool) assay.Verdict {
		if ok {
			return assay.Pass
		}
		return assay.Unknown
	}
	add(pass(r.status == assay.StatusComplete), "run", "complete")
	for name, v := range r.checks {
		add(v, "check", name)
	}
	if s := r.summary; s != nil {
		add(pass(s.Client.Certificate == assay.Certified), "client", "certificate")
		for _, st := range s.Stages {
			for _, h := range st.Objectives {
				name := []string{"objective", h.Objective.Metric}
				if h.Objective.Stat != "" {
					name = append(name, h.Objective.Stat)
				}
				v := h.Verdict
				if s.FindMax != nil {
					// A search goes beyond what is kept on purpose: its answer counts.
					v = pass(s.FindMax.Load.Known())
				}
				add(v, name...)
			}
		}
	} else {
		add(assay.Unknown, "client", "certificate")
	}
	if h := r.health; h != nil {
		add(h.Verdict, "health", "verdict")
		for _, f := range h.Findings {
			add(f.Verdict, "health", f.Rule)
		}
	}
	return out
}

// clip bounds a text to maxWords and makes it printable: as JSON it has then at
// most twice its length.
func clip(s string) string { return foreign.Line(s, maxWords) }
