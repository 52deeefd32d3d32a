package proc

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// answerWithin is how long a supervisor may take to have the program running.
const answerWithin = 30 * time.Second

// handle is our end of a supervisor.
type handle struct {
	cmd      *exec.Cmd
	pipes    *pipePair
	said     *boundedLog // what the supervisor itself wrote, which should be nothing
	ready    ready
	patience time.Duration // how long a stop may take before the supervisor is at fault
	outputs  []*os.File
	copying  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	writeErr error
}

// Start runs the program under a supervisor. It returns when the program runs, or
// with the reason why it does not; nothing is left behind then.
func Start(s Spec) (*Process, error) {
	path, err := s.Program()
	if err != nil {
		return nil, fmt.Errorf("starting %q: %w", s.name(), err)
	}
	if len(s.Supervisor) == 0 {
		return nil, fmt.Errorf("starting %q: %w: Spec.Supervisor is empty", s.name(), ErrSupervisor)
	}
	p, err := s.start(path)
	if err != nil {
		return nil, fmt.Errorf("starting %q: %w", s.name(), err)
	}
	return p, nil
}

func (s Spec) name() string {
	if len(s.Command) == 0 {
		return ""
	}
	return s.Command[0]
}

func (s Spec) start(path string) (*Process, error) {
	temp, err := s.tempName()
	if err != nil {
		return nil, err
	}
	log, err := newBoundedLog(s.LogHead, s.LogTail, s.LogFile)
	if err != nil {
		return nil, err
	}
	p := &Process{tempDir: temp, log: log, done: make(chan struct{})}
	h := &handle{}
	p.h = h
	h.said, _ = newBoundedLog(16<<10, -1, "")
	theirs, err := h.connect(s, log)
	if err != nil {
		_ = log.close()
		return nil, err
	}
	h.cmd = exec.Command(s.Supervisor[0], s.Supervisor[1:]...)
	h.cmd.Env = []string{}
	h.cmd.Stderr = h.said
	h.cmd.WaitDelay = time.Second
	h.cmd.ExtraFiles = append([]*os.File{h.pipes.farOrders, h.pipes.farMessages}, theirs...)
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for us, not for it
	err = h.cmd.Start()
	if err == nil {
		Unbound(h.cmd.Process.Pid) // before it has the job, so the whole tree
	}
	h.pipes.closeFar()
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		h.pipes.closeNear()
		h.closeOutputs()
		_ = log.close()
		return nil, fmt.Errorf("%w: %w", ErrSupervisor, err)
	}
	h.patience = s.grace() + endWithin + 5*time.Second
	if err := h.greet(s, path, temp); err != nil {
		h.abandon(temp)
		_ = log.close()
		if said := h.said.tail(); said != "" {
			err = fmt.Errorf("%w; the supervisor said: %s", err, said)
		}
		return nil, err
	}
	p.pid, p.isolation = h.ready.PID, h.ready.Isolation
	go p.follow()
	return p, nil
}

// tempName makes up the name of the temporary directory; the supervisor makes it,
// because it is the one who is sure to be there to remove it.
func (s Spec) tempName() (string, error) {
	b := make([]byte, 8)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("naming the temporary directory: %w", err)
	}
	return filepath.Abs(filepath.Join(s.tempIn(), "assay-"+hex.EncodeToString(b)))
}

// greet gives the job and waits until the program runs.
func (h *handle) greet(s Spec, path, temp string) error {
	self, err := filepath.Abs(h.cmd.Path)
	if err != nil {
		return err
	}
	j := job{
		Role: roleSupervise, Supervisor: asBytes(append([]string{self}, s.Supervisor[1:]...)),
		Path: []byte(path), Args: asBytes(s.Command), Dir: []byte(s.Dir), Env: asBytes(s.environ(temp)),
		TempDir: []byte(temp), CPUs: s.CPUs, MemoryBytes: s.MemoryBytes, Grace: s.grace(), Avoid: s.Avoid,
	}
	late := time.Now().Add(answerWithin)
	_, _ = h.pipes.messages.SetReadDeadline(late), h.pipes.orders.SetWriteDeadline(late)
	if err := json.NewEncoder(h.pipes.orders).Encode(j); err != nil {
		return fmt.Errorf("%w: %w", ErrSupervisor, err)
	}
	// One message, not a byte more: follow reads on.
	line, err := readLine(h.pipes.messages)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSupervisor, err)
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("%w: %w", ErrSupervisor, err)
	}
	if m.Ready == nil {
		return m.err()
	}
	never := time.Time{}
	_, _ = h.pipes.messages.SetReadDeadline(never), h.pipes.orders.SetWriteDeadline(never)
	h.ready = *m.Ready
	return nil
}

