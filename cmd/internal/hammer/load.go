package hammer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
)

const (
	levelDuration   = 15 * time.Second // of each level of --sweep and --batch
	searchDuration  = 8 * time.Second  // of each step of --saturate and --find-max
	sustainDuration = time.Minute
	searchHighest   = 256 // streams that a search tries at most
)

// modes lists the flags given that each are a load of their own.
func (r *resolver) modes() []string {
	all := r.givenOf("sweep", "saturate", "find-max", "sustain", "batch", "replay", "scenario")
	if r.given("saturate") && !r.saturate { // --saturate=false
		all = slices.DeleteFunc(all, func(s string) bool { return s == "--saturate" })
	}
	if r.datasetName == "timed_trace" {
		all = append(all, "--dataset-name timed_trace")
	}
	return all
}

// vllmLoad reports whether the command line asks for a load in vLLM's words,
// and not for one of ours that those words only refine.
func (r *resolver) vllmLoad() bool {
	if len(r.modes()) > 0 || r.scenarioName() != "" {
		return false
	}
	found := false
	for _, f := range vllmFlags {
		switch name := f.name; {
		case name == "num-prompts", name == "request-rate", name == "max-concurrency", name == "burstiness",
			name == "input-len", name == "output-len", name == "dataset-name", name == "dataset-path",
			strings.HasPrefix(name, "random-"), strings.HasPrefix(name, "ramp-up-"):
			found = found || r.given(name)
		}
	}
	return found
}

// vllmNote says which defaults a load in vLLM's words brings along: they are not
// those of the other loads, with which it might be compared.
func (r *resolver) vllmNote() {
	var as []string
	if r.backend == "" && r.endpoint == "" {
		as = append(as, "openai's completions (--backend)")
	}
	if r.datasetName == "random" && r.profileName() == "" && len(r.givenOf("input-len", "random-input-len")) == 0 {
		as = append(as, "1024 tokens in (--input-len)")
	}
	if r.datasetName == "random" && r.profileName() == "" && len(r.givenOf("output-len", "random-output-len")) == 0 {
		as = append(as, "128 tokens out (--output-len)")
	}
	if len(as) > 0 {
		r.note("a load in the words of vllm bench serve has its defaults: %s", strings.Join(as, ", "))
	}
}

func (r *resolver) load() {
	if r.grace < 0 {
		r.bad("--grace must not be negative: %s", r.grace)
	}
	if r.warmups < 0 {
		r.bad("--num-warmups must not be negative: %d", r.warmups)
	}
	if r.given("duration") && r.duration <= 0 {
		r.bad("--duration must be more than 0, not %s", r.duration)
	}
	if r.given("num-prompts") && r.numPrompts < 1 {
		r.bad("--num-prompts must be at least 1, not %d", r.numPrompts)
	}
	if r.given("max-concurrency") && r.maxConcurrency < 1 {
		r.bad("--max-concurrency must be at least 1, not %d; leave it out for no limit", r.maxConcurrency)
	}
	if r.given("burstiness") && !(r.burstiness > 0) {
		r.bad("--burstiness must be more than 0, not %g; inf gives constant gaps", r.burstiness)
	}
	if r.given("random-batch-size") && r.randomBatch != 1 {
		r.bad("--random-batch-size %d: more than 1 is for embeddings, which are not measured; several prompts in one request are --batch %d --batch-mode request", r.randomBatch, r.randomBatch)
	}
	if r.given("request-rate") && !(r.requestRate > 0) {
		r.bad("--request-rate must be more than 0, not %g; inf is no limit", r.requestRate)
	}
	r.c.Load.Grace, r.c.Load.Warmups = assay.Duration(r.grace), r.warmups

	scenario, modes := r.scenarioName(), r.modes()
	switch {
	case len(modes) > 1:
		r.bad("%s exclude each other, for each is a load of its own; leave one of them", strings.Join(modes, " and "))
	case len(modes) == 1 && modes[0] != "--scenario":
		if scenario != "" {
			r.note("the scenario %s of %s is left aside for %s", scenario, r.hammerFlags.file, modes[0])
		}
		r.ownLoad(modes[0])
	case scenario != "":
		r.scenarioLoad(scenario)
	case r.vllmLoad():
		r.vllmLoadOf()
		r.vllmNote()
	default:
		r.scenarioLoad(hammer.BuiltinScenarios()[0].Name)
	}
	if l := &r.c.Load; !r.given("grace") && l.Duration == 0 && (l.Requests > 0 || l.Mode == hammer.ModeReplay) {
		// Whoever counts requests wants the answers to all of them: vLLM waits.
		l.Grace = r.c.Timeouts.Total
	}
	if r.given("batch-mode") {
		if r.batchMode != "parallel" && r.batchMode != "request" {
			r.bad("--batch-mode is parallel or request, not %q", r.batchMode)
		} else if r.c.Load.Mode != hammer.ModeBatch {
			r.bad("--batch-mode goes with --batch, for example --batch 1,4,8")
		}
		r.c.Load.BatchMode = r.batchMode
	}
	if r.datasetName != "timed_trace" {
		if extra := r.givenOf("self-timed", "timed-trace-sec-multiplier"); len(extra) > 0 {
			r.bad("%s: only with --dataset-name timed_trace; --replay finds the format out by itself", strings.Join(extra, " "))
		}
	}
}

