package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
	"github.com/assay-bench/assay/telemetry"
)

// JobFormat names the format of the job that a benchmark binary reads.
// docs/formats/benchmark-binary.md specifies it.
const JobFormat = "assay/benchmark-job/v1"

// Job is what a benchmark binary reads on its standard input.
type Job struct {
	Format           string     `json:"format"`
	Workload         string     `json:"workload"`
	Description      string     `json:"description,omitempty"`
	Model            string     `json:"model,omitempty"`
	ModelPath        string     `json:"model_path,omitempty"`
	Round            int        `json:"round"`
	Seed             uint64     `json:"seed"`
	TestCases        []TestCase `json:"test_cases,omitempty"`
	Random           *JobRandom `json:"random,omitempty"` // in the place of TestCases
	IgnoreEOS        bool       `json:"ignore_eos,omitempty"`
	KeepText         bool       `json:"keep_text,omitempty"`
	Iterations       int        `json:"iterations"`
	WarmupIterations int        `json:"warmup_iterations"`
	Requests         int        `json:"requests"`
	Warmups          int        `json:"warmups"`
	Concurrency      int        `json:"concurrency"`
	RequestRate      float64    `json:"request_rate,omitempty"`
}

// JobRandom asks for prompts of the binary's own making.
type JobRandom struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// jobOf is a workload as a benchmark binary gets it.
func jobOf(w WorkloadConfig, round int, seed uint64) Job {
	j := Job{
		Format: JobFormat, Workload: w.Name, Description: w.Description, Round: round, Seed: seed,
		TestCases: w.TestCases, IgnoreEOS: *w.IgnoreEOS, KeepText: w.exact(),
		Iterations: w.Iterations, WarmupIterations: w.WarmupIterations, Requests: w.requests(), Warmups: w.warmups(),
		Concurrency: w.Concurrency, RequestRate: w.RequestRate,
	}
	if len(w.TestCases) == 0 {
		j.Random = &JobRandom{w.InputLen, w.OutputLen}
	}
	return j
}

// binary visits an engine that is a benchmark binary.
func (v *visiting) binary(ctx context.Context) error {
	for len(v.todo) > 0 {
		w := v.todo[0]
		if err := v.thermal(ctx); err != nil {
			return err
		}
		began := time.Now()
		dir, err := v.runDir(w)
		if err != nil {
			return err
		}
		v.progress(Progress{Engine: v.e.Name, Workload: w.Name, Round: v.round})
		s, err := v.benchmark(ctx, w, dir)
		if err != nil {
			return v.failing(ctx, err, began)
		}
		if err := v.done(s, w, dir); err != nil {
			return err
		}
	}
	return nil
}

// benchmark runs the binary on one workload and makes a run of what it says.
func (v *visiting) benchmark(ctx context.Context, w WorkloadConfig, dir string) (compare.Sample, error) {
	job := jobOf(w, v.round, v.seed(v.round))
	job.Model, job.ModelPath = v.e.model(), v.modelPath(v.e)
	config, err := json.Marshal(job)
	if err != nil {
		return compare.Sample{}, fmt.Errorf("encode the job: %w", err)
	}
	machine := telemetry.DescribeNode()
	machine.GPUs = append(machine.GPUs, v.mon.gpus...)
	journey, err := journal.Create(dir, assay.Manifest{
		ID: ulid.Make().String(), Created: time.Now().UnixNano(), Node: machine, Clock: assay.ClockUser,
		Engine: assay.Engine{Backend: "binary", Model: v.e.model(), URL: "file:" + filepath.ToSlash(v.e.BinaryPath)},
		Seed:   job.Seed, Version: v.opt.Version, Config: config,
		Judge: assay.Judge{Objectives: v.exp.Analysis.SLO},
	})
	if err != nil {
		return compare.Sample{}, err
	}
	sum, seen, err := v.journalled(ctx, w, job, dir, journey)
	if err = errors.Join(err, journey.Close()); err != nil {
		return compare.Sample{}, err
	}
	s, err := sampleFrom(dir, sum, w, v.cfg.System.GPUDevice)
	if err != nil {
		return s, err
	}
	// How late it was is known to the binary alone.
	s.Client = assay.NoClient
	s.Counters = seen.counters
	if *v.cfg.Monitoring.MemoryTracking {
		addMemory(&s, seen.memory)
		if seen.exit.PeakRSSBytes > 0 { // it looks more often than we do
			s.Metrics["memory_peak_bytes"] = max(s.Metrics["memory_peak_bytes"], float64(seen.exit.PeakRSSBytes))
		}
	}
	if !*v.cfg.Monitoring.PowerMonitoring {
		delete(s.Metrics, "tokens_per_joule")
	}
	return s, nil
}