// longestMessage is far above what a supervisor says.
const longestMessage = 1 << 20

func readLine(r io.Reader) ([]byte, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) < longestMessage {
		if _, err := r.Read(b); err != nil {
			return nil, err
		}
		if b[0] == '\n' {
			return line, nil
		}
		line = append(line, b[0])
	}
	return nil, errors.New("a message without end")
}

// abandon clears away a start that did not succeed.
func (h *handle) abandon(temp string) {
	h.pipes.closeNear() // the supervisor ends whatever it began
	waited := make(chan struct{})
	go func() {
		_ = h.cmd.Wait()
		close(waited)
	}()
	select {
	case <-waited:
	case <-time.After(endWithin + time.Second):
		_ = h.cmd.Process.Kill()
		<-waited
		h.rescue(temp)
	}
	h.closeOutputs()
	_ = removeAll(temp)
}

// follow waits for the end.
func (p *Process) follow() {
	h := p.h
	var m message
	line, err := readLine(h.pipes.messages)
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	if err != nil || m.Exit == nil {
		p.exit = Exit{Code: -1, Lost: "the supervisor was killed"}
		if said := h.said.tail(); said != "" {
			p.exit.Lost += ": " + said
		}
		_ = h.cmd.Process.Kill()
		p.exit.Left = h.rescue(p.tempDir)
	} else {
		p.exit = *m.Exit
	}
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.pipes.closeNear()
	_ = h.cmd.Wait()
	h.closeOutputs()
	_ = removeAll(p.tempDir) // the supervisor did, unless it was killed
	h.mu.Lock()
	p.exit.OutputErr = errors.Join(h.writeErr, p.log.close())
	h.mu.Unlock()
	p.exit.LogTail = p.log.tail()
	close(p.done)
}

// rescue ends a tree whose supervisor was killed. A cgroup or a namespace is ended
// whole. Else the kernel has ended the program itself with its parent, and the rest
// is known by its session and by the temporary directory in its environment.
func (h *handle) rescue(temp string) (left []int) {
	var c *cgroup
	if dir := h.ready.Isolation.Cgroup; dir != "" {
		c = &cgroup{dir: dir}
		_ = c.kill()
	}
	mark := []byte("TMPDIR=" + temp)
	deadline := time.Now().Add(endWithin)
	// Who was born while we read is seen the second time.
	for clear := 0; clear < 2; {
		var found []entry
		for _, pid := range PIDs(procRoot) {
			e, ok := readEntry(pid)
			if !ok || e.dead() || e.start < h.ready.Start || pid == os.Getpid() {
				continue
			}
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if e.session == h.ready.PID && h.ready.PID > 0 || bytes.Contains(env, mark) {
				found = append(found, e)
			}
		}
		if len(found) == 0 {
			clear++
			continue
		}
		clear = 0
		if time.Now().After(deadline) {
			left = pidsOf(found)
			break
		}
		killAll(found, unix.Getpgrp())
		time.Sleep(5 * time.Millisecond)
	}
	if c != nil {
		_ = c.remove(time.Now().Add(2 * time.Second))
	}
	return left
}

func (h *handle) stop() { h.tell(orderStop) }
func (h *handle) kill() { h.tell(orderKill) }

// force is for a supervisor that does not answer, because the program stopped it
// (SIGSTOP), say. Its death is heard of by follow, which ends the tree.
func (h *handle) force() { _ = h.cmd.Process.Kill() }

func (h *handle) tell(o order) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	_ = json.NewEncoder(h.pipes.orders).Encode(o) // a dead supervisor is heard of elsewhere
}

func (h *handle) tree() []int {
	if dir := h.ready.Isolation.Cgroup; dir != "" {
		return (&cgroup{dir: dir}).procs()
	}
	w := walker{root: h.cmd.Process.Pid}
	return slices.DeleteFunc(pidsOf(w.scan()), func(pid int) bool { return pid == h.ready.Init })
}
