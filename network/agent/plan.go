package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

// Plan is what the agent does now: its own configuration, and within its limits
// what the server asks for.
type Plan struct {
	Profile       *assay.Profile
	Scenario      assay.Scenario
	Every, Jitter time.Duration
	Budget        float64
	Version       int64    // of the server's settings; 0: none
	Refused       []string // what the server asked for and does not get
}

// plan applies the server's settings within the limits. What is beyond them is cut
// to them, what is not known here is left out, and both are said.
func (c *Config) plan(s *api.Settings) (Plan, error) {
	p := Plan{Every: time.Duration(c.Schedule.Every), Jitter: time.Duration(c.Schedule.Jitter), Budget: float64(c.Budget)}
	var err error
	if p.Profile, err = c.profile(c.Profile); err != nil {
		return p, err
	}
	if p.Scenario, err = c.scenario(c.Scenario); err != nil {
		return p, err
	}
	if s == nil {
		return p, nil
	}
	p.Version = s.Version
	refuse := func(format string, args ...any) { p.Refused = append(p.Refused, fmt.Sprintf(format, args...)) }
	if name := value(s.Profile); name != "" {
		if profile, err := c.profile(name); err != nil || !allowed(c.Limits.Profiles, name) {
			refuse("profile %s is not allowed here", foreign.Line(name, 100))
		} else {
			p.Profile = profile
		}
	}
	if name := value(s.Scenario); name != "" {
		scenario, err := c.scenario(name)
		switch {
		case err != nil || !allowed(c.Limits.Scenarios, name):
			refuse("scenario %s is not allowed here", foreign.Line(name, 100))
		case scenario.Duration > c.Limits.MaxDuration:
			refuse("scenario %s takes %s; the limit is %s", foreign.Line(name, 100), scenario.Duration, c.Limits.MaxDuration)
		default:
			p.Scenario = scenario
		}
	}
	if s.EverySeconds != nil {
		p.Every = time.Duration(*s.EverySeconds) * time.Second
		if least := time.Duration(c.Limits.MinEvery); p.Every < least {
			refuse("a check every %s; the limit is %s", p.Every, least)
			p.Every = least
		}
	}
	if s.JitterSeconds != nil && *s.JitterSeconds >= 0 {
		p.Jitter = min(time.Duration(*s.JitterSeconds)*time.Second, 24*time.Hour)
	}
	if s.CheckBudget != nil {
		p.Budget = *s.CheckBudget
		if most := float64(c.Limits.Budget); !(p.Budget <= most) {
			refuse("a budget of %g of the node's time; the limit is %g", p.Budget, most)
			p.Budget = most
		}
	}
	return p, nil
}

func allowed(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// value is what a member has that may be missing.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// spent is what checks have used of the node's time: a bucket that each check
// empties and time fills again. It is kept on the disk, so that an agent that is
// restarted again and again does not check each time.
type spent struct {
	NotBefore time.Time `json:"not_before"` // the budget allows none before
	Last      time.Time `json:"last"`       // when the last began
}

// after counts a check.
func (s spent) after(began time.Time, took time.Duration, budget float64) spent {
	from := began
	if s.NotBefore.After(from) {
		from = s.NotBefore // a check that was asked for is paid for by later ones
	}
	if budget <= 0 {
		budget = 0.0001
	}
	wait := time.Duration(min(float64(took)/budget, float64(30*24*time.Hour)))
	return spent{NotBefore: from.Add(wait), Last: began}
}

// debt is how much of the node's time was used that is not paid for yet.
func (s spent) debt(now time.Time, budget float64) time.Duration {
	return time.Duration(max(0, float64(s.NotBefore.Sub(now))) * budget)
}

// due is when the next scheduled check is to begin: chance is from 0 to 1, drawn
// once after each check. It is a pure function, so that it can be looked at.
func due(p Plan, s spent, started time.Time, onStart bool, chance float64) time.Time {
	wait := p.Every + time.Duration(chance*float64(p.Jitter))
	next := s.Last.Add(wait)
	if s.Last.IsZero() || s.Last.After(started.Add(wait)) { // never, or by a clock that was ahead
		next = started.Add(wait)
	}
	if onStart && s.Last.Before(started) {
		// A network that starts at once does not check at once.
		next = started.Add(time.Duration(chance * float64(min(p.Jitter, time.Minute))))
	}
	if s.NotBefore.After(next) {
		next = s.NotBefore
	}
	if latest := started.Add(60 * 24 * time.Hour); next.After(latest) {
		next = latest // the file was written by a clock that was far ahead
	}
	return next
}
