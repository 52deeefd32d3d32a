package proc

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The nice value of a session outlives whoever set it. A run that was killed, or
// ended by a second Ctrl-C, would leave its terminal before everybody else's for
// as long as the terminal is open. So nobody sets it who has not started a guard
// first: a shell that waits for the end of its input, which our death is too, and
// then sets the value back, unless somebody has changed it meanwhile.
//
// Two runs of one session need no agreement: the second finds the value raised
// and leaves it, and when the first has given it back raises it again.

// guardScript is the guard. Without CAP_SYS_ADMIN the kernel lets everybody
// together write such values ten times a second, so it tries more than once.
const guardScript = `trap '' HUP INT QUIT TERM
read -r line
for try in 1 2 3 4 5 6 7 8 9 10; do
	read -r line </proc/$$/autogroup || exit
	case $line in *" nice $2") ;; *) exit ;; esac
	echo "$1" >/proc/$$/autogroup && exit
	sleep 0.2
done`

const autogroupFile = "/proc/self/autogroup"

// sessionNice gives the nice value of the session, where the kernel groups by
// session.
func sessionNice() (nice int, ok bool) {
	b, err := os.ReadFile(autogroupFile)
	if err != nil {
		return 0, false
	}
	_, text, ok := strings.Cut(strings.TrimSpace(string(b)), " nice ")
	nice, err = strconv.Atoi(text)
	return nice, ok && err == nil
}

// raiseSession raises the session's nice value, where the kernel groups by
// session: there that of a thread counts among those of its session only, and an
// engine is usually in another. It gives the value that the session has then, and
// 0 where it was not raised.
func (r *raise) raiseSession() int {
	want := int(r.high.Nice)
	before, ok := sessionNice()
	switch {
	case !ok:
		return 0
	case before <= want:
		return before // by another run, which gives it back
	case r.session != nil:
		return 0 // somebody took back what we had set, who will have a reason
	}
	held, err := holdSession(before, want)
	if err != nil {
		return 0
	}
	if os.WriteFile(autogroupFile, []byte(strconv.Itoa(want)), 0) != nil {
		held.giveBack()
		return 0
	}
	r.session = held
	return want
}

// heldSession is a session's nice value that is given back.
type heldSession struct {
	guard *exec.Cmd
	in    io.Closer
}

func holdSession(before, raised int) (*heldSession, error) {
	guard := exec.Command("/bin/sh", "-c", guardScript, "assay-session-guard", strconv.Itoa(before), strconv.Itoa(raised))
	guard.Env = []string{"PATH=" + usualPath}
	guard.Dir = "/"
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us, not for it
	in, err := guard.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := guard.Start(); err != nil {
		return nil, err
	}
	return &heldSession{guard, in}, nil
}

// giveBack lets the guard set the value back, and waits for it.
func (h *heldSession) giveBack() {
	_ = h.in.Close()
	done := make(chan struct{})
	go func() {
		_ = h.guard.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second): // it does it, sooner or later
	}
}
