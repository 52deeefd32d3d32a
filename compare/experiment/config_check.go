package experiment

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/inference"
)

// fault is one thing that is wrong, and where it stands.
type fault struct{ path, text string }

// faults collects what is wrong.
type faults []fault

func (f *faults) add(path, format string, args ...any) {
	*f = append(*f, fault{path, fmt.Sprintf(format, args...)})
}

// namePattern keeps names usable as file names and in command lines.
var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	envPattern      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	currencyPattern = regexp.MustCompile(`^[A-Za-z]{1,8}$`)
)

// Bounds on what one file can ask for.
const (
	maxEngines    = 64
	maxWorkloads  = 64
	maxIterations = 1_000_000
	maxRounds     = 1_000
)

// faults says what is wrong with a configuration as it was read.
func (c *Config) faults() faults {
	var f faults
	c.engineFaults(&f)
	c.workloadFaults(&f)
	c.analysisFaults(&f)
	c.systemFaults(&f)
	c.experimentFaults(&f)
	return f
}

func (c *Config) engineFaults(f *faults) {
	if len(c.Engines) == 0 {
		f.add("engines", "engines: there must be at least one")
	}
	if len(c.Engines) > maxEngines {
		f.add("engines", "engines: at most %d can be compared", maxEngines)
		return
	}
	seen := map[string]bool{}
	on := 0
	for i, e := range c.Engines {
		at := fmt.Sprintf("engines[%d]", i)
		if e.On() {
			on++
		}
		nameFaults(f, at+".name", "an engine's name", e.Name, seen)
		ways := 0
		for _, there := range []bool{e.Serve != nil, e.URL != "", e.BinaryPath != ""} {
			if there {
				ways++
			}
		}
		if ways != 1 {
			f.add(at, "engine %s: give exactly one of serve, url and binary_path", e.Name)
		}
		if e.URL != "" {
			if err := inference.CheckURL(e.URL); err != nil {
				f.add(at+".url", "engine %s: %v", e.Name, err)
			}
			if len(e.Env)+len(e.PassEnv) > 0 {
				f.add(at, "engine %s: env and pass_env are for engines that we start", e.Name)
			}
		}
		if len(e.Args) > 0 && e.BinaryPath == "" {
			f.add(at+".args", "engine %s: args go with binary_path", e.Name)
		}
		if e.Backend != "" {
			if _, err := inference.ParseBackend(e.Backend); err != nil {
				f.add(at+".backend", "engine %s: %v", e.Name, err)
			}
		}
		envFaults(f, at, e.Name, e.Env, e.PassEnv)
		passwordFaults(f, at+".args", e.Name, e.Args)
		if s := e.Serve; s != nil {
			serveFaults(f, at+".serve", e.Name, s)
		}
	}
	if len(c.Engines) > 0 && on == 0 {
		f.add("engines", "engines: none is enabled")
	}
}

func serveFaults(f *faults, at, engine string, s *ServeConfig) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		f.add(at+".command", "engine %s: serve needs a command, as a list", engine)
	}
	if s.Port < 0 || s.Port > 65535 {
		f.add(at+".port", "engine %s: %d is not a port", engine, s.Port)
	}
	if s.Port == 0 && !slices.ContainsFunc(s.Command, func(a string) bool { return strings.Contains(a, "{port}") }) &&
		!hasValue(s.Env, "{port}") {
		f.add(at+".command", "engine %s: nothing tells it where to listen: put {port} into the command or the environment, or give its port", engine)
	}
	if s.Health != "" && !strings.HasPrefix(s.Health, "/") {
		f.add(at+".health", "engine %s: the health path begins with /", engine)
	}
	if s.ReadyTimeout < 0 || s.Grace < 0 {
		f.add(at, "engine %s: times cannot be negative", engine)
	}
	envFaults(f, at, engine, s.Env, s.PassEnv)
	passwordFaults(f, at+".command", engine, s.Command)
}

// passwordFaults refuses a URL with a password in it: all of the configuration is
// kept with the result.
func passwordFaults(f *faults, at, engine string, texts []string) {
	if slices.ContainsFunc(texts, func(s string) bool { return assay.MaskURLs(s) != s }) {
		f.add(at, "engine %s: it has a URL with a user or a password, which would be recorded; put it into a variable, and name that in pass_env", engine)
	}
}

func hasValue(env map[string]string, part string) bool {
	for _, v := range env {
		if strings.Contains(v, part) {
			return true
		}
	}
	return false
}

