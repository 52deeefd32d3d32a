package claims

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// measuring is a suite under way: its probes one after the other, or its
// families side by side.
type measuring struct {
	o     Options
	suite Suite
	past  history

	mu sync.Mutex // of what follows
	r  *Result
}

// inTurn measures one probe after the other, so that none disturbs another.
func (m *measuring) inTurn(ctx context.Context) {
	all := families(m.suite.Probes)
	for i, family := range all {
		m.o.Log.Info(fmt.Sprintf("[%d/%d] %s", i+1, len(all), family))
		m.family(ctx, family)
	}
}

// together measures the families side by side, each in turn within itself. One
// that is done goes on as load, which is not judged, until the last is done: the
// last is measured under the same load as the first.
func (m *measuring) together(ctx context.Context) {
	all := families(m.suite.Probes)
	m.o.Log.Info("families side by side: " + strings.Join(all, ", "))
	load, stop := context.WithCancel(ctx)
	defer stop()
	var judged, ended sync.WaitGroup
	judged.Add(len(all))
	for _, family := range all {
		ended.Go(func() {
			able := m.family(ctx, family)
			judged.Done()
			m.load(load, able)
		})
	}
	judged.Wait()
	stop()
	ended.Wait()
}

// family measures and judges the probes of a family, and gives those that could
// be measured.
func (m *measuring) family(ctx context.Context, family string) (able []Probe) {
	for _, p := range m.suite.Probes {
		if p.Family() == family && m.probe(ctx, p) {
			able = append(able, p)
		}
	}
	return able
}

// probe measures one and says whether that went as planned.
func (m *measuring) probe(ctx context.Context, p Probe) bool {
	mine := slices.DeleteFunc(slices.Clone(m.suite.Claims), func(c Claim) bool { return c.Probe != p.Name })
	pr, judged := m.o.planned(m.suite.Plans[p.Name]).probe(ctx, p, mine)
	if !m.o.Stress { // another load, so that there is nothing to compare
		pr.Change = m.past.compare(m.r.Machine, pr)
	}
	m.mu.Lock()
	m.r.Probes = append(m.r.Probes, pr)
	m.r.Claims = append(m.r.Claims, judged...)
	m.mu.Unlock()
	m.o.Log.Info(p.Name + ": " + pr.line())
	return pr.Status == Measured
}

// load runs probes again and again until ctx ends. One that fails is left out.
func (m *measuring) load(ctx context.Context, probes []Probe) {
	for len(probes) > 0 && ctx.Err() == nil {
		probes = slices.DeleteFunc(probes, func(p Probe) bool {
			return ctx.Err() == nil && m.o.planned(m.suite.Plans[p.Name]).measure(ctx, p, nil).err != nil
		})
	}
}

// check compares the machine with what is required of it.
func (o Options) check(r Requirements) []Prerequisite {
	if o.Machine == nil {
		return nil
	}
	return o.Machine.Check(r, o.Env.Dir)
}

// beside starts what goes on meanwhile, and gives what ends it again.
func (o Options) beside(ctx context.Context, r *Result) (stop func()) {
	if o.Dir == "" {
		return func() {}
	}
	var started []Beside
	for _, b := range o.Beside {
		if err := b.Start(ctx, o.Dir); err != nil {
			r.Notes = append(r.Notes, err.Error())
			continue
		}
		started = append(started, b)
	}
	return func() {
		for _, b := range slices.Backward(started) {
			b.Stop(r)
		}
	}
}
