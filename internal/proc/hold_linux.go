package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// held is a program under way and what holds it.
type held struct {
	pid       int    // of the program, as the supervisor sees it
	start     uint64 // when it began
	child     int    // the supervisor's own child: the program or its namespace's first
	init      int    // the first of the namespace; 0 where there is none
	root      int    // whose descendants the tree is
	cgroup    *cgroup
	isolation Isolation

	orders  *os.File // to the first of the namespace
	results chan message
}

// hold starts the program by the strongest means that works here. A start that
// fails is tried again by the next: the system does not say whether the program or
// the means was at fault, and only the last has no means that could be.
func (j job) hold(stdio [3]*os.File) (held, error) {
	var notes []string
	note := func(what string, err error) { notes = append(notes, what+": "+err.Error()) }
	var h held
	err := errors.New("not tried")
	if j.Avoid&Cgroup == 0 {
		if h, err = j.inCgroup(stdio); err != nil {
			note("no cgroup v2", err)
		}
	} else {
		notes = append(notes, "cgroup v2 not wanted")
	}
	if err != nil && j.Avoid&PIDNamespace == 0 {
		var refused *refusal
		if h, err = j.inNamespace(stdio); errors.As(err, &refused) {
			note("no pid namespace", err)
		} else if err != nil {
			return held{}, err
		}
	} else if err != nil {
		notes = append(notes, "pid namespace not wanted")
	}
	if err != nil {
		if h, err = j.plain(stdio); err != nil {
			return held{}, err
		}
	}
	h.isolation.Subreaper = true
	h.isolation.CPUs = j.CPUs
	if j.MemoryBytes > 0 && h.isolation.Memory == "" {
		h.isolation.Memory = "watch"
		if h.cgroup != nil && !h.cgroup.memory {
			notes = append(notes, "the cgroup has no memory controller")
		}
	}
	h.isolation.Notes = notes
	return h, nil
}

func (j job) inCgroup(stdio [3]*os.File) (held, error) {
	c, err := newCgroup(j.MemoryBytes > 0)
	if err != nil {
		return held{}, err
	}
	h := held{cgroup: c, root: os.Getpid(), isolation: Isolation{Cgroup: c.dir}}
	if j.MemoryBytes > 0 && c.memory {
		if err := c.limit(j.MemoryBytes); err == nil {
			h.isolation.Memory = "cgroup"
		}
	}
	dir, err := os.Open(c.dir)
	if err == nil {
		h.pid, err = j.command(stdio, syscall.SysProcAttr{
			Pdeathsig: unix.SIGKILL, UseCgroupFD: true, CgroupFD: int(dir.Fd()),
		})
		_ = dir.Close()
	}
	if err != nil {
		_ = c.remove(time.Now().Add(time.Second))
		return held{}, err
	}
	h.seen()
	return h, nil
}

func (j job) plain(stdio [3]*os.File) (held, error) {
	pid, err := j.command(stdio, syscall.SysProcAttr{Pdeathsig: unix.SIGKILL})
	if err != nil {
		return held{}, err
	}
	h := held{pid: pid, root: os.Getpid()}
	h.seen()
	return h, nil
}

// seen completes what is held by the supervisor's own child.
func (h *held) seen() {
	h.child = h.pid
	if e, ok := readEntry(h.pid); ok {
		h.start = e.start
	}
}

// terminate sends SIGTERM to the program's process group.
func (h *held) terminate() {
	if h.orders != nil {
		_ = json.NewEncoder(h.orders).Encode(orderStop)
		return
	}
	_ = unix.Kill(-h.pid, unix.SIGTERM)
}

// result is what the first process of the namespace said of the program's end.
func (h *held) result() (Exit, bool) {
	if h.results == nil {
		return Exit{}, false
	}
	select {
	case m, ok := <-h.results:
		if ok && m.Exit != nil {
			return *m.Exit, true
		}
	case <-time.After(time.Second):
	}
	return Exit{}, false
}

