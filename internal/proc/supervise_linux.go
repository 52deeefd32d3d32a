package proc

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endWithin is how long the end of a tree may take. Only what hangs in the kernel
// or belongs to somebody else takes longer.
const endWithin = 10 * time.Second

// Supervise is the other side of [Start]: the hidden subcommand that the caller
// named in Spec.Supervisor does nothing but exit with its result. It
// takes over descriptors 3 to 7, and starts the same command line once more as the
// first process of a pid namespace where that is needed.
func Supervise() int {
	ownProcess()
	in, out, stdio, err := inherited()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dec := json.NewDecoder(in)
	var j job
	if err := dec.Decode(&j); err != nil {
		fmt.Fprintln(os.Stderr, "reading the job:", err)
		return 1
	}
	msgs := newMessages(out)
	switch j.Role {
	case roleSupervise:
		return supervise(j, dec, msgs, stdio)
	case roleInit:
		return first(j, dec, msgs, stdio)
	}
	fmt.Fprintf(os.Stderr, "no such role: %q\n", j.Role)
	return 1
}

// supervision is one tree under way.
type supervision struct {
	job     job
	msgs    *messages
	held    held
	reaped  <-chan reaped
	walk    walker
	started time.Time

	exit  Exit
	ended bool // the program itself
	peak  int64
	cpu   time.Duration
}

func supervise(j job, dec *json.Decoder, msgs *messages, stdio [3]*os.File) int {
	temp := string(j.TempDir)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, termination()...)
	if err := os.Mkdir(temp, 0o700); err != nil {
		msgs.send(failure("making the temporary directory", err))
		return 1
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		_ = os.Remove(temp)
		msgs.send(failure("becoming a subreaper", err))
		return 1
	}
	h, err := j.hold(stdio)
	for _, f := range stdio {
		_ = f.Close() // else nobody would see that the program closed its output
	}
	if err != nil {
		_ = removeAll(temp)
		msgs.send(failure("starting "+string(j.Path), err))
		return 1
	}
	s := &supervision{job: j, msgs: msgs, held: h, reaped: reap(), started: time.Now()}
	s.walk.root = h.root
	msgs.send(message{Ready: &ready{PID: h.pid, Start: h.start, Init: h.init, Isolation: h.isolation}})
	s.run(orders(dec), signals)
	s.end()
	s.count()
	s.clean(temp)
	msgs.send(message{Exit: &s.exit})
	return 0
}

// run returns when the tree has to end.
func (s *supervision) run(orders <-chan order, signals <-chan os.Signal) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	s.watch()
	var grace <-chan time.Time
	stop := func() bool {
		s.exit.Stopped = true
		if s.job.Grace <= 0 {
			return true
		}
		if grace == nil {
			s.held.terminate()
			grace = time.After(s.job.Grace)
		}
		return false
	}
	for {
		select {
		case o, ok := <-orders:
			switch {
			case !ok:
				return // whoever started us is dead
			case o == orderStop:
				if stop() {
					return
				}
			default:
				s.exit.Stopped = true
				return
			}
		case sig := <-signals:
			if isTermination(sig) && stop() {
				return
			}
		case <-grace:
			return
		case r, ok := <-s.reaped:
			if !ok {
				return
			}
			if s.took(r) {
				return
			}
		case <-tick.C:
			if s.watch() {
				s.exit.MemoryExceeded = true
				return
			}
		}
	}
}

// took notes a child's end, and says whether the program itself has ended.
func (s *supervision) took(r reaped) bool {
	// Children of a dead child are in its figures, when it waited for them.
	s.cpu += time.Duration(r.usage.Utime.Nano() + r.usage.Stime.Nano())
	var own syscall.Rusage
	if r.pid != s.held.init && syscall.Getrusage(syscall.RUSAGE_SELF, &own) == nil && r.usage.Maxrss > own.Maxrss {
		// A child begins with our own peak, so only what is above it is its own. The
		// first process of a namespace is us again, and tells nothing.
		s.peak = max(s.peak, int64(r.usage.Maxrss)<<10) //nolint:unconvert // it is an int32 where words are
	}
	if r.pid != s.held.child || s.ended {
		return false
	}
	s.ended = true
	end := exitOf(r.status)
	if m, ok := s.held.result(); ok {
		end = m
	}
	s.exit.Code, s.exit.Signal = end.Code, end.Signal
	return true
}

// tree is everything but ourselves and the first process of a namespace.
func (s *supervision) tree() []int {
	if s.held.cgroup != nil {
		return s.held.cgroup.procs()
	}
	return pidsOf(s.walk.scan())
}

// watch notes the peak, and says whether the limit is passed where it is ours to
// keep.
func (s *supervision) watch() (exceeded bool) {
	pids := s.tree()
	rss, ok := rssOf(pids)
	if !ok {
		return false
	}
	limit := s.job.MemoryBytes
	if limit <= 0 || s.held.isolation.Memory != "watch" || rss <= limit {
		s.peak = max(s.peak, rss)
		return false
	}
	// Shared pages were counted several times: look closer before ending it. And
	// look twice: when processes end between one reading and the next, what they
	// shared is counted again for those that remain.
	used := min(pssOf(pids), pssOf(s.tree()))
	s.peak = max(s.peak, used)
	return used > limit
}

// end kills until the kernel says that we have no children left.
func (s *supervision) end() {
	own := unix.Getpgrp()
	deadline := time.Now().Add(endWithin)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if s.held.cgroup != nil {
			_ = s.held.cgroup.kill()
		}
		if s.held.init > 0 && !s.ended { // its id is taken until we have waited for it
			_ = unix.Kill(s.held.init, unix.SIGKILL)
		}
		s.walk.root = os.Getpid()
		killAll(s.walk.fresh(), own)
		wait := time.After(pause)
	reaping:
		for {
			select {
			case r, ok := <-s.reaped:
				if !ok {
					return
				}
				s.took(r)
			case <-wait:
				break reaping
			}
		}
		if time.Now().After(deadline) {
			s.exit.Left = pidsOf(s.walk.fresh())
			return
		}
	}
}

// count takes the figures, the cgroup's own where it has them.
func (s *supervision) count() {
	if c := s.held.cgroup; c != nil {
		if usec, ok := c.value("cpu.stat", "usage_usec"); ok {
			s.cpu = time.Duration(usec) * time.Microsecond
		}
		if peak, ok := c.value("memory.peak", ""); ok {
			s.peak = peak
		}
		if s.job.MemoryBytes > 0 && c.exceeded() {
			s.exit.MemoryExceeded = true
		}
	}
	seconds := s.cpu.Seconds()
	s.exit.CPUSeconds, s.exit.PeakRSSBytes = &seconds, s.peak
}

func (s *supervision) clean(temp string) {
	if c := s.held.cgroup; c != nil && len(s.exit.Left) == 0 {
		_ = c.remove(time.Now().Add(2 * time.Second))
	}
	_ = removeAll(temp)
}

// removeAll removes a directory that a program may have made unreadable.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !os.IsPermission(err) {
		return err
	}
	// Everything that could write here has ended, so names stay what they are.
	var open func(string)
	open = func(d string) {
		if os.Chmod(d, 0o700) != nil {
			return
		}
		entries, _ := os.ReadDir(d)
		for _, e := range entries {
			if e.IsDir() {
				open(strings.TrimSuffix(d, "/") + "/" + e.Name())
			}
		}
	}
	open(dir)
	return os.RemoveAll(dir)
}