func envFaults(f *faults, at, engine string, env map[string]string, pass []string) {
	for k, v := range env {
		if !envPattern.MatchString(k) || strings.ContainsRune(v, 0) {
			f.add(at+".env", "engine %s: %q is not a variable", engine, k)
		}
	}
	passwordFaults(f, at+".env", engine, slices.Collect(maps.Values(env)))
	for i, k := range pass {
		if !envPattern.MatchString(k) {
			f.add(fmt.Sprintf("%s.pass_env[%d]", at, i), "engine %s: %q is not a variable's name", engine, k)
		}
	}
}

func nameFaults(f *faults, at, what, n string, seen map[string]bool) {
	switch {
	case n == "":
		f.add(at, "%s is missing", what)
	case !namePattern.MatchString(n):
		f.add(at, "%s is up to 64 letters, digits, dots, dashes and underscores, not %q", what, n)
	// Two names that differ in case are one file on some systems.
	case seen[strings.ToLower(n)]:
		f.add(at, "%s is there twice: %s", what, n)
	}
	seen[strings.ToLower(n)] = true
}

func (c *Config) workloadFaults(f *faults) {
	if len(c.Workloads) == 0 {
		f.add("workloads", "workloads: there must be at least one")
	}
	if len(c.Workloads) > maxWorkloads {
		f.add("workloads", "workloads: at most %d", maxWorkloads)
		return
	}
	seen := map[string]bool{}
	for i, w := range c.Workloads {
		at := fmt.Sprintf("workloads[%d]", i)
		nameFaults(f, at+".name", "a workload's name", w.Name, seen)
		if w.Iterations < 1 || w.Iterations > maxIterations {
			f.add(at+".iterations", "workload %s: iterations must be 1 to %d, not %d", w.Name, maxIterations, w.Iterations)
		}
		if w.WarmupIterations < 0 || w.WarmupIterations > maxIterations {
			f.add(at+".warmup_iterations", "workload %s: warmup_iterations cannot be %d", w.Name, w.WarmupIterations)
		}
		if w.Concurrency < 0 || w.Concurrency > 100_000 {
			f.add(at+".concurrency", "workload %s: a concurrency of %d cannot be", w.Name, w.Concurrency)
		}
		if !(w.RequestRate >= 0 && w.RequestRate < 1e6) {
			f.add(at+".request_rate", "workload %s: a request rate of %g cannot be", w.Name, w.RequestRate)
		}
		switch hammer.Connection(w.Connection) {
		case "", hammer.ConnectionKeep, hammer.ConnectionFresh:
		default:
			f.add(at+".connection", "workload %s: connection is keep or fresh, not %q", w.Name, w.Connection)
		}
		if w.Timeout < 0 {
			f.add(at+".timeout", "workload %s: times cannot be negative", w.Name)
		}
		random := w.InputLen != 0 || w.OutputLen != 0
		switch {
		case random && len(w.TestCases) > 0:
			f.add(at+".test_cases", "workload %s: give test_cases, or input_len and output_len", w.Name)
		case random && (w.InputLen < 1 || w.OutputLen < 1):
			f.add(at, "workload %s: input_len and output_len must both be at least 1", w.Name)
		case !random && len(w.TestCases) == 0:
			f.add(at, "workload %s: it has nothing to ask: give test_cases, or input_len and output_len", w.Name)
		}
		for j, t := range w.TestCases {
			on := fmt.Sprintf("%s.test_cases[%d]", at, j)
			if t.Prompt == "" {
				f.add(on, "workload %s: a test case needs a prompt", w.Name)
			}
			if t.MaxTokens < 1 || t.MaxTokens > 10_000_000 {
				f.add(on+".max_tokens", "workload %s: max_tokens must be at least 1", w.Name)
			}
			if t.Temperature != nil && !(*t.Temperature >= 0 && *t.Temperature <= 100) {
				f.add(on+".temperature", "workload %s: a temperature of %g cannot be", w.Name, *t.Temperature)
			}
			if first := w.TestCases[0].Temperature; !sameNumber(first, t.Temperature) {
				f.add(on, "workload %s: its test cases have different temperatures; make a workload of each", w.Name)
			}
		}
	}
}

func sameNumber(a, b *float64) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

func (c *Config) analysisFaults(f *faults) {
	a := c.Analysis
	shareFaults(f, "analysis.confidence_level", "the confidence level", a.ConfidenceLevel)
	valueFaults(f, "significance_test", a.SignificanceTest)
	valueFaults(f, "adjust", a.Adjust)
	if a.Currency != "" && !currencyPattern.MatchString(a.Currency) {
		f.add("analysis.currency", "currency is up to 8 letters such as USD, not %q", a.Currency)
	}
	if !(a.OutlierThreshold >= 0) || math.IsInf(a.OutlierThreshold, 0) {
		f.add("analysis.outlier_threshold", "outlier_threshold must be positive")
	}
	for engine, price := range a.Prices {
		at := "analysis.price_per_hour." + engine
		if _, err := assay.ParseMoney(price, "USD"); err != nil {
			f.add(at, "price of %s: %v", engine, err)
		}
		if engine != "default" && !slices.ContainsFunc(c.Engines, func(e EngineConfig) bool { return e.Name == engine }) {
			f.add(at, "there is a price of %s, and no such engine", engine)
		}
	}
	for i, s := range a.SLO {
		if _, err := assay.ParseObjective(s); err != nil {
			f.add(fmt.Sprintf("analysis.slo[%d]", i), "%v", err)
		}
	}
}

