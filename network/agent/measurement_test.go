package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/network/api"
)

// measures has the server ask for a measurement.
func (f *fake) measures(o api.MeasureOrder) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	o.Measurement = ulid.Make().String()
	c := api.Command{Id: ulid.Make().String(), Kind: api.CommandKindMeasure, Created: f.now(), Expires: f.now().Add(time.Hour), Measure: &o}
	f.commands = append(f.commands, c)
	return c.Id
}

// stops has the server end what a command asked for.
func (f *fake) stops(command string) string {
	id := f.order(api.CommandKindStop, time.Hour)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commands[len(f.commands)-1].Stops = &command
	return id
}

func (f *fake) ended(t *testing.T, id string) api.Acknowledgement {
	t.Helper()
	eventually(t, "the command has ended", func() bool { _, done := f.outcome(id); return done })
	a, _ := f.outcome(id)
	return a
}

// The load begins when the server says, by the server's clock, and not before.
func TestMeasurementBeginsInTime(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.ahead = 20 * time.Second
	c := testConfig(t, f.http.URL, engine(t))
	a := start(t, c, testOptions(testLog(t)))
	eventually(t, "the clock was compared", func() bool { return a.link.clock.now().Known })
	begin := f.now().Add(3 * time.Second)
	name := "short"
	// The server keeps no object: the run stays where it can be read.
	f.mu.Lock()
	f.lose = 1 << 20
	f.mu.Unlock()
	id := f.measures(api.MeasureOrder{Scenario: &name, Start: &begin})
	if got := f.ended(t, id); got.Outcome != api.AcknowledgementOutcomeDone {
		t.Fatalf("%s: %s", got.Outcome, value(got.Detail))
	}
	runs, err := os.ReadDir(a.state.path(runsDir))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs: %v", len(runs), err)
	}
	run, err := journal.Open(filepath.Join(a.state.path(runsDir), runs[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	var first int64
	for e, err := range run.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == assay.EventStageStarted {
			first = e.At
			break
		}
	}
	late := time.Unix(0, first).Add(f.ahead).Sub(begin)
	if first == 0 || late < -time.Second { // the clock was compared over a connection that may wait
		t.Errorf("the load began %s after it should", late)
	}
}

// What is beyond the agent's limits is refused, with the reason.
func TestMeasurementKeepsLimits(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	c.Limits.Scenarios = []string{"short", "long"}
	c.Limits.MaxDuration = assay.Duration(time.Minute)
	a := start(t, c, testOptions(testLog(t)))
	eventually(t, "the clock was compared", func() bool { return a.link.clock.now().Known })
	quick, long, short := "quick", "long", "short"
	soon, past := f.now().Add(time.Hour), f.now().Add(-time.Minute)
	for want, o := range map[string]api.MeasureOrder{
		"scenario quick is not known or not allowed": {Scenario: &quick},
		"the limit is 1m0s":                          {Scenario: &long},
		"profile long is not known":                  {Profile: &long},
		"at most 4m0s are waited for":                {Scenario: &short, Start: &soon},
		"it was to begin":                            {Scenario: &short, Start: &past},
	} {
		if got := f.ended(t, f.measures(o)); got.Outcome != api.AcknowledgementOutcomeRefused || !strings.Contains(value(got.Detail), want) {
			t.Errorf("%s: %s %s", want, got.Outcome, value(got.Detail))
		}
	}
	a.runner.mu.Lock()
	a.runner.spent.NotBefore = time.Now().Add(20 * 24 * time.Hour) // a hundred days' worth at one per cent
	a.runner.mu.Unlock()
	if got := f.ended(t, f.measures(api.MeasureOrder{Scenario: &short})); got.Outcome != api.AcknowledgementOutcomeRefused || !strings.Contains(value(got.Detail), "limits.check_budget") {
		t.Errorf("beyond the budget: %s %s", got.Outcome, value(got.Detail))
	}
}

// A stop that names a command ends what that asked for, while it waits and while it
// measures, and nothing else.
func TestMeasurementIsStopped(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	a := start(t, c, testOptions(testLog(t)))
	eventually(t, "the clock was compared", func() bool { return a.link.clock.now().Known })
	long := "long"
	begin := f.now().Add(2 * time.Minute)
	for _, o := range []api.MeasureOrder{{Scenario: &long, Start: &begin}, {Scenario: &long}} {
		id := f.measures(o)
		eventually(t, "it is under way", func() bool { return a.runner.checking() != "" })
		if got := f.ended(t, f.stops(ulid.Make().String())); value(got.Detail) != "no check was under way" {
			t.Errorf("a stop of something else: %s", value(got.Detail))
		}
		if _, done := f.outcome(id); done || a.runner.checking() == "" {
			t.Fatal("a stop of something else ended it")
		}
		f.stops(id)
		if got := f.ended(t, id); got.Outcome != api.AcknowledgementOutcomeFailed || !strings.Contains(value(got.Detail), "stop") {
			t.Errorf("%s %s", got.Outcome, value(got.Detail))
		}
		eventually(t, "nothing is under way", func() bool { return a.runner.checking() == "" })
	}
}

func TestDebt(t *testing.T) {
	now := time.Now()
	s := spent{}.after(now, time.Minute, 0.01)
	if got := s.debt(now, 0.01); got < 59*time.Second || got > 61*time.Second {
		t.Errorf("a minute that was just used is a debt of %s", got)
	}
	if got := s.debt(now.Add(3*time.Hour), 0.01); got != 0 {
		t.Errorf("what was paid for is a debt of %s", got)
	}
}