// journalled runs the binary and records its lines.
func (v *visiting) journalled(ctx context.Context, w WorkloadConfig, job Job, dir string, j *journal.Writer) (assay.Summary, watched, error) {
	stopReading := v.readings(ctx, j)
	began := time.Now()
	lines := newLines(job, began, j.Request)
	seen, err := v.execute(ctx, w, job, lines)
	stopReading()
	if err != nil {
		return assay.Summary{}, watched{}, err
	}
	if problems := append(lines.finish(), exitProblems(seen.exit)...); len(problems) > 0 {
		return assay.Summary{}, watched{}, &failure{why: "its output breaks the protocol: " + strings.Join(problems, "; "), tail: seen.exit.LogTail}
	}
	plan := assay.Stage{
		Name: w.Name, Kind: assay.LoadClosed, Concurrency: w.Concurrency, Requests: w.requests(), Warmups: w.warmups(),
	}
	if w.RequestRate > 0 {
		plan.Kind, plan.Rate, plan.Burstiness = assay.LoadOpen, w.RequestRate, 1
	}
	steady, last := lines.window()
	ended := max(time.Now().UnixNano(), last)
	for _, e := range []assay.Event{
		{At: began.UnixNano(), Kind: assay.EventNote, Text: "the benchmark binary measured itself: its times are self-reported"},
		{At: began.UnixNano(), Kind: assay.EventStageStarted, Stage: w.Name, Plan: &plan},
		{At: steady, Kind: assay.EventStageSteady, Stage: w.Name},
		{At: last, Kind: assay.EventStageLoadEnd, Stage: w.Name},
		{At: ended, Kind: assay.EventStageEnded, Stage: w.Name},
	} {
		if err := j.Event(e); err != nil {
			return assay.Summary{}, watched{}, err
		}
	}
	if err := j.Checkpoint(assay.Checkpoint{
		At: ended, Status: assay.StatusComplete, Stage: w.Name, StageN: 1, StageOf: 1,
		ElapsedNS: ended - began.UnixNano(), Sent: lines.n, Done: lines.n,
	}); err != nil {
		return assay.Summary{}, watched{}, err
	}
	rd, err := journal.Open(dir)
	if err != nil {
		return assay.Summary{}, watched{}, err
	}
	sum, err := summary.Of(rd)
	if err != nil {
		return sum, watched{}, err
	}
	sum.Status, sum.Client.Certificate = assay.StatusComplete, assay.NoClient
	if sum.Stages[0].OK == 0 {
		return sum, watched{}, &failure{why: "no request succeeded", tail: seen.exit.LogTail}
	}
	return sum, seen, j.Summary(&sum)
}

// readings puts the machine's readings into the run until it is stopped.
func (v *visiting) readings(ctx context.Context, j *journal.Writer) (stop func()) {
	o := telemetry.ChooseOptions{Interval: time.Duration(v.cfg.Monitoring.SampleIntervalMS) * time.Millisecond}
	if *v.cfg.Monitoring.GPUMetrics {
		o.Child = v.opt.NVML
	}
	sources, _, notes, err := telemetry.Choose(ctx, o)
	if err != nil {
		return func() {} // we are told to stop
	}
	for _, n := range notes {
		v.log.linef("readings: %s", n)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		// What cannot be written is said by the writer when it is closed.
		telemetry.Poll(ctx, o.Interval, func() int64 { return time.Now().UnixNano() }, sources,
			func(r assay.Reading) { _ = j.Reading(r) },
			func(err error) { v.log.linef("readings: %v", err) })
	}()
	return func() {
		cancel()
		<-done
		for _, s := range sources {
			_ = s.Close()
		}
	}
}

// watched is what was seen of a binary from outside.
type watched struct {
	exit     proc.Exit
	memory   []memoryPoint
	counters map[string]float64
}

// execute runs the binary to its end, or ends it.
func (v *visiting) execute(ctx context.Context, w WorkloadConfig, job Job, lines *lineReader) (seen watched, err error) {
	spec := v.spec(v.e, filepath.Join(v.home, v.label+"-"+w.Name+".log"), v.fills(v.e, 0))
	spec.Command = v.command(v.e)
	v.log.linef("%s: starting %q", v.e.Name, spec.Command)
	within, cancel := context.WithTimeoutCause(ctx, time.Duration(w.Timeout), errTooLong)
	defer cancel()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	memory, counted := func() []memoryPoint { return nil }, func() map[string]float64 { return nil }
	seen.exit, err = runJob(within, spec, job, lines, func(p *proc.Process) {
		v.isolated(v.e.Name, p.Isolation().String())
		v.mon.follow(v.e.Name, p)
		counted = v.count(v.e, p)
		if *v.cfg.Monitoring.MemoryTracking {
			memory = watchMemory(watching, p)
		}
	})
	stop()
	seen.memory, seen.counters = memory(), counted()
	v.mon.follow("", nil)
	v.log.linef("%s: %s", v.e.Name, seen.exit)
	if len(seen.exit.Left) > 0 {
		v.note("processes %v of %s could not be ended", seen.exit.Left, v.e.Name)
	}
	switch exit := seen.exit; {
	case ctx.Err() != nil:
		return seen, ctx.Err()
	case err != nil:
		return seen, err
	case within.Err() != nil:
		return seen, &failure{why: fmt.Sprintf("%v of %s", errTooLong, w.Timeout), tail: exit.LogTail}
	case exit.MemoryExceeded || exit.Signal != "" && !exit.Stopped:
		return seen, &failure{why: "it " + exit.String(), tail: exit.LogTail}
	}
	return seen, nil
}