// valueFaults refuses what the table of the analysis does not list; empty is what is
// not said.
func valueFaults(f *faults, key, v string) {
	if k := compare.AnalysisKeyOf(key); v != "" && !slices.Contains(k.Values, v) {
		f.add("analysis."+key, "%s %q is not known; known are %s", key, v, strings.Join(k.Values, ", "))
	}
}

// shareFaults refuses what is not in (0,1); zero is what is not said.
func shareFaults(f *faults, at, what string, v float64) {
	if v != 0 && !(v > 0 && v < 1) {
		f.add(at, "%s must lie between 0 and 1, not %g", what, v)
	}
}

func (c *Config) systemFaults(f *faults) {
	s := c.System
	if s.GPUDevice != nil && (*s.GPUDevice < 0 || *s.GPUDevice > 1023) {
		f.add("system.gpu_device", "gpu_device %d cannot be", *s.GPUDevice)
	}
	if !(s.MaxMemoryGB >= 0 && s.MaxMemoryGB < 1<<20) {
		f.add("system.max_memory_gb", "max_memory_gb %g cannot be", s.MaxMemoryGB)
	}
	for i, cpu := range s.CPUAffinity {
		if cpu < 0 || cpu > 1<<14 {
			f.add(fmt.Sprintf("system.cpu_affinity[%d]", i), "there is no processor %d", cpu)
		}
	}
	if !(s.ThermalLimit >= 0 && s.ThermalLimit < 1000) {
		f.add("system.thermal_limit_celsius", "thermal_limit_celsius %g cannot be", s.ThermalLimit)
	}
	if d := s.CoolDownSeconds; d != nil && !(*d >= 0 && *d <= 86400) {
		f.add("system.cool_down_seconds", "cool_down_seconds %g cannot be", *d)
	}
	if !(s.CoolDownTolerance >= 0 && s.CoolDownLoad >= 0) || s.CoolDownTimeout < 0 {
		f.add("system", "system: a cool-down's tolerances and timeout cannot be negative")
	}
	if n := c.Monitoring.SampleIntervalMS; n < 0 || n > 60_000 || n > 0 && n < 10 {
		f.add("monitoring.sample_interval_ms", "sample_interval_ms must be 10 to 60000, not %d", n)
	}
}

func (c *Config) experimentFaults(f *faults) {
	x := c.Experiment
	for _, v := range []struct {
		at string
		n  int
	}{{"rounds", x.Rounds}, {"max_rounds", x.MaxRounds}, {"looks", x.Looks}} {
		if v.n < 0 || v.n > maxRounds {
			f.add("experiment."+v.at, "%s must be 0 to %d, not %d", v.at, maxRounds, v.n)
		}
	}
	if x.Looks > 100 {
		f.add("experiment.looks", "looks must be at most 100, not %d", x.Looks)
	}
	if x.MaxRounds > 0 && x.Rounds > x.MaxRounds {
		f.add("experiment.rounds", "rounds (%d) is more than max_rounds (%d)", x.Rounds, x.MaxRounds)
	}
	if x.Pilot != nil && (*x.Pilot < 0 || *x.Pilot > 20 || *x.Pilot == 1) {
		f.add("experiment.pilot", "pilot is 0, or 2 to 20 passes: one alone shows no variation")
	}
	if x.Pilot != nil && *x.Pilot == 0 && x.Rounds == 0 {
		f.add("experiment.pilot", "without a pilot, rounds must be given")
	}
	if x.TimeBudget < 0 {
		f.add("experiment.time_budget", "time_budget cannot be negative")
	}
	shareFaults(f, "experiment.effect", "effect", x.Effect)
	shareFaults(f, "experiment.level", "level", x.Level)
	shareFaults(f, "experiment.power", "power", x.Power)
	if x.PrimaryMetric == "" {
		return
	}
	var known []string
	for _, m := range compare.Metrics() {
		if m.Better != assay.Neither {
			known = append(known, m.Name)
		}
	}
	if !slices.Contains(known, x.PrimaryMetric) {
		f.add("experiment.primary_metric", "primary_metric %q is not known; known are %s", x.PrimaryMetric, strings.Join(known, ", "))
	}
}
