package proc

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	highNice         = -10
	realtimePriority = 1 // the lowest there is: above everything normal, below the machine's own

	// A real-time thread that uses a processor this long without once waiting
	// for something loses its priority; one that goes on all the same, as the
	// process is stuck, is killed with it.
	realtimeSoft = 1 * time.Second
	realtimeHard = 5 * time.Second

	// lookForThreads is how often threads that were made meanwhile are raised.
	lookForThreads = 200 * time.Millisecond
)

// policies that are real-time already.
func isRealtime(policy uint32) bool {
	return policy == unix.SCHED_FIFO || policy == unix.SCHED_RR || policy == unix.SCHED_DEADLINE
}

// Raise gives the level to all threads of this process, those that are made
// later within a fraction of a second, until lower is called. Children of the
// process do not inherit it. What is not permitted is not done: got says what
// was, changed (which may be nil) what became of it when a limit took it away.
//
// Every thread is marked to reset its children (SCHED_FLAG_RESET_ON_FORK),
// which for the kernel are new threads as well as new processes. So threads are
// looked for again and again, and no child needs to be thought of. What a child
// does inherit is the limit of real-time scheduling: see [Unbound].
func Raise(asked Level, changed func(Standing)) (got Standing, lower func()) {
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return Standing{Level: LevelNormal, Why: fmt.Sprintf("read the scheduling policy: %v", err)}, func() {}
	}
	before = &unix.SchedAttr{Policy: before.Policy, Nice: before.Nice, Priority: before.Priority, Flags: before.Flags & unix.SCHED_FLAG_RESET_ON_FORK}
	switch {
	case isRealtime(before.Policy):
		return Standing{Level: LevelRealtime, Nice: int(before.Nice)}, func() {} // whoever started us wants it so
	case asked == LevelNormal:
		return Standing{Level: LevelNormal, Nice: int(before.Nice)}, func() {}
	}
	r := &raise{before: *before, now: *before, changed: changed, stop: make(chan struct{})}
	r.high = *before
	r.high.Nice, r.high.Flags = min(before.Nice, highNice), unix.SCHED_FLAG_RESET_ON_FORK
	got = r.climb(asked)
	if got.Level == LevelNormal {
		return got, func() {}
	}
	r.done.Go(r.watch)
	var once sync.Once
	return got, func() { once.Do(r.lower) }
}

// raise is a priority under way.
type raise struct {
	before, high unix.SchedAttr
	now          unix.SchedAttr // what threads get
	session      *heldSession   // nil: not raised by us
	limit        *unix.Rlimit   // RLIMIT_RTTIME before; nil: not set
	exceeded     chan os.Signal // the limit's signal; nil: not expected
	got          Standing
	changed      func(Standing)

	stop chan struct{}
	done sync.WaitGroup
}

// climb tries the levels from what was asked downwards.
func (r *raise) climb(asked Level) Standing {
	var why string
	if asked == LevelRealtime {
		err := r.realtime()
		if err == nil {
			r.got = Standing{Level: LevelRealtime, Nice: int(r.before.Nice)}
			return r.got
		}
		why = fmt.Sprintf("real-time scheduling: %v", err)
	}
	r.now = r.high
	if err := r.apply(); err != nil {
		if why == "" {
			why = fmt.Sprintf("a nice value of %d: %v", r.high.Nice, err)
		}
		r.now = r.before
		_ = r.apply() // of the threads that did get it, if any
		return Standing{Level: LevelNormal, Nice: int(r.before.Nice), Why: why}
	}
	r.got = Standing{Level: LevelHigh, Nice: int(r.high.Nice), Why: why}
	r.got.Session = r.raiseSession()
	return r.got
}

