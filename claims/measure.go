package claims

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Why a probe's measurement ended.
const (
	stopDuration   = "duration"
	stopSamples    = "samples"
	stopIterations = "iterations"
	stopDecided    = "decided"
	stopBudget     = "budget"
	stopMemory     = "most samples"
)

// errSilent says that a probe did not answer in its time and was given up.
var errSilent = errors.New("gave no sample in its time")

// sampled are one probe's measurement.
type sampled struct {
	samples    samples
	warmup     int
	operations int
	took       time.Duration
	stopped    string
	extra      map[string]*stat.Moments
	err        error
}

// measure runs a probe. It works in a goroutine of its own: one that hangs in a
// call is left behind, with its error, and the others are measured.
func (o Options) measure(ctx context.Context, p Probe, claims []Claim) *sampled {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beat atomic.Int64 // steps made, so that silence can be told from work
	done := make(chan *sampled, 1)
	go func() { done <- o.sampling(ctx, p, claims, &beat) }()
	tick := time.NewTicker(o.Patience)
	defer tick.Stop()
	last := int64(-1)
	for why := error(nil); ; {
		select {
		case m := <-done:
			return m
		case <-ctx.Done():
			why = fmt.Errorf("%w: it was asked to end, and did not", ctx.Err())
		case <-tick.C:
			if now := beat.Load(); now != last {
				last = now
				continue
			}
			why = fmt.Errorf("%w (%v)", errSilent, o.Patience)
			cancel()
		}
		select {
		case m := <-done:
			if m.err == nil || errors.Is(m.err, context.Canceled) {
				m.err = why
			}
			return m
		case <-time.After(leave):
			return &sampled{err: why}
		}
	}
}

// leave is how long a probe may take to end when it is asked to.
const leave = 10 * time.Second

func (o Options) sampling(ctx context.Context, p Probe, claims []Claim, beat *atomic.Int64) (m *sampled) {
	m = &sampled{}
	runner, err := p.Start(ctx, o.Env)
	if err != nil {
		m.err = err
		return m
	}
	defer func() {
		if err := runner.Close(); err != nil && m.err == nil {
			m.err = fmt.Errorf("close the probe: %w", err)
		}
	}()
	beat.Add(1)
	if d, ok := runner.(Distribution); ok {
		m.samples.reduced, o.Warmup = d, 0
	}
	for start := time.Now(); o.Warmup > 0 && (m.warmup == 0 || time.Since(start) < o.Warmup); {
		// As many as are to be judged are warm-up enough.
		if m.warmup >= o.MaxSamples || o.Samples > 0 && m.warmup >= o.Samples {
			break
		}
		if _, m.err = runner.Sample(ctx); m.err != nil {
			return m
		}
		m.warmup++
		beat.Add(1)
	}
	start := time.Now()
	next := minForSequence // of fewer samples nothing is decided
	for m.stopped == "" {
		if m.err = ctx.Err(); m.err != nil {
			break
		}
		s, err := runner.Sample(ctx)
		if err != nil {
			m.err = err
			break
		}
		m.take(s)
		beat.Add(1)
		m.took = time.Since(start)
		n := len(m.samples.values)
		if m.samples.reduced != nil {
			n = m.operations
		}
		if !o.UntilDecided || len(claims) == 0 {
			m.stopped = o.enough(n, m.operations, m.took)
			continue
		}
		switch {
		case n >= o.MaxSamples:
			m.stopped = stopMemory
		case m.took >= o.Budget:
			m.stopped = stopBudget
		case n >= next && m.samples.reduced == nil: // whose intervals bear one look only
			next = max(n+1, n+n/10)
			if decided(claims, &m.samples) {
				m.stopped = stopDecided
			}
		}
	}
	m.took = time.Since(start)
	return m
}

// take keeps a sample. Its further figures are bounded in number.
func (m *sampled) take(s Measurement) {
	m.samples.add(s)
	m.operations += max(1, s.Batch)
	for name, v := range s.Extra {
		at := m.extra[name]
		if at == nil {
			if len(m.extra) == 64 || len(name) > 100 {
				continue
			}
			if m.extra == nil {
				m.extra = map[string]*stat.Moments{}
			}
			at = &stat.Moments{}
			m.extra[name] = at
		}
		at.Add(v)
	}
}

// maxOvertime bounds how much longer a probe is measured whose samples are so
// slow that in its time there are too few of them to say anything at all.
const maxOvertime = 6

// enough says why a measurement ends now; empty: it goes on.
func (o Options) enough(samples, operations int, took time.Duration) string {
	switch {
	case o.Samples > 0 && samples >= o.Samples:
		return stopSamples
	case o.Iterations > 0 && operations >= o.Iterations:
		return stopIterations
	case o.Duration > 0 && took >= o.Duration && (samples >= minForMean || took >= maxOvertime*o.Duration):
		return stopDuration
	case samples >= o.MaxSamples:
		return stopMemory
	}
	return ""
}

// decided says that no further sample is needed.
func decided(claims []Claim, s *samples) bool {
	e := estimator{sequence: true}
	for _, c := range claims {
		if c.Target.Judge(e.of(c.figure, s)) != assay.Unknown {
			continue
		}
		// What no sample can decide is not waited for.
		if s.wrong == 0 && !hopeless(c, s) {
			return false
		}
	}
	return true
}

func hopeless(c Claim, s *samples) bool {
	return s.largestBatch() > 1 && c.figure.kind != metricMean && c.figure.kind != metricThroughput
}
