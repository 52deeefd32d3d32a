package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/compare"
)

// visit is one engine in one round: it is started, measured by each workload that
// is left, and stopped. An error is ours; the engine's own failure is recorded.
func (x *trial) visit(ctx context.Context, e EngineConfig, round, at int, todo []WorkloadConfig) error {
	home := filepath.Join(x.dir, "runs", e.Name)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return fmt.Errorf("making the directory of %s: %w", e.Name, err)
	}
	label := fmt.Sprintf("r%02d", round)
	if round == 0 {
		label = fmt.Sprintf("pilot%d", (at-1)/len(x.engines)+1)
	}
	v := &visiting{trial: x, e: e, round: round, at: at, label: label, home: home, todo: todo}
	if e.kind() == "binary" {
		return v.binary(ctx)
	}
	return v.server(ctx)
}

// visiting is a visit under way.
type visiting struct {
	*trial
	e         EngineConfig
	round, at int
	label     string
	home      string
	todo      []WorkloadConfig // not on record yet
}

// server visits an engine that answers HTTP.
func (v *visiting) server(ctx context.Context) error {
	began := time.Now()
	t, err := v.start(ctx, v.e, filepath.Join(v.home, v.label+".log"))
	if err != nil {
		return v.failing(ctx, err, began)
	}
	stopped := false
	stop := func() (tail string) {
		if !stopped {
			stopped = true
			tail = v.stop(t, v.e).LogTail
		}
		return tail
	}
	defer stop()
	if err := v.describe(ctx, t, v.e); err != nil {
		return v.failing(ctx, withTail(err, stop()), began)
	}
	for len(v.todo) > 0 {
		w := v.todo[0]
		if err := v.thermal(ctx); err != nil {
			return err
		}
		began = time.Now()
		dir, err := v.runDir(w)
		if err != nil {
			return err
		}
		s, err := v.measure(ctx, t, v.e, w, v.round, dir)
		if err != nil {
			return v.failing(ctx, withTail(err, stop()), began)
		}
		if err := v.done(s, w, dir); err != nil {
			return err
		}
	}
	return nil
}

// withTail gives an engine's failure the end of its log, unless it has one.
func withTail(err error, tail string) error {
	var f *failure
	if errors.As(err, &f) && f.tail == "" {
		f.tail = tail
	}
	return err
}

// runDir is where a run is recorded. What an interrupted one left there goes.
func (v *visiting) runDir(w WorkloadConfig) (string, error) {
	dir := filepath.Join(v.home, v.label+"-"+w.Name)
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("removing an interrupted run: %w", err)
	}
	return dir, nil
}

// done records a sample.
func (v *visiting) done(s compare.Sample, w WorkloadConfig, dir string) error {
	rel, err := filepath.Rel(v.dir, dir)
	if err != nil {
		return err
	}
	s.Engine, s.Workload, s.Round, s.Order, s.Dir = v.e.Name, w.Name, v.round, v.at, filepath.ToSlash(rel)
	v.exp.Samples = append(v.exp.Samples, s)
	v.todo = v.todo[1:]
	primary := "not measured"
	if value, ok := s.Metrics[v.cfg.Experiment.PrimaryMetric]; ok {
		primary = fmt.Sprintf("%.4g", value)
	}
	v.log.linef("%s %s %s: %d of %d requests succeeded, %s %s, client %s",
		v.e.Name, v.label, w.Name, s.OK, s.Requests, v.cfg.Experiment.PrimaryMetric, primary, s.Client)
	return v.save()
}

// failing records that the engine failed, for every workload that was left. An
// error that is not the engine's comes back.
func (v *visiting) failing(ctx context.Context, err error, began time.Time) error {
	var f *failure
	if ctx.Err() != nil || !errors.As(err, &f) {
		return err
	}
	why := f.why
	for len(v.todo) > 0 {
		v.exp.Samples = append(v.exp.Samples, compare.Sample{
			Engine: v.e.Name, Workload: v.todo[0].Name, Round: v.round, Order: v.at,
			Started: began.UnixNano(), Ended: time.Now().UnixNano(), Failed: why, Client: "unknown",
			Metrics: map[string]float64{}, Cases: v.todo[0].cases(),
		})
		v.todo = v.todo[1:]
		why = "not run: " + f.why
	}
	v.say("%s failed: %s", v.e.Name, f.why)
	if f.tail != "" {
		v.log.linef("the end of its log:\n%s", indent(f.tail))
	}
	if failuresInRow(v.exp.Samples, v.e.Name) >= maxFailures {
		rec := v.engine(v.e.Name)
		rec.Failed, rec.LogTail = f.why, f.tail
		v.say("%s is dropped after %d failures in a row", v.e.Name, maxFailures)
	}
	return v.save()
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n    ")
}

// failuresInRow is how many of an engine's last visits failed.
func failuresInRow(samples []compare.Sample, engine string) int {
	type visit struct{ round, order int }
	var visits []visit
	failed := map[visit]bool{}
	for _, s := range samples {
		if s.Engine != engine {
			continue
		}
		k := visit{s.Round, s.Order}
		if _, seen := failed[k]; !seen {
			visits = append(visits, k)
		}
		failed[k] = failed[k] || s.Failed != ""
	}
	n := 0
	for _, k := range slices.Backward(visits) {
		if !failed[k] {
			break
		}
		n++
	}
	return n
}
