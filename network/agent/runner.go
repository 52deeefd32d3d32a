package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
)

const (
	// roomForRun is what a run's statements take of the outbox at most: three of
	// the largest kind.
	roomForRun = 4 * ledger.MaxValue
	// retryCheck is how long a scheduled check that could not be made waits at
	// first; each time it waits twice as long, up to the schedule's interval.
	retryCheck = time.Minute
	maxRound   = time.Minute // of the loop
)

// job is a check that somebody asked for.
type job struct {
	command string
	end     func(outcome api.AcknowledgementOutcome, detail, run string)
	measure *measurement // nil: a check as it is planned
}

// runner makes checks, one at a time.
type runner struct {
	a      *Agent
	jobs   chan job
	kicked chan struct{} // to who delivers: there is something

	mu      sync.Mutex
	plan    Plan
	spent   spent
	chance  float64 // drawn for the next check
	retries int
	retryAt time.Time
	name    string                  // of the check under way
	command string                  // that asked for it; empty: none did
	dropped string                  // a command that is not to be carried out any more
	stop    context.CancelCauseFunc // of it
	last    lastCheck
	counts  map[string]int // checks by how they ended
	said    string         // why no check starts
}

// lastCheck is the newest result.
type lastCheck struct {
	at      time.Time
	took    time.Duration
	verdict assay.Verdict
	score   *float64
	results []ledger.Result
}

func newRunner(a *Agent) (*runner, error) {
	r := &runner{a: a, jobs: make(chan job, 1), kicked: make(chan struct{}, 1), chance: a.link.chance(), counts: map[string]int{}}
	var s api.Settings
	found, err := a.state.read(settingsFile, &s)
	if err != nil {
		return nil, err
	}
	settings := &s
	if !found {
		settings = nil
	}
	if r.plan, err = a.c.plan(settings); err != nil {
		return nil, err
	}
	_, err = a.state.read(spentFile, &r.spent)
	return r, err
}

func (r *runner) planned() Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan
}

func (r *runner) follow(p Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan = p
}

// checking is the name of the check under way; empty: none is.
func (r *runner) checking() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.name
}

// kick wakes who delivers.
func (r *runner) kick() {
	select {
	case r.kicked <- struct{}{}:
	default:
	}
}

// next is when the next scheduled check is due.
func (r *runner) next() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := due(r.plan, r.spent, r.a.started, r.a.c.Schedule.OnStart, r.chance)
	if r.retryAt.After(at) {
		at = r.retryAt
	}
	return at
}

// run makes checks until ctx ends.
func (r *runner) run(ctx context.Context) {
	select {
	case <-r.a.lookout.looked: // a command may come before the engine was looked at
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		r.a.pulse.Store(time.Now().UnixNano())
		at := r.next()
		t := time.NewTimer(min(max(time.Until(at), 0), maxRound))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case j := <-r.jobs:
			t.Stop()
			r.asked(ctx, j)
		case <-t.C:
			if !time.Now().Before(at) {
				r.scheduled(ctx, at)
			}
		}
	}
}

// asked makes a check that the server asked for.
func (r *runner) asked(ctx context.Context, j job) {
	if r.isDropped(j.command) {
		j.end(api.AcknowledgementOutcomeFailed, ErrStopped.Error()+" before it began", "")
		return
	}
	run, err := r.check(ctx, j.command, j.measure, false)
	if err != nil {
		j.end(api.AcknowledgementOutcomeFailed, err.Error(), run)
		return
	}
	j.end(api.AcknowledgementOutcomeDone, "", run)
}

