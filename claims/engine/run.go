package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

// run is one run of hammer that counts.
type run struct {
	stage    assay.StageSummary
	requests iter.Seq2[*assay.Request, error]
	err      error // hammer.ErrNothingMeasured, or nil
}

// extra is kept with the run's sample.
func (r run) extra(number int) map[string]float64 {
	return map[string]float64{"run": float64(number), "run_requests": float64(r.stage.Requests), "run_failed": float64(r.stage.Failed)}
}

// runs measures an engine, a run at a time.
type runs struct {
	cfg hammer.Config
	dir string // holds the run directories; removed at the end
	n   int
	all *summary.Collector // of the requests that were kept, in the order of the runs
	// measure makes one run in a directory. Tests put a recorded one in its place.
	measure func(ctx context.Context, cfg hammer.Config, dir string) (assay.Summary, iter.Seq2[*assay.Request, error], error)
}

// Find gives the address of the engine that the probes measure where none is named:
// the first that answers on the usual ports of this machine.
func Find(ctx context.Context) (string, error) { return hammer.Find(ctx, hammer.Ports()) }

func newRuns(ctx context.Context, env claims.Env) (*runs, error) {
	r := &runs{cfg: hammer.DefaultConfig(), measure: live}
	r.cfg.URL = env.EngineURL
	if r.cfg.URL == "" {
		url, err := Find(ctx)
		if err != nil {
			return nil, claims.Unavailablef("%w", err)
		}
		r.cfg.URL, r.cfg.Found = url, true
	}
	if err := hammer.Resolve(ctx, &r.cfg); err != nil {
		return nil, claims.Unavailablef("%w", err)
	}
	r.cfg.Seed, r.cfg.Telemetry.Interval, r.cfg.Scenario = env.Seed, 0, nil
	r.cfg.Load = hammer.Load{Mode: hammer.ModeClosed, Grace: assay.Duration(env.Timeout())}
	if env.Dir == "" {
		return nil, claims.Unavailablef("no directory was given to write to")
	}
	dir, err := os.MkdirTemp(env.Dir, ".assay-inference-")
	if err != nil {
		return nil, claims.Unavailablef("write to the directory: %w", err)
	}
	r.dir = dir
	return r, nil
}

func (r *runs) oneStream() *runs {
	l := &r.cfg.Load
	l.Concurrency, l.Requests, l.Warmups, l.Duration = 1, latencyRequests, 1, assay.Duration(latencySeconds*time.Second)
	return r
}

func (r *runs) manyStreams() *runs {
	l := &r.cfg.Load
	l.Concurrency, l.Requests, l.Warmups, l.Duration = rateStreams, 0, rateStreams, assay.Duration(rateSeconds*time.Second)
	return r
}

// Close removes what the runs left on disk.
func (r *runs) Close() error { return os.RemoveAll(r.dir) }

// live is a run against the engine itself.
func live(ctx context.Context, cfg hammer.Config, dir string) (assay.Summary, iter.Seq2[*assay.Request, error], error) {
	sum, err := hammer.Run(ctx, cfg, dir, hammer.Options{})
	return sum, func(yield func(*assay.Request, error) bool) {
		j, err := journal.Open(dir)
		if err != nil {
			yield(nil, err)
			return
		}
		j.Requests()(yield)
	}, err
}

// next makes a run and gives it to use, which says why it is too short, where it
// is: then it is made again for twice as long. A run in which the client was the
// bottleneck is not used.
func (r *runs) next(ctx context.Context, use func(run) (short string, err error)) error {
	for {
		short, err := r.once(ctx, use)
		if err != nil {
			return fmt.Errorf("measure the engine at %s: %w", r.cfg.URL, err)
		}
		if short == "" {
			return nil
		}
		if r.cfg.Load.Duration *= 2; r.cfg.Load.Duration > assay.Duration(maxRunSeconds*time.Second) {
			return claims.Unavailablef("runs of %d s are too short: %s", maxRunSeconds, short)
		}
	}
}

func (r *runs) once(ctx context.Context, use func(run) (string, error)) (short string, err error) {
	r.n++
	cfg := r.cfg
	cfg.Seed += uint64(r.n) // other prompts each time, so that no prefix cache knows them
	dir := filepath.Join(r.dir, fmt.Sprint(r.n))
	defer os.RemoveAll(dir)
	sum, requests, err := r.measure(ctx, cfg, dir)
	switch {
	case errors.Is(err, hammer.ErrTooShort):
		return err.Error(), nil
	case err != nil && !(errors.Is(err, hammer.ErrNothingMeasured) && len(sum.Stages) > 0):
		return "", err
	case err == nil && sum.Client.Certificate == assay.Invalid:
		return "", claims.Unavailablef("the client was the bottleneck (%s)", sum.Client.Cause)
	}
	return use(run{stage: sum.Stages[len(sum.Stages)-1], requests: requests, err: err})
}

// keep adds a run's requests to those of the runs before.
func (r *runs) keep(x run) error {
	if r.all == nil {
		r.all = summary.NewCollector(x.stage.Plan, assay.Judge{})
	}
	for q, err := range x.requests {
		if err != nil {
			return err
		}
		if q.Stage == x.stage.Name {
			r.all.Add(q)
		}
	}
	return nil
}
