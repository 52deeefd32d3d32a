package proc

import (
	"encoding/json"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// first is the first process of a pid namespace: it starts the program, waits for
// whoever loses its parent, and ends with the program or with the supervisor. The
// kernel then ends the rest of the namespace.
func first(j job, dec *json.Decoder, msgs *messages, stdio [3]*os.File) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, termination()...) // the program may send them to process 1
	// Without a /proc of its own the program would look up itself in ours, and find
	// somebody else. Our mounts must not follow.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		m := failure("making mounts private", err)
		m.Refused = true
		msgs.send(m)
		return 1
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		m := failure("mounting /proc", err)
		m.Refused = true
		msgs.send(m)
		return 1
	}
	// The right to mount was for this only; the program starts on this thread.
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			m := failure("giving up the right to mount", err)
			m.Refused = true
			msgs.send(m)
			return 1
		}
	}
	pid, err := j.command(stdio, syscall.SysProcAttr{})
	if err != nil {
		msgs.send(failure("starting "+string(j.Path), err))
		return 1
	}
	for _, f := range stdio {
		_ = f.Close()
	}
	children := reap()
	msgs.send(message{Ready: &ready{PID: pid}})
	todo := orders(dec)
	for {
		select {
		case o, ok := <-todo:
			if !ok || o == orderKill {
				return 1
			}
			_ = unix.Kill(-pid, unix.SIGTERM)
		case <-signals:
		case r, ok := <-children:
			if !ok {
				return 1
			}
			if r.pid == pid {
				end := exitOf(r.status)
				msgs.send(message{Exit: &end})
				return 0
			}
		}
	}
}
