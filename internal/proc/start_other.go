//go:build !linux

package proc

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// handle is a program that was started directly.
type handle struct {
	cmd      *exec.Cmd
	grace    time.Duration
	patience time.Duration
	ended    chan struct{}
	once     sync.Once
	stopped  bool
	mu       sync.Mutex
}

// Start runs the program. Nothing watches over it here: what it daemonises is not
// found, and it runs on when we are killed.
func Start(s Spec) (*Process, error) {
	p, err := s.start()
	if err != nil {
		name := ""
		if len(s.Command) > 0 {
			name = s.Command[0]
		}
		return nil, fmt.Errorf("starting %q: %w", name, err)
	}
	return p, nil
}

// CheckCPUs refuses any set of processors: nothing is bound to them here.
func CheckCPUs(cpus []int) error {
	if len(cpus) > 0 {
		return fmt.Errorf("binding to CPUs: %w on %s", errors.ErrUnsupported, runtime.GOOS)
	}
	return nil
}

func (s Spec) start() (*Process, error) {
	path, err := s.Program()
	if err != nil {
		return nil, err
	}
	if err := CheckCPUs(s.CPUs); err != nil {
		return nil, err
	}
	if s.MemoryBytes > 0 {
		return nil, fmt.Errorf("limiting memory: %w on %s", errors.ErrUnsupported, runtime.GOOS)
	}
	b := make([]byte, 8)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	temp, err := filepath.Abs(filepath.Join(s.tempIn(), "assay-"+hex.EncodeToString(b)))
	if err != nil {
		return nil, err
	}
	log, err := newBoundedLog(s.LogHead, s.LogTail, s.LogFile)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		_ = log.close()
		return nil, err
	}
	to := func(w io.Writer) io.Writer {
		if w == nil {
			return log
		}
		return w
	}
	cmd := &exec.Cmd{
		Path: path, Args: s.Command, Dir: s.Dir, Env: s.environ(temp), Stdin: s.Stdin,
		Stdout: to(s.Stdout), Stderr: to(s.Stderr), WaitDelay: 2 * time.Second,
	}
	Group(cmd)
	if err := cmd.Start(); err != nil {
		_, _ = log.close(), os.Remove(temp)
		return nil, err
	}
	p := &Process{
		pid: cmd.Process.Pid, tempDir: temp, log: log, done: make(chan struct{}),
		h:         &handle{cmd: cmd, grace: s.grace(), patience: s.grace() + 15*time.Second, ended: make(chan struct{})},
		isolation: Isolation{Notes: []string{groupNote, "it runs on when we are killed"}},
	}
	go p.follow()
	return p, nil
}

func (p *Process) follow() {
	err := p.h.cmd.Wait()
	KillGroup(p.h.cmd) // children of its group that outlived it
	close(p.h.ended)
	state := p.h.cmd.ProcessState
	cpu := (state.UserTime() + state.SystemTime()).Seconds()
	p.h.mu.Lock()
	p.exit = Exit{Code: state.ExitCode(), CPUSeconds: &cpu, Stopped: p.h.stopped}
	p.h.mu.Unlock()
	if state.ExitCode() < 0 {
		p.exit.Signal = state.String()
	}
	var status *exec.ExitError
	if errors.As(err, &status) {
		err = nil
	}
	p.exit.OutputErr = errors.Join(err, p.log.close(), os.RemoveAll(p.tempDir))
	p.exit.LogTail = p.log.tail()
	close(p.done)
}

func (h *handle) stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	h.once.Do(func() {
		if h.grace <= 0 {
			KillGroup(h.cmd)
			return
		}
		askGroup(h.cmd)
		go func() {
			select {
			case <-h.ended:
			case <-time.After(h.grace):
				KillGroup(h.cmd)
			}
		}()
	})
}

func (h *handle) kill()  { KillGroup(h.cmd) }
func (h *handle) force() { KillGroup(h.cmd) }

// tree is the program alone: its children are not looked for here.
func (h *handle) tree() []int { return []int{h.cmd.Process.Pid} }

func rssOf([]int) (int64, bool) { return 0, false }

// Supervise is for Linux only.
func Supervise() int { return 1 }
