package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/tools/stillness"
)

// program gives the path of a built program. The checks time things, so they
// run only where .ci/run gives them the machine.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("BIN")
	if dir == "" {
		t.Skip("BIN is not set: these checks time the built programs, and .ci/run runs them alone")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("BIN has no %s: %v", name, err)
	}
	return path
}

// light lets a test run beside others that call this, when all that time
// something are through: it puts a few streams on a simulator for as long as its
// story takes, or none, and asserts what is found in the record, not how fast it
// was.
func light(t *testing.T) {
	t.Helper()
	program(t, "assay")
	t.Parallel()
}

// say prints a figure.
func say(t *testing.T, format string, args ...any) {
	t.Helper()
	parttest.Figure(t, format, args...)
}

// long reports whether this is the long run, with its strict limits.
func long() bool { return os.Getenv("MODE") == "long" }

// tool builds one of our own workshop's programs.
func tool(t *testing.T, name string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("go", "build", "-o", bin, "github.com/assay-bench/assay/tools/"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return bin
}

// simulator is a running assay simulate.
type simulator struct {
	url   string
	truth string
	cmd   *exec.Cmd
	log   bytes.Buffer
}

func startSimulator(t *testing.T, args ...string) *simulator {
	t.Helper()
	dir := t.TempDir()
	port := filepath.Join(dir, "port")
	s := &simulator{truth: filepath.Join(dir, "truth.jsonl")}
	s.cmd = exec.Command(program(t, "assay"), append([]string{"simulate", "--listen", "127.0.0.1:0", "--port-file", port, "--truth", s.truth}, args...)...)
	s.cmd.Stderr = &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	for range 200 {
		if b, err := os.ReadFile(port); err == nil && len(b) > 0 {
			s.url = strings.TrimSpace(string(b))
			if !strings.HasPrefix(s.url, "http") {
				s.url = "http://" + s.url
			}
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the simulator did not start: %s", s.log.String())
	return nil
}

// stop ends the simulator in order, so that its truth file is whole.
func (s *simulator) stop() {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		<-done
	}
}

// cpu is the processor time that the stopped simulator took.
func (s *simulator) cpu() time.Duration {
	return s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
}

// metric reads one line of the simulator's metrics.
func (s *simulator) metrics(t *testing.T) string {
	t.Helper()
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// result is a finished run of a program.
type result struct {
	exit           int
	stdout, stderr string
	cpu            time.Duration
	maxRSS         int64 // bytes
}

func run(t *testing.T, name string, args ...string) result {
	t.Helper()
	return runCommand(t, exec.Command(name, args...), nil)
}

// runCommand runs a command to its end; during is called once it has started.
func runCommand(t *testing.T, cmd *exec.Cmd, during func()) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	err := cmd.Start()
	if err == nil {
		if during != nil {
			during()
		}
		err = cmd.Wait()
	}
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatalf("%s: %v", cmd.Path, err)
	}
	st := cmd.ProcessState
	r := result{exit: st.ExitCode(), stdout: stdout.String(), stderr: stderr.String(), cpu: st.UserTime() + st.SystemTime()}
	if ru, ok := st.SysUsage().(*syscall.Rusage); ok {
		r.maxRSS = ru.Maxrss << 10
	}
	return r
}

// hammer runs assay hammer into a directory of its own and reads its summary.
func hammer(t *testing.T, s *simulator, args ...string) (result, string, assay.Summary) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	r := run(t, program(t, "assay"), append([]string{"hammer", "--base-url", s.url, "--out", dir, "--quiet", "--format", "json"}, args...)...)
	var sum assay.Summary
	if r.stdout != "" {
		if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil {
			t.Fatalf("hammer's output is not its summary: %v\n%s\n%s", err, r.stdout, r.stderr)
		}
	}
	return r, dir, sum
}

// best tries a check that times something up to three times: these machines are
// noisy, and a limit is about what the program can do. Where the machine stood
// still at each failure, that is what was measured, and the check is skipped.
func best(t *testing.T, what string, try func() error) {
	t.Helper()
	stillness.Timed(t, what, try)
}

// p is a percentile in the unit of its distribution; NaN where there is none.
func p(d assay.Dist, level float64) float64 {
	v, ok := d.P(level)
	if !ok || d.N == 0 {
		return math.NaN()
	}
	return v.Value
}

// within asks that got is want, give or take a share of it. A value that is
// unknown is not: every comparison with NaN is false, so the question is whether
// it lies inside.
func within(what string, got, want, share float64) error {
	if !(math.Abs(got/want-1) <= share) {
		return fmt.Errorf("%s is %.4g, want %.4g ± %.0f %%", what, got, want, share*100)
	}
	return nil
}
