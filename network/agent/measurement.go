package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

// maxAhead is how long a measurement may be waited for: meanwhile no check starts.
const maxAhead = maxStill - time.Minute

// measurement is a run that the server asked for, beside the checks: with a load of
// its choice, and at a time of its choice.
type measurement struct {
	profile  *assay.Profile
	scenario assay.Scenario
	begin    time.Time // of the load, by our clock; zero: at once
}

// later is when a measurement's time began to be used: what it waited for others
// is not.
func (m *measurement) later(began, ended time.Time) time.Time {
	if m.begin.After(began) && m.begin.Before(ended) {
		return m.begin
	}
	return began
}

// measurement resolves an order within the limits. What is beyond them is refused,
// not cut: a load that others do not have cannot be added to theirs.
func (a *Agent) measurement(o *api.MeasureOrder) (*measurement, error) {
	if o == nil {
		return nil, errors.New("the command does not say what to measure")
	}
	p := a.runner.planned()
	m := &measurement{profile: p.Profile, scenario: p.Scenario}
	var err error
	if name := value(o.Profile); name != "" {
		if m.profile, err = a.c.profile(name); err != nil || !allowed(a.c.Limits.Profiles, name) {
			return nil, fmt.Errorf("profile %s is not known or not allowed here", foreign.Line(name, 100))
		}
	}
	if name := value(o.Scenario); name != "" {
		if m.scenario, err = a.c.scenario(name); err != nil || !allowed(a.c.Limits.Scenarios, name) {
			return nil, fmt.Errorf("scenario %s is not known or not allowed here", foreign.Line(name, 100))
		}
	}
	if limit := a.c.Limits.MaxDuration; m.scenario.Duration > limit {
		return nil, fmt.Errorf("scenario %s takes %s; the limit is %s", foreign.Line(m.scenario.Name, 100), m.scenario.Duration, limit)
	}
	if err := a.runner.affords(time.Duration(m.scenario.Duration)); err != nil {
		return nil, err
	}
	if o.Start == nil {
		return m, nil
	}
	skew := a.link.clock.now()
	if !skew.Known {
		return nil, errors.New("the clock was not compared with the server's yet: when to begin is not known")
	}
	m.begin = o.Start.Add(-skew.Offset)
	switch ahead := time.Until(m.begin); {
	case ahead > maxAhead:
		return nil, fmt.Errorf("it begins in %s; at most %s are waited for", ahead.Round(time.Second), maxAhead)
	case ahead < 0:
		return nil, fmt.Errorf("it was to begin %s ago", (-ahead).Round(time.Millisecond))
	case a.runner.checking() != "":
		return nil, errors.New("a check is under way, and nobody knows whether it ends in time")
	}
	return m, nil
}

// affords says why a run of so long cannot be made for the server: what it asks for
// is paid for by later checks, and at most so much of a day can be asked for ahead
// as the limit of the budget gives.
func (r *runner) affords(duration time.Duration) error {
	limit := time.Duration(float64(r.a.c.Limits.Budget) * float64(24*time.Hour))
	r.mu.Lock()
	debt := r.spent.debt(time.Now(), r.plan.Budget)
	r.mu.Unlock()
	if debt+duration > limit {
		return fmt.Errorf("it takes %s, and %s of the node's time are used ahead already; limits.check_budget allows %s", duration, debt.Round(time.Second), limit.Round(time.Second))
	}
	return nil
}
