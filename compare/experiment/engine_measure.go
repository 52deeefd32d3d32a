package experiment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
)

// measure puts one workload on an engine that answers, and gives the sample.
func (x *trial) measure(ctx context.Context, t *target, e EngineConfig, w WorkloadConfig, round int, dir string) (compare.Sample, error) {
	c, err := x.hammerConfig(t, e, w, round)
	if err != nil {
		return compare.Sample{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	within, stop := context.WithTimeoutCause(ctx, time.Duration(w.Timeout), errTooLong)
	defer stop()
	if err := hammer.Resolve(within, &c); errors.Is(err, hammer.ErrNoModel) {
		return compare.Sample{}, fmt.Errorf("engine %s: %w", e.Name, err)
	} else if err != nil {
		return compare.Sample{}, x.failed(ctx, t, w, errors.Join(hammer.ErrNoEngine, err))
	}
	if c.Extra, err = extraBody(e, c.Backend, w.temperature()); err != nil {
		return compare.Sample{}, err
	}
	memory := func() []memoryPoint { return nil }
	if t.p != nil {
		go func() {
			select {
			case <-t.p.Done():
				cancel(errDied)
			case <-within.Done():
			}
		}()
		if *x.cfg.Monitoring.MemoryTracking {
			memory = watchMemory(within, t.p)
		}
	}
	opt := hammer.Options{Version: x.opt.Version, Progress: func(cp assay.Checkpoint) {
		x.progress(Progress{Engine: e.Name, Workload: w.Name, Round: round, Run: &cp})
	}}
	if *x.cfg.Monitoring.GPUMetrics {
		opt.NVML = x.opt.NVML
	}
	counted := x.count(e, t.p)
	sum, err := hammer.Run(within, c, dir, opt)
	counts := counted()
	if err != nil {
		if within.Err() != nil && ctx.Err() == nil {
			err = errTooLong // hammer only knows that it was interrupted
		}
		return compare.Sample{}, x.failed(ctx, t, w, err)
	}
	stop() // the watcher of memory looks once more
	s, err := sampleFrom(dir, sum, w, x.cfg.System.GPUDevice)
	if err != nil {
		return compare.Sample{}, err
	}
	addMemory(&s, memory())
	s.Counters = counts
	if !*x.cfg.Monitoring.PowerMonitoring {
		delete(s.Metrics, "tokens_per_joule")
	}
	return s, nil
}

var (
	errDied    = errors.New("its process ended")
	errTooLong = errors.New("the workload took longer than its timeout")
)

// failed turns what hammer says into the engine's failure, unless it is our own: a
// full disk is not the engine's fault.
func (x *trial) failed(ctx context.Context, t *target, w WorkloadConfig, err error) error {
	cause := context.Cause(ctx)
	if cause != nil && !errors.Is(cause, errDied) {
		return cause // we were told to stop
	}
	f := &failure{why: foreign.Line(err.Error(), 1000)}
	switch {
	case errors.Is(err, errTooLong):
		f.why = fmt.Sprintf("%v of %s", errTooLong, w.Timeout)
		return f
	case cause != nil, errors.Is(err, hammer.ErrNoEngine), errors.Is(err, hammer.ErrEngineDown), errors.Is(err, hammer.ErrRefused), errors.Is(err, hammer.ErrNothingMeasured):
	default:
		return fmt.Errorf("measuring %s: %w", t.url, err)
	}
	if t.p == nil {
		return f
	}
	// A broken connection is often seen before the end of the process that broke it.
	select {
	case <-t.p.Done():
		exit := t.p.Wait()
		f.why, f.tail = "it ended in the middle of the workload: it "+exit.String(), exit.LogTail
	case <-time.After(time.Second):
	}
	return f
}

// hammerConfig is the workload as one engine gets it.
func (x *trial) hammerConfig(t *target, e EngineConfig, w WorkloadConfig, round int) (hammer.Config, error) {
	c := hammer.DefaultConfig()
	c.URL, c.APIKey, c.Model, c.Backend = t.url, t.apiKey, e.model(), e.Backend
	c.Profile, c.Scenario = nil, nil
	c.Load = hammer.Load{
		Mode: hammer.ModeClosed, Concurrency: w.Concurrency, Requests: w.requests(), Warmups: w.warmups(), Grace: w.Timeout,
	}
	if w.RequestRate > 0 {
		c.Load.Mode, c.Load.Rate, c.Load.Burstiness = hammer.ModeOpen, w.RequestRate, 1
	}
	if len(w.TestCases) > 0 {
		c.Data = hammer.Data{Kind: "custom", Path: x.casesFile(w), Oversample: true}
	} else {
		c.Data = hammer.Data{Kind: "random", InputTokens: w.InputLen, OutputTokens: w.OutputLen, Oversample: true}
	}
	c.Sampling = hammer.Sampling{Temperature: w.temperature(), IgnoreEOS: *w.IgnoreEOS}
	c.Telemetry.Interval = assay.Duration(time.Duration(x.cfg.Monitoring.SampleIntervalMS) * time.Millisecond)
	c.Seed = x.seed(round)
	c.KeepText = w.exact()
	c.Connection = hammer.Connection(w.Connection)
	c.Label = fmt.Sprintf("%s %s round %d", e.Name, w.Name, round)
	c.Judge.Objectives = x.exp.Analysis.SLO
	return c, c.Validate()
}

// extraBody is what the engine's configuration merges into every request. Ollama
// takes the temperature in its options, which those of the configuration would
// replace: it is put among them.
func extraBody(e EngineConfig, backend string, temperature *float64) (json.RawMessage, error) {
	if len(e.Extra) == 0 {
		return nil, nil
	}
	extra := maps.Clone(e.Extra)
	if o, ok := extra["options"].(map[string]any); ok && strings.HasPrefix(backend, "ollama") && temperature != nil {
		o = maps.Clone(o)
		if _, set := o["temperature"]; !set {
			o["temperature"] = *temperature
		}
		extra["options"] = o
	}
	b, err := json.Marshal(extra)
	if err != nil {
		return nil, fmt.Errorf("engine %s: extra_body: %w", e.Name, err)
	}
	return b, nil
}

// seed is the same for all engines of a round, so that they get the same data.
func (x *trial) seed(round int) uint64 { return x.cfg.Experiment.Seed*1_000_003 + uint64(round) }

func (x *trial) casesFile(w WorkloadConfig) string {
	return filepath.Join(x.dir, "workloads", w.Name+".jsonl")
}

// writeCases writes each workload's test cases as a dataset.
func (x *trial) writeCases() error {
	if err := os.MkdirAll(filepath.Join(x.dir, "workloads"), 0o755); err != nil {
		return err
	}
	for _, w := range x.cfg.Workloads {
		if len(w.TestCases) == 0 {
			continue
		}
		var b []byte
		for _, t := range w.TestCases {
			line, err := json.Marshal(map[string]any{"prompt": t.Prompt, "output_tokens": t.MaxTokens})
			if err != nil {
				return fmt.Errorf("workload %s: %w", w.Name, err)
			}
			b = append(append(b, line...), '\n')
		}
		if err := disk.Replace(x.casesFile(w), 0o644, disk.Bytes(b)); err != nil {
			return err
		}
	}
	return nil
}

// sampleFrom reduces a run directory to a sample.
func sampleFrom(dir string, sum assay.Summary, w WorkloadConfig, device *int) (compare.Sample, error) {
	if len(sum.Stages) != 1 {
		return compare.Sample{}, fmt.Errorf("run %s: it has %d stages, and one was asked for", dir, len(sum.Stages))
	}
	rd, err := journal.Open(dir)
	if err != nil {
		return compare.Sample{}, err
	}
	sum.GPUs = usedGPUs(sum.GPUs, rd.Manifest().Node.GPUs, device)
	gpu, err := gpuMemory(rd, sum.GPUs)
	if err != nil {
		return compare.Sample{}, err
	}
	s := compare.SampleOf(sum)
	s.Cases = w.cases()
	addSeries(&s, compare.SeriesGPUMemory, gpu)
	type sent struct {
		at int64
		ms float64
	}
	var all []sent
	texts := make([]string, w.cases())
	for r, err := range rd.Requests() {
		if err != nil {
			return s, err
		}
		if r.Warmup || !r.OK() {
			continue
		}
		if ns, ok := r.E2E(); ok {
			all = append(all, sent{r.Sent, float64(ns) / 1e6})
		}
		if n := r.Prompt % w.cases(); w.exact() && texts[n] == "" && r.Text != "" {
			h := sha256.Sum256([]byte(r.Text))
			texts[n] = hex.EncodeToString(h[:])
		}
	}
	slices.SortFunc(all, func(a, b sent) int { return cmp.Compare(a.at, b.at) })
	for _, l := range all {
		s.Latencies = append(s.Latencies, l.ms)
	}
	if w.exact() {
		s.Texts = texts
	}
	return s, nil
}

// usedGPUs are those that the engine may use: all, or the one of gpu_device.
func usedGPUs(sums []assay.GPUSummary, gpus []assay.GPU, device *int) []assay.GPUSummary {
	if device == nil {
		return sums
	}
	return slices.DeleteFunc(slices.Clone(sums), func(s assay.GPUSummary) bool {
		return !slices.ContainsFunc(gpus, func(g assay.GPU) bool { return g.UUID == s.UUID && g.Index == *device })
	})
}