// scenarioName is the scenario that was asked for by flag or by file.
func (r *resolver) scenarioName() string {
	switch {
	case r.scenario != "":
		return r.scenario
	case r.file.Scenario != "":
		return r.file.Scenario
	case len(r.file.Scenarios) == 1:
		return r.file.Scenarios[0].Name
	}
	return ""
}

func (r *resolver) scenarioLoad(name string) {
	s, err := r.file.pickScenario(name)
	if err != nil {
		r.check(err)
		return
	}
	r.refuse("a scenario", "burstiness", "request-rate", "ramp-up-strategy", "ramp-up-start-rps", "ramp-up-end-rps")
	if r.duration > 0 {
		if s.Duration > 0 {
			share := float64(r.duration) / float64(s.Duration)
			s.RampUp = assay.Duration((time.Duration(float64(s.RampUp) * share)).Round(time.Millisecond))
		}
		s.Duration = assay.Duration(r.duration)
	}
	if n := r.maxConcurrency; n > 0 && (s.Pattern == "parallel" || s.Pattern == "saturation") {
		s.MaxConcurrency = n
		if len(s.Levels) > 0 {
			s.Levels = append(slices.DeleteFunc(slices.Clone(s.Levels), func(l int) bool { return l >= n }), n)
		}
	}
	switch s.Pattern {
	case "batch":
		r.refuse("a scenario of batches", "max-concurrency")
	case "sequential":
		r.refuse("a sequential scenario, which is one stream", "max-concurrency")
	case "saturation":
		r.refuse("a scenario of saturation, whose steps are timed by --duration", "num-prompts")
	}
	if err := r.c.Apply(s); err != nil {
		r.check(err)
		return
	}
	l := &r.c.Load
	if l.Mode == hammer.ModeSustain {
		r.refuse("a sustained scenario", "num-prompts")
		if r.maxConcurrency > 0 {
			l.Concurrency = r.maxConcurrency
		}
	}
	if r.given("num-prompts") {
		l.Requests = r.numPrompts
	}
}

// refuse complains about flags that say nothing in a mode.
func (r *resolver) refuse(mode string, names ...string) {
	if given := r.givenOf(names...); len(given) > 0 {
		r.bad("%s does not go with %s; leave it out", strings.Join(given, " "), mode)
	}
}

// ownLoad is one of our modes.
func (r *resolver) ownLoad(mode string) {
	r.c.Scenario = nil
	r.refuse(mode, "request-rate", "ramp-up-strategy", "ramp-up-start-rps", "ramp-up-end-rps")
	l := hammer.Load{Grace: r.c.Load.Grace, Warmups: r.c.Load.Warmups}
	byRate := false
	switch mode {
	case "--sweep":
		l.Mode = hammer.ModeSweep
		list, rates := strings.CutPrefix(r.sweep, "rate:")
		byRate = rates
		if rates {
			l.Rates, l.Burstiness = listOf(r, mode, list, parseRate), r.shape()
			l.Concurrency = r.maxConcurrency
		} else {
			l.Levels = listOf(r, mode, list, parseLevel)
			r.refuse("--sweep over streams", "max-concurrency")
		}
		r.levels(&l)
	case "--batch":
		l.Mode, l.BatchMode = hammer.ModeBatch, "parallel"
		l.Levels = listOf(r, mode, r.batch, parseLevel)
		r.refuse(mode, "max-concurrency")
		r.levels(&l)
	case "--saturate":
		r.refuse(mode+", whose steps are timed by --duration", "num-prompts")
		l.Mode, l.Concurrency, l.Duration = hammer.ModeSaturate, r.highest(), r.step()
	case "--find-max":
		r.refuse(mode+", whose steps are timed by --duration", "num-prompts")
		l.Mode, l.FindMax, l.Duration = hammer.ModeFindMax, r.findMax, r.step()
		if byRate = r.findMax == "rate"; byRate {
			l.Burstiness, l.Concurrency = r.shape(), r.maxConcurrency
		} else {
			l.Concurrency = r.highest()
		}
	case "--sustain":
		r.refuse(mode+", which is timed by --duration", "num-prompts")
		byRate = true
		hold := r.duration
		if hold == 0 {
			hold = sustainDuration
		}
		l.Mode, l.Utilization, l.Hold = hammer.ModeSustain, r.sustain, assay.Duration(hold)
		l.Duration = assay.Duration(min(20*time.Second, hold/10))
		l.Concurrency, l.Burstiness = r.highest(), r.shape()
	default: // --replay, timed_trace
		l.Mode, l.Trace = hammer.ModeReplay, r.replay
		l.Concurrency, l.Duration = r.maxConcurrency, assay.Duration(r.duration)
		if mode != "--replay" || r.given("timed-trace-chunk-hash-size") {
			if l.TraceBlock = r.traceBlock; l.TraceBlock < 1 {
				r.bad("--timed-trace-chunk-hash-size must be at least 1, not %d", l.TraceBlock)
			}
		}
		if mode != "--replay" {
			r.timedTrace(&l)
		}
		if r.given("num-prompts") {
			l.Requests = r.numPrompts
		}
	}
	if !byRate {
		r.refuse(mode, "burstiness")
	}
	r.c.Load = l
}