// scheduled makes a check that is due, in a quiet moment if one comes in time.
func (r *runner) scheduled(ctx context.Context, at time.Time) {
	quiet := r.a.lookout.now().Quiet()
	if !quiet && time.Since(at) < time.Duration(r.a.c.Busy.Postpone) && r.a.lookout.now().Known {
		r.mu.Lock()
		r.retryAt = time.Now().Add(r.a.o.Look)
		r.mu.Unlock()
		r.say("a check is due, and waits until the engine serves nobody")
		return
	}
	_, err := r.check(ctx, "", nil, quiet)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chance = r.a.link.chance()
	if err == nil || ctx.Err() != nil {
		r.retries, r.retryAt = 0, time.Time{}
		return
	}
	wait := min(retryCheck<<min(r.retries, 10), r.plan.Every)
	if errors.Is(err, ErrStopped) {
		wait = r.plan.Every // somebody did not want it
	}
	r.retries++
	r.retryAt = time.Now().Add(jittered(wait, r.a.link.chance()))
}

// say logs why no check starts, once.
func (r *runner) say(why string) {
	r.mu.Lock()
	news := r.said != why
	r.said = why
	r.mu.Unlock()
	if news && why != "" {
		r.a.log.Warn("no check starts", "because", why)
	}
}

// mayStart says why no run may start now; nil: it may.
func (r *runner) mayStart() error {
	switch s := r.a.link.clock.now(); {
	case !s.Known:
		return errors.New("the clock was not compared with the server's yet")
	case s.Beyond():
		return fmt.Errorf("the clock is %s behind the server's (%s allowed): set it, and runs start again", s.Offset.Round(time.Second), maxSkew)
	}
	if _, err := r.a.lookout.target(); err != nil {
		return err
	}
	return nil
}

// check makes one check, and leaves it to be delivered. It gives the run's id.
func (r *runner) check(ctx context.Context, command string, m *measurement, background bool) (string, error) {
	if err := r.mayStart(); err != nil {
		r.say(err.Error())
		r.counted("not started")
		return "", err
	}
	room, err := r.a.box.Reserve(roomForRun)
	if err != nil {
		r.say(err.Error())
		r.counted("not started")
		return "", err
	}
	defer room.Release()
	name, dir, err := r.a.reports.begin(command)
	if err != nil {
		r.say(err.Error())
		r.counted("not started")
		return "", err
	}
	defer r.kick()
	defer r.a.reports.end()
	r.say("")
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	r.name, r.command, r.stop = name, command, stop
	p := r.plan
	r.mu.Unlock()
	began := time.Now()
	res, err := r.measure(ctx, p, m, dir, command, background)
	if m != nil {
		began = m.later(began, time.Now())
	}
	took := time.Since(began)
	r.mu.Lock()
	r.name, r.command, r.stop = "", "", nil
	r.spent = r.spent.after(began, took, p.Budget)
	s := r.spent
	r.mu.Unlock()
	r.a.lookout.mine(0)
	if werr := r.a.state.write(spentFile, s); werr != nil {
		r.a.log.Error("what the check took of the budget could not be written down", "error", werr)
	}
	r.ended(name, res, began, took, err)
	return res.Run, err
}

func (r *runner) measure(ctx context.Context, p Plan, m *measurement, dir, command string, background bool) (CheckResult, error) {
	engine, err := r.a.lookout.target()
	if err != nil {
		return CheckResult{}, err
	}
	key := ""
	if r.a.c.Engine.BaseURL != "" {
		if key, err = r.a.o.APIKey(); err != nil {
			return CheckResult{}, err
		}
	}
	gpu, begin := r.a.c.GPU, time.Time{}
	if m != nil {
		// Which card it is was verified by the node's checks, and takes time that
		// others wait for.
		p.Profile, p.Scenario, gpu, begin = m.profile, m.scenario, GPUNone, m.begin
	}
	signer, statement, node := r.a.session.signing()
	traffic := r.a.lookout.now()
	busy, beside := !traffic.Quiet(), traffic.Known && traffic.Running > 0 && command == "" && m == nil
	r.a.log.Info("a check begins", "scenario", p.Scenario.Name, "busy", busy, "beside_others", beside)
	return Check(ctx, CheckConfig{
		Engine: engine, APIKey: key, GPU: gpu, Profile: p.Profile, Scenario: p.Scenario,
		Busy: busy, Streams: r.a.c.Busy.Concurrency, Beside: beside, Background: background, Clock: r.a.link.clock.now(), Begin: begin, Command: command,
	}, dir, CheckOptions{
		Node: node, Signer: signer, Key: statement, Child: r.a.o.Child, Supervisor: r.a.o.Supervisor, Env: r.a.o.Env,
		Limit: 2*time.Duration(p.Scenario.Duration) + 10*time.Minute + max(0, time.Until(begin)),
		Progress: func(c assay.Checkpoint) {
			r.a.lookout.mine(c.InFlight)
			r.a.export.Checkpoint(c)
			r.a.pulse.Store(time.Now().UnixNano())
		},
	})
}

