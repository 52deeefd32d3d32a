//go:build unix

package child

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roles are what this test's binary does when it is started as a child.
var roles = map[string]func(args []string){
	// answer gives each question its answer.
	"answer": func([]string) {
		answer()
	},
	// hang does nothing, and does not end with its input.
	"hang": func([]string) { hang() },
	// deaf does not end by SIGTERM either.
	"deaf": func([]string) {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("deaf")
		hang()
	},
	"flood": func([]string) {
		for {
			fmt.Println("x")
		}
	},
	"flood-a-line": func([]string) {
		for {
			fmt.Print(strings.Repeat("x", 1000))
		}
	},
	"flood-stderr": func([]string) {
		for range 1000 {
			fmt.Fprint(os.Stderr, "cause: ", strings.Repeat("y", 10000))
		}
		answer()
	},
	"half-a-line": func([]string) {
		fmt.Print("ha")
		hang()
	},
	"half-a-line-and-end": func([]string) { fmt.Print("whole\nha") },
	"exit": func([]string) {
		fmt.Fprintln(os.Stderr, "no card\x1b[31m")
		os.Exit(3)
	},
	"print": func(args []string) { fmt.Println(args[0], os.Getenv("CHILD_TEST")) },
	"close-output": func([]string) {
		_ = os.Stdout.Close()
		hang()
	},
	// grandchild starts one that keeps its output open, and ends. With "escape"
	// that one leaves the group.
	"grandchild": func(args []string) {
		c := exec.Command(os.Args[0], "hang")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: args[0] == "escape"}
		if err := c.Start(); err != nil {
			panic(err)
		}
		fmt.Println(c.Process.Pid)
		if args[0] == "stay" {
			hang()
		}
	},
	// late begins an answer, says so, and goes on when the next question comes.
	"late": func([]string) {
		in := bufio.NewScanner(os.Stdin)
		in.Scan()
		fmt.Print("answer to ")
		fmt.Fprint(os.Stderr, "began")
		first := in.Text()
		in.Scan()
		fmt.Printf("%s\nanswer to %s\n", first, in.Text())
		hang()
	},
	// parent is somebody who is killed while a child of its own runs.
	"parent": func([]string) {
		p, err := Start(Spec{Command: []string{os.Args[0], "deaf"}})
		if err != nil {
			panic(err)
		}
		err = p.Receive(context.Background(), time.Now().Add(patience), func(line []byte) (bool, error) { return string(line) == "deaf", nil })
		fmt.Println(p.cmd.Process.Pid, err)
		hang()
	},
	// ready says so when a file is there.
	"ready": func(args []string) {
		fmt.Println("chatter")
		for !exists(args[0]) {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("ready")
		answer()
	},
	// die answers so many questions.
	"die": func(args []string) {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			panic(err)
		}
		in := bufio.NewScanner(os.Stdin)
		for ; n > 0 && in.Scan(); n-- {
			fmt.Println("answer to", in.Text())
		}
		os.Exit(7)
	},
}

// patience is how long a test waits for what must come. It is never the result.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			role(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func answer() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println("answer to", in.Text())
	}
}

func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func spec(role ...string) Spec { return Spec{Command: append([]string{os.Args[0]}, role...)} }

// start starts a child in a role. It must be dead when the test ends.
func start(t *testing.T, s Spec) *Process {
	t.Helper()
	p, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		gone(t, p.cmd.Process.Pid)
	})
	return p
}

// gone waits until a process does not run any more: one that only waits to be
// reaped does not.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if !runs(pid) {
			return
		}
	}
	t.Errorf("process %d still runs", pid)
}

func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(b, []byte(") Z "))
}

func soon() time.Time { return time.Now().Add(patience) }

// one takes one line.
func one(line *string) func([]byte) (bool, error) {
	return func(b []byte) (bool, error) {
		*line = string(b)
		return true, nil
	}
}

func ask(t *testing.T, p *Process, question string) (answer string, err error) {
	t.Helper()
	if err := p.Send(t.Context(), soon(), []byte(question+"\n")); err != nil {
		return "", err
	}
	err = p.Receive(t.Context(), soon(), one(&answer))
	return answer, err
}