// realtime makes all threads real-time, after the limit that bounds them.
func (r *raise) realtime() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTTIME, &limit); err != nil {
		return fmt.Errorf("read its limit: %w", err)
	}
	bound := unix.Rlimit{Cur: uint64(realtimeSoft.Microseconds()), Max: min(limit.Max, uint64(realtimeHard.Microseconds()))}
	bound.Cur = min(bound.Cur, bound.Max)
	r.exceeded = make(chan os.Signal, 1)
	signal.Notify(r.exceeded, unix.SIGXCPU) // which would otherwise end the process
	if err := unix.Setrlimit(unix.RLIMIT_RTTIME, &bound); err != nil {
		signal.Stop(r.exceeded)
		return fmt.Errorf("set its limit: %w", err)
	}
	r.limit = &limit
	r.now = unix.SchedAttr{Policy: unix.SCHED_RR, Priority: realtimePriority, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if err := r.apply(); err != nil {
		r.now = r.before
		_ = r.apply()
		r.unlimit()
		return err
	}
	return nil
}

// apply gives all threads what they are to have, until a look finds none that
// was made during the one before.
func (r *raise) apply() error {
	for last := -1; ; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			if err := setAttr(tid, r.now); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if len(threads) <= last {
			return nil
		}
		last = len(threads)
	}
}

// setAttr sets a thread's scheduling. Nobody but root may take the mark to reset
// children away; then it stays, and does nothing to a thread that is not raised.
func setAttr(tid int, a unix.SchedAttr) error {
	err := unix.SchedSetAttr(tid, &a, 0)
	if errors.Is(err, unix.EPERM) && a.Flags&unix.SCHED_FLAG_RESET_ON_FORK == 0 {
		a.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
		err = unix.SchedSetAttr(tid, &a, 0)
	}
	return err
}

// watch raises new threads, and gives real-time scheduling up when its limit was
// exceeded.
func (r *raise) watch() {
	tick := time.NewTicker(lookForThreads)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-r.exceeded:
			r.now = r.high
			err := r.apply()
			r.got = Standing{Level: LevelHigh, Nice: int(r.high.Nice), Why: fmt.Sprintf("a thread ran for %s without waiting for anything, the limit of real-time scheduling", realtimeSoft)}
			if err != nil {
				r.now = r.before
				_ = r.apply()
				r.got.Level, r.got.Nice = LevelNormal, int(r.before.Nice)
			}
			if r.changed != nil {
				r.changed(r.got)
			}
		case <-tick.C:
			_ = r.apply() // it was permitted before
			if r.now == r.high && r.got.Session != 0 {
				r.raiseSession() // another run may have given it back
			}
		}
	}
}

// lower gives everything back.
func (r *raise) lower() {
	close(r.stop)
	r.done.Wait()
	r.now = r.before
	_ = r.apply() // to give back is always permitted
	r.unlimit()
	if r.session != nil {
		r.session.giveBack()
	}
}

// Unbound takes from a child that was just started the limit of real-time
// scheduling, if this process has one by [Raise]. A child inherits that although
// it does not inherit the priority, and an engine with a real-time thread of its
// own would be killed by it.
func Unbound(pid int) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_RTTIME, &limit) == nil && limit.Cur < limit.Max && limit.Max <= uint64(realtimeHard.Microseconds()) {
		unlimit(pid, unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	}
}

// unlimit gives a process, 0 being this one, a limit of real-time scheduling that
// is above what it has. Only the soft one can be raised without
// CAP_SYS_RESOURCE, up to the hard one.
func unlimit(pid int, limit unix.Rlimit) {
	var now unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, &limit, &now) == nil || unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &now) != nil {
		return
	}
	now.Cur = now.Max
	_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &now, nil) // it is always permitted
}

func (r *raise) unlimit() {
	if r.limit != nil {
		unlimit(0, *r.limit)
	}
	if r.exceeded != nil {
		signal.Stop(r.exceeded)
	}
}

// Lower gives this process, all of its threads and what they start a nice value
// of at least to. Nobody but root can undo it, so it is for a process that
// does one thing and ends.
func Lower(to int) error {
	// Twice, for a thread that was made while the others were looked at; later ones
	// inherit it.
	for range 2 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("step back: %w", err)
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			now, err := unix.SchedGetAttr(tid, 0)
			if errors.Is(err, unix.ESRCH) {
				continue
			}
			if err == nil && int(now.Nice) < to {
				err = unix.Setpriority(unix.PRIO_PROCESS, tid, to)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("step back: %w", err)
			}
		}
	}
	return nil
}
