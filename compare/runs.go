package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

// ErrNoRuns is a directory that neither is a run nor holds any. Name one that
// has a run.json, or whose directories have.
var ErrNoRuns = errors.New("no run directories")

// FromRuns makes an experiment of runs that were made elsewhere. Each directory
// is one engine: a run, or a directory of runs. Each stage of a run is a
// workload, by its name; a stage that was repeated within a run (--num-runs)
// counts once, with its mean, since a run is the sample.
//
// The runs are paired when they were made in rounds: as many of each, and every
// engine's n-th run began before any engine's next. Names and numbers of
// directories are not evidence of that; times are.
func FromRuns(dirs ...string) (Experiment, error) {
	e := Experiment{Format: ExperimentFormat, Status: assay.StatusComplete, Analysis: AnalysisAsk{Plots: true, Raw: true}, Notes: []string{}}
	if len(dirs) < 2 || len(dirs) > maxEngines {
		return e, fmt.Errorf("%d directories; 2 to %d can be compared", len(dirs), maxEngines)
	}
	groups := make([][]reduced, len(dirs))
	for i, dir := range dirs {
		paths, err := runDirs(dir)
		if err != nil {
			return e, err
		}
		for _, path := range paths {
			r, err := reduce(path)
			if err != nil {
				return e, fmt.Errorf("run %s: %w", path, err)
			}
			groups[i] = append(groups[i], r)
		}
		slices.SortStableFunc(groups[i], func(a, b reduced) int { return cmp.Compare(a.sum.Started, b.sum.Started) })
		e.Engines = append(e.Engines, engineOf(dir, groups[i]))
	}
	distinguish(e.Engines, dirs)
	e.Name = "Runs of " + strings.Join(engineNames(e), ", ")
	e.Node, e.Version = groups[0][0].manifest.Node, groups[0][0].manifest.Version
	e.Paired = inRounds(groups)
	e.workloads(groups)
	for i, g := range groups {
		for k, r := range g {
			e.Samples = append(e.Samples, r.samples(e.Engines[i].Name, k+1)...)
			if r.sum.Status != assay.StatusComplete {
				e.Status = assay.StatusPartial
				e.Notes = append(e.Notes, fmt.Sprintf("a run of %s was interrupted", e.Engines[i].Name))
			}
			if r.manifest.Node.ID != e.Node.ID {
				e.Notes = append(e.Notes, fmt.Sprintf("a run of %s was made on another machine: %s", e.Engines[i].Name, clipName(r.manifest.Node.Hostname)))
			}
			e.Created, e.Ended = earlier(e.Created, r.sum.Started), max(e.Ended, r.sum.Ended)
		}
	}
	slices.Sort(e.Notes)
	e.Notes = slices.Compact(e.Notes)
	e.Plan.Test = testMannWhitney
	if e.Paired {
		e.Plan.Test = testSignedRank
	}
	e.Plan.Tests = Tests(e)
	if err := e.check(); err != nil {
		return e, fmt.Errorf("%w: %w", ErrExperiment, err)
	}
	return e, nil
}

func earlier(a, b int64) int64 {
	if a == 0 || b < a {
		return b
	}
	return a
}

// reduced is a run in numbers.
type reduced struct {
	dir      string
	manifest assay.Manifest
	sum      assay.Summary
	names    map[int]string // workload by stage
}

func reduce(dir string) (reduced, error) {
	run, err := journal.Open(dir)
	if err != nil {
		return reduced{}, err
	}
	sum, err := summary.Of(run)
	if err != nil {
		return reduced{}, err
	}
	if len(sum.Stages) == 0 {
		return reduced{}, errors.New("it has no stage")
	}
	return reduced{dir: dir, manifest: run.Manifest(), sum: sum, names: map[int]string{}}, nil
}