// timedTrace is vLLM's way to name a replay.
func (r *resolver) timedTrace(l *hammer.Load) {
	l.Trace = r.datasetPath
	if l.Trace == "" {
		r.bad("--dataset-name timed_trace needs --dataset-path, a local file")
	}
	if r.traceMultiplier != 0.001 {
		r.bad("--dataset-name timed_trace: timestamps must be milliseconds; say so with --timed-trace-sec-multiplier 0.001, or convert the file and use --replay FILE")
	}
}

func (r *resolver) levels(l *hammer.Load) {
	if r.given("num-prompts") {
		l.Requests, l.Duration = r.numPrompts, assay.Duration(r.duration)
		return
	}
	l.Duration = assay.Duration(levelDuration)
	if r.duration > 0 {
		l.Duration = assay.Duration(r.duration)
	}
	// Streams that start together stay in step; a second spreads them.
	l.RampUp = min(assay.Duration(time.Second), l.Duration/10)
}

func (r *resolver) step() assay.Duration {
	if r.duration > 0 {
		return assay.Duration(r.duration)
	}
	return assay.Duration(searchDuration)
}

func (r *resolver) highest() int {
	if r.maxConcurrency > 0 {
		return r.maxConcurrency
	}
	return searchHighest
}

// shape is the burstiness as Config has it: constant gaps are 0.
func (r *resolver) shape() float64 {
	if math.IsInf(r.burstiness, 1) {
		return 0
	}
	return r.burstiness
}

// vllmLoadOf is the load of a vLLM command line.
func (r *resolver) vllmLoadOf() {
	r.c.Scenario = nil
	l := hammer.Load{Grace: r.c.Load.Grace, Warmups: r.c.Load.Warmups}
	l.Concurrency, l.Duration = r.maxConcurrency, assay.Duration(r.duration)
	if r.given("num-prompts") || r.duration == 0 {
		l.Requests = r.numPrompts
	}
	finite := r.given("request-rate") && !math.IsInf(r.requestRate, 1)
	switch {
	case r.rampStrategy != "":
		if finite {
			r.bad("--ramp-up-strategy sets the rate; leave out --request-rate")
		}
		if !r.given("ramp-up-start-rps") || !r.given("ramp-up-end-rps") {
			r.bad("--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps")
		}
		l.Mode, l.Ramp, l.RateFrom, l.RateTo = hammer.ModeRamp, r.rampStrategy, r.rampStart, r.rampEnd
		l.Burstiness = r.shape()
	case finite:
		l.Mode, l.Rate, l.Burstiness, l.Normalise = hammer.ModeOpen, r.requestRate, r.shape(), l.Requests > 0
	case l.Concurrency > 0:
		l.Mode = hammer.ModeClosed
	default:
		l.Mode = hammer.ModeOpen
		if l.Requests == 0 {
			r.bad("--duration alone does not say how much to send; add --max-concurrency or --request-rate, or --num-prompts for all at once")
		}
	}
	if r.rampStrategy == "" {
		if extra := r.givenOf("ramp-up-start-rps", "ramp-up-end-rps"); len(extra) > 0 {
			r.bad("%s needs --ramp-up-strategy linear or exponential", strings.Join(extra, " "))
		}
		if r.given("burstiness") && !finite {
			r.note("--burstiness has no effect without --request-rate")
		}
	}
	r.c.Load = l
}

func parseLevel(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a whole number of at least 1", s)
	}
	return n, nil
}

func parseRate(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a number of requests a second", s)
	}
	return v, nil
}

func listOf[T any](r *resolver, flag, list string, parse func(string) (T, error)) (out []T) {
	for word := range strings.SplitSeq(list, ",") {
		v, err := parse(strings.TrimSpace(word))
		if err != nil {
			r.bad("%s: %w; write numbers with commas between, for example 1,2,4", flag, err)
			return nil
		}
		out = append(out, v)
	}
	return out
}