// ended notes how a check ended.
func (r *runner) ended(name string, res CheckResult, began time.Time, took time.Duration, err error) {
	switch {
	case err == nil:
		r.counted("done")
		r.a.log.Info("a check is done", "run", res.Run, "took", took.Round(time.Second))
	case errors.Is(err, ErrYield):
		r.counted("yielded")
		r.a.log.Info("a check gave way to others' requests", "check", name)
	case errors.Is(err, ErrStopped):
		r.counted("stopped")
		r.a.log.Info("a check was stopped", "check", name)
	default:
		r.counted("failed")
		r.a.log.Warn("a check could not be made", "check", name, "error", foreign.Line(err.Error(), maxProblem))
	}
	if err != nil {
		return
	}
	l := lastCheck{at: began, took: took, results: res.Results}
	if res.Health != nil {
		l.verdict, l.score = res.Health.Verdict, res.Health.Score.Overall
	}
	r.mu.Lock()
	r.last = l
	r.mu.Unlock()
	r.label(l)
}

func (r *runner) counted(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[how]++
}

// halt ends the check under way, or only that which a command asked for, which is
// then not begun either; false: there is none.
func (r *runner) halt(command, why string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if command != "" && r.command != command {
		r.dropped = command
		return false
	}
	if r.stop == nil {
		return false
	}
	r.stop(fmt.Errorf("%w: %s", ErrStopped, why))
	return true
}

// isDropped says whether a command was taken back before it was carried out.
func (r *runner) isDropped(command string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return command != "" && r.dropped == command
}

// obey carries out a command of the server, without waiting for its end.
func (a *Agent) obey(ctx context.Context, c api.Command, end func(api.AcknowledgementOutcome, string, string)) {
	switch c.Kind {
	case api.CommandKindCheck:
		a.queue(job{command: c.Id, end: end})
	case api.CommandKindMeasure:
		m, err := a.measurement(c.Measure)
		if err != nil {
			end(api.AcknowledgementOutcomeRefused, err.Error(), "")
			return
		}
		a.queue(job{c.Id, end, m})
	case api.CommandKindStop:
		detail := "no check was under way"
		if a.runner.halt(value(c.Stops), foreign.Line(value(c.Reason), 200)) {
			detail = "the check was stopped"
		}
		end(api.AcknowledgementOutcomeDone, detail, "")
	case api.CommandKindSettings:
		a.answer(a.fetchSettings(ctx), end)
	case api.CommandKindRotateKey:
		a.answer(a.session.rotate(ctx), end)
	default:
		end(api.AcknowledgementOutcomeRefused, "this agent does not know such a command", "")
	}
}

// queue has a check made when the one under way has ended.
func (a *Agent) queue(j job) {
	select {
	case a.runner.jobs <- j:
	default:
		j.end(api.AcknowledgementOutcomeRefused, "another check waits already", "")
	}
}

func (a *Agent) answer(err error, end func(api.AcknowledgementOutcome, string, string)) {
	if err != nil {
		end(api.AcknowledgementOutcomeFailed, err.Error(), "")
		return
	}
	end(api.AcknowledgementOutcomeDone, "", "")
}