// runJob gives a job to a binary and its output to lines, until it ends, ctx ends,
// or what it writes is not to be used anyway.
func runJob(ctx context.Context, spec proc.Spec, job any, lines *lineReader, started func(*proc.Process)) (proc.Exit, error) {
	b, err := json.Marshal(job)
	if err != nil {
		return proc.Exit{}, fmt.Errorf("encode the job: %w", err)
	}
	spec.Stdin, spec.Stdout = bytes.NewReader(append(b, '\n')), lines
	p, err := proc.Start(spec)
	if err != nil {
		if errors.Is(err, proc.ErrSupervisor) {
			return proc.Exit{}, err
		}
		return proc.Exit{}, &failure{why: "it could not be started: " + err.Error()}
	}
	started(p)
	select {
	case <-p.Done():
	case <-lines.broken:
	case <-ctx.Done():
	}
	return p.Stop(context.Background()), nil
}

// binaryPath has a path without a slash mean a file here, not a program of PATH.
func binaryPath(path string) string {
	if strings.ContainsRune(path, '/') || strings.ContainsRune(path, filepath.Separator) {
		return path
	}
	return "." + string(filepath.Separator) + path
}

// exitProblems is what is wrong with an end.
func exitProblems(exit proc.Exit) []string {
	if exit.Code != 0 && !exit.Stopped {
		return []string{"it " + exit.String()}
	}
	return nil
}

// checkWorkload is what the checker asks for: small, with two cases and a warm-up.
func checkWorkload() WorkloadConfig {
	zero, yes := 0.0, true
	return WorkloadConfig{
		Name: "check", TestCases: []TestCase{{"Say hello.", 8, &zero}, {"Count to ten.", 12, &zero}},
		Iterations: 2, WarmupIterations: 1, Concurrency: 2, IgnoreEOS: &yes,
	}
}

// CheckTimeout is how long a binary has for the checker's small job.
const CheckTimeout = 2 * time.Minute

// BinaryCheck is what the checker found.
type BinaryCheck struct {
	Lines int // request lines that were read
	// Problems are what breaks the protocol, with the number of the line; none:
	// the binary keeps to it.
	Problems []string
	LogTail  string // the end of what it wrote to standard error
}

// CheckBinary checks a benchmark binary against docs/formats/benchmark-binary.md by
// giving it a small job, and one of a format that it cannot know. An error means
// that nothing could be checked.
func CheckBinary(ctx context.Context, path string, args []string, o Options) (BinaryCheck, error) {
	x := &trial{opt: o}
	run := func(job Job) (lines *lineReader, problems []string, exit proc.Exit, err error) {
		spec := x.spec(EngineConfig{BinaryPath: path}, "", strings.NewReplacer())
		spec.Command = append([]string{binaryPath(path)}, args...)
		lines = newLines(job, time.Now(), nil)
		within, cancel := context.WithTimeout(ctx, CheckTimeout)
		defer cancel()
		exit, err = runJob(within, spec, job, lines, func(*proc.Process) {})
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		problems = append(lines.finish(), exitProblems(exit)...)
		if within.Err() != nil {
			problems = append(problems, fmt.Sprintf("it did not end within %s", CheckTimeout))
		}
		return lines, problems, exit, err
	}
	job := jobOf(checkWorkload(), 1, 1)
	lines, problems, exit, err := run(job)
	if err != nil {
		return BinaryCheck{}, fmt.Errorf("check %s: %w", path, err)
	}
	c := BinaryCheck{Lines: lines.n, Problems: problems, LogTail: exit.LogTail}
	job.Format = "assay/benchmark-job/v999999"
	lines, _, exit, err = run(job)
	if err != nil {
		return c, fmt.Errorf("check %s: %w", path, err)
	}
	if lines.raw > 0 || exit.Code == 0 && exit.Signal == "" {
		c.Problems = append(c.Problems, "a job of a format that it cannot know must make it exit with another code than 0 and write no line")
	}
	return c, nil
}