// runDirs is a run, or the runs in a directory, by name.
func runDirs(dir string) ([]string, error) {
	isRun := func(d string) bool {
		info, err := os.Stat(filepath.Join(d, journal.RunFile))
		return err == nil && info.Mode().IsRegular()
	}
	if isRun(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	var out []string
	for _, x := range entries {
		if path := filepath.Join(dir, x.Name()); isRun(path) {
			out = append(out, path)
		}
	}
	switch {
	case len(out) == 0:
		return nil, fmt.Errorf("%s: %w", dir, ErrNoRuns)
	case len(out) > maxRounds:
		return nil, fmt.Errorf("%s has %d runs; at most %d can be compared", dir, len(out), maxRounds)
	}
	return out, nil
}

func engineOf(dir string, runs []reduced) Engine {
	x := runs[0].manifest.Engine
	e := Engine{Name: clipName(filepath.Base(filepath.Clean(dir))), Kind: "runs", Lock: map[string]string{}}
	for key, v := range map[string]string{"url": assay.MaskURLs(x.URL), "backend": x.Backend, "model": x.Model, "version": x.Version} {
		if v != "" {
			e.Lock[key] = v
		}
	}
	return e
}

// distinguish gives engines whose directories have one name the names of the
// directories above too, and numbers if that is not enough.
func distinguish(engines []Engine, dirs []string) {
	count := map[string]int{}
	for _, e := range engines {
		count[e.Name]++
	}
	seen := map[string]bool{}
	for i := range engines {
		if count[engines[i].Name] > 1 || engines[i].Name == "." || engines[i].Name == ".." {
			if abs, err := filepath.Abs(dirs[i]); err == nil {
				engines[i].Name = clipName(filepath.Base(filepath.Dir(abs)) + "/" + filepath.Base(abs))
			}
		}
		base := engines[i].Name
		for n := 2; seen[engines[i].Name]; n++ {
			engines[i].Name = fmt.Sprintf("%s (%d)", base, n)
		}
		seen[engines[i].Name] = true
	}
}

// inRounds says that the runs of all engines were made in rounds.
func inRounds(groups [][]reduced) bool {
	n := len(groups[0])
	for _, g := range groups {
		if len(g) != n {
			return false
		}
	}
	for k := range n - 1 {
		last, next := int64(math.MinInt64), int64(math.MaxInt64)
		for _, g := range groups {
			last, next = max(last, g[k].sum.Started), min(next, g[k+1].sum.Started)
		}
		if last >= next {
			return false
		}
	}
	return n > 1
}

// workloads names the stages: those of one name and one plan are one workload.
// The second plan of one name gets a number, so that different loads are never
// compared.
func (e *Experiment) workloads(groups [][]reduced) {
	byPlan := map[string]string{}
	for _, g := range groups {
		for _, r := range g {
			for i, st := range r.sum.Stages {
				plan := st.Plan
				base, _, _ := strings.Cut(st.Name, "#")
				plan.Name, plan.Run = base, 0
				b, err := json.Marshal(plan)
				if err != nil {
					continue // a plan that came from JSON goes back to it
				}
				name, ok := byPlan[string(b)]
				if !ok {
					name = clipName(base)
					for n := 2; name == "" || slices.Contains(e.Workloads, name); n++ {
						name = fmt.Sprintf("%s (load %d)", clipName(base), n)
					}
					byPlan[string(b)] = name
					e.Loads = append(e.Loads, loadOf(name, plan))
					e.Workloads = append(e.Workloads, name)
				}
				r.names[i] = name
			}
		}
	}
}

// samples are the run's, one for each workload in it.
func (r reduced) samples(engine string, round int) []Sample {
	var out []Sample
	for i, st := range r.sum.Stages {
		if slices.ContainsFunc(out, func(s Sample) bool { return s.Workload == r.names[i] }) {
			continue // it is in the mean of the first one
		}
		var same []assay.StageSummary
		for k, other := range r.sum.Stages {
			if r.names[k] == r.names[i] {
				same = append(same, other)
			}
		}
		s := Sample{Engine: engine, Workload: r.names[i], Round: round, Order: 1, Started: st.Started, Dir: r.dir, Client: r.sum.Client.Certificate}
		if len(same) == 1 {
			s.Within = withinRun(st)
		}
		s.repeated(r.sum, same)
		out = append(out, s)
	}
	return out
}

// repeated fills the sample from one stage, or from the repetitions of one: the
// mean of each metric that all of them have.
func (s *Sample) repeated(run assay.Summary, stages []assay.StageSummary) {
	n := float64(len(stages))
	if len(run.Stages) > 1 {
		run.GPUs = nil // readings of the whole run are not this stage's
	}
	for i, st := range stages {
		run.Stages = []assay.StageSummary{st}
		if i == 0 {
			s.Metrics, s.Whole = map[string]float64{}, map[string]float64{}
		}
		addMean(s.Metrics, figures(run), i == 0, n)
		addMean(s.Whole, wholeFigures(st), i == 0, n)
		s.addNeeded(st)
		if !st.Windowed() {
			s.RatesOf = assay.RatesOfWhole
		}
		s.Requests, s.OK, s.Ended = s.Requests+st.Requests, s.OK+st.OK, max(s.Ended, st.Ended)
		s.OutputTokens, s.InputTokens = s.OutputTokens+st.OutputTokens.Mean/n, s.InputTokens+st.InputTokens.Mean/n
	}
	if s.OK == 0 {
		s.Failed = "no request succeeded"
	}
}

// addMean adds one of n repetitions to the mean of each figure; one that a
// repetition lacks is dropped.
func addMean(sum, one map[string]float64, first bool, n float64) {
	if first {
		for name := range one {
			sum[name] = 0
		}
	}
	for name := range sum {
		if v, ok := one[name]; ok {
			sum[name] += v / n
		} else {
			delete(sum, name)
		}
	}
}

// loadOf says how a stage loads an engine.
func loadOf(workload string, plan assay.Stage) Load {
	l := Load{Workload: workload}
	if plan.Kind == assay.LoadClosed {
		l.Concurrency = plan.Concurrency
	}
	// How long it goes on is no part of the work: a sweep scales it with the load.
	plan.Name, plan.Run, plan.Concurrency = "", 0, 0
	plan.Requests, plan.Warmups, plan.DurationNS, plan.RampUpNS, plan.GraceNS = 0, 0, 0, 0, 0
	l.Work = WorkOf(plan)
	return l
}
