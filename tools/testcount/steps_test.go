package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// steps runs a script with the steps of .ci/run, in a process group of its own.
func steps(t *testing.T, script string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	file, err := filepath.Abs("../../.ci/steps.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", `set -euo pipefail
mode=normal SKIP=77
work=$(mktemp -d)
export ASSAY_RUN=$work
stop_engines() { :; }
. "$STEPS"
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
`+script)
	cmd.Env = append(os.Environ(), "STEPS="+file, "TMPDIR="+t.TempDir(), "HERE="+t.TempDir(), "ASSAY_STEPS=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 20 * time.Second
	return cmd, &out
}

// A step that runs beside others waits for its place to print, is counted by what
// it left, and is marked; so are those that it ran beside.
func TestStepsBesideEachOther(t *testing.T) {
	cmd, out := steps(t, `
slow() { until [ -f "$HERE/now" ]; do sleep 0.01; done; echo slow says; count 3 0 1; }
quick() { echo quick says; count 2 0 0; touch "$HERE/now"; }
refused() { echo "not today" >"$why"; exit $SKIP; }
broken() { count 5 0 0; false; echo not reached; }
dies() { kill -KILL -- "-$(ps -o pgid= $BASHPID | tr -d ' ')"; }
aside slow slow
aside refused refused
aside broken broken
aside dies dies
step quick quick
join slow
join refused
join broken
join dies
step last true
complete=1
`)
	err := cmd.Run()
	if code := exitCode(err); code != 1 {
		t.Errorf("exit %d, want 1: something failed", code)
	}
	text := out.String()
	for _, want := range []string{
		`(?s)== quick\nquick says\n.*== slow\n.*slow says\n.*== refused\n.*== broken\n.*== dies\n.*== last`,
		`quick +passed .* beside .*slow`,
		`slow +passed .*beside others`,
		`refused +skipped .*not today`,
		`broken +failed .*beside others`,
		`dies +failed`,
		`last +passed +\d+\.\d +0  \n`,
		`11 passed, 2 failed, 2 skipped\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "not reached") {
		t.Errorf("an error did not end its step:\n%s", text)
	}
}

// Ctrl-C ends what runs here, what runs beside, and servers in sessions of their
// own that one of them has started; all of it is in the table.
func TestStepsInterrupted(t *testing.T) {
	cmd, out := steps(t, `
server() { setsid nohup sleep 300 >/dev/null 2>&1 </dev/null & echo $! >"$HERE/server"; sleep 300; }
waits() { sleep 300; }
first() { until [ -s "$HERE/server" ]; do sleep 0.01; done; }
aside server server
step first first
echo ready >"$HERE/ready"
step waits waits
join server
complete=1
`)
	here := ""
	for _, v := range cmd.Env {
		if dir, ok := strings.CutPrefix(v, "HERE="); ok {
			here = dir
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, filepath.Join(here, "ready"))
	time.Sleep(200 * time.Millisecond) // into the step that waits
	b, err := os.ReadFile(filepath.Join(here, "server"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	// As a terminal does: to the group that is in its foreground.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	for _, want := range []string{`first +passed`, `waits +interrupted`, `server +interrupted`, `1 passed, 2 failed, 0 skipped\n$`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if err := syscall.Kill(server, 0); !errors.Is(err, syscall.ESRCH) && !zombie(server) {
		t.Errorf("the server that a step had started lives on: %v", err)
		_ = syscall.Kill(server, syscall.SIGKILL)
	}
}

func exitCode(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// zombie reports whether a process has ended and nobody has asked how.
func zombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(b), ") ")
	return err == nil && strings.HasPrefix(state, "Z")
}

func waitFor(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s did not come", path)
		}
	}
}