// refusal is an error of the namespace, not of the program.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// inNamespace starts our own binary once more as the first process of a pid
// namespace: a program that is the first itself would not be ended by SIGTERM and
// would have to wait for orphans. Who is not root needs a user namespace around
// it, in which it keeps its own user id.
func (j job) inNamespace(stdio [3]*os.File) (held, error) {
	pipes, err := twoPipes()
	if err != nil {
		return held{}, &refusal{err}
	}
	defer pipes.closeFar()
	sys := &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: unix.SIGKILL,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
	}
	user := os.Geteuid() != 0
	if user {
		sys.Cloneflags |= unix.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // for the mount of /proc
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		pipes.closeNear()
		return held{}, &refusal{err}
	}
	defer null.Close()
	args := asStrings(j.Supervisor)
	n := null.Fd()
	pid, err := spawn(args[0], args, &syscall.ProcAttr{
		Files: []uintptr{n, n, n, pipes.farOrders.Fd(), pipes.farMessages.Fd(), stdio[0].Fd(), stdio[1].Fd(), stdio[2].Fd()},
		Sys:   sys,
	}, nil)
	if err != nil {
		pipes.closeNear()
		return held{}, &refusal{err}
	}
	pipes.closeFar()
	h, err := j.greet(pid, pipes)
	if err != nil {
		pipes.closeNear()
		_ = unix.Kill(pid, unix.SIGKILL)
		for {
			if _, e := syscall.Wait4(pid, nil, 0, nil); e != syscall.EINTR {
				break
			}
		}
		return held{}, err
	}
	h.isolation = Isolation{PIDNamespace: true, UserNamespace: user}
	return h, nil
}

// greet gives the job to the first process, and waits until the program runs.
func (j job) greet(pid int, pipes *pipePair) (held, error) {
	j.Role = roleInit
	if err := json.NewEncoder(pipes.orders).Encode(j); err != nil {
		return held{}, &refusal{fmt.Errorf("speaking to the first process: %w", err)}
	}
	results := make(chan message, 2)
	go func() {
		defer close(results)
		dec := json.NewDecoder(pipes.messages)
		for {
			var m message
			if dec.Decode(&m) != nil {
				return
			}
			results <- m
		}
	}()
	var m message
	select {
	case m = <-results:
	case <-time.After(10 * time.Second):
		return held{}, &refusal{errors.New("the first process does not answer")}
	}
	switch {
	case m.Refused || m.Ready == nil && m.Error == "":
		return held{}, &refusal{fmt.Errorf("in the namespace: %s", m.Error)}
	case m.Error != "":
		return held{}, m.err()
	}
	h := held{child: pid, init: pid, root: pid, orders: pipes.orders, results: results}
	h.pid, h.start = outside(pid, m.Ready.PID)
	return h, nil
}

// outside finds a process of the namespace by its id in there.
func outside(root, inner int) (int, uint64) {
	w := walker{root: root}
	for _, e := range w.scan() {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(e.pid) + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
				f := strings.Fields(ids)
				if len(f) > 0 && f[len(f)-1] == strconv.Itoa(inner) {
					return e.pid, e.start
				}
			}
		}
	}
	return 0, 0 // it has ended already
}

// pipePair are the pipes to a process that is about to be started.
type pipePair struct {
	orders, messages       *os.File // our ends
	farOrders, farMessages *os.File
}

func twoPipes() (*pipePair, error) {
	var p pipePair
	var err error
	if p.farOrders, p.orders, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.messages, p.farMessages, err = os.Pipe(); err != nil {
		_, _ = p.farOrders.Close(), p.orders.Close()
		return nil, err
	}
	return &p, nil
}

func (p *pipePair) closeFar()  { _, _ = p.farOrders.Close(), p.farMessages.Close() }
func (p *pipePair) closeNear() { _, _ = p.orders.Close(), p.messages.Close() }
