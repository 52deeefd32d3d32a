package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

func shell(script string) command {
	return command{Name: "x", Command: []string{"/bin/sh", "-c", script}, Unit: "s", Better: assay.Lower}
}

func needsShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no /bin/sh")
	}
}

func TestFigureOfACommand(t *testing.T) {
	for _, c := range []struct {
		name, field, out string
		want             float64
		err              string // part of it; empty: none
	}{
		{"a number", "", " 12.5\n", 12.5, ""},
		{"an exponent", "", "3e-6", 3e-6, ""},
		{"zero is a number", "", "0", 0, ""},
		{"nothing", "", "", 0, "nothing"},
		{"blanks", "", " \n\t", 0, "nothing"},
		{"words", "", "took 5 s", 0, "neither a number"},
		{"two numbers", "", "1 2", 0, "neither a number"},
		{"not a number", "", "NaN", 0, "no measurement"},
		{"infinite", "", "+Inf", 0, "no measurement"},
		{"control codes are replaced", "", "\x1b[31mred", 0, "\uFFFD[31mred"},
		{"our JSON", "", `{"value": 2, "unit": "s", "batch": 4, "extra": {"a": 1}}`, 2, ""},
		{"no value", "", `{"extra": {}}`, 0, "no value"},
		{"a null value", "", `{"value": null}`, 0, "no value"},
		{"another unit", "", `{"value": 1, "unit": "ms"}`, 0, `"ms"`},
		{"a negative batch", "", `{"value": 1, "batch": -1}`, 0, "batch"},
		{"cut off", "", `{"value": 1`, 0, "JSON"},
		{"a field", "latency.p50", `{"latency": {"p50": 7}}`, 7, ""},
		{"a field that is not there", "latency.p99", `{"latency": {"p50": 7}}`, 0, "not there"},
		{"a field of no object", "latency.p50.x", `{"latency": {"p50": 7}}`, 0, "no object"},
		{"a field of words", "a", `{"a": "7"}`, 0, "no number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := shell("")
			spec.Field = c.field
			m, err := spec.figure([]byte(c.out))
			if c.err == "" && (err != nil || m.Value != c.want) {
				t.Errorf("%v, %v", m, err)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v does not say %q", err, c.err)
			}
		})
	}
	m, err := shell("").figure([]byte(`{"value": 2, "batch": 4, "extra": {"a": 1}}`))
	if err != nil || m.Batch != 4 || m.Extra["a"] != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := shell("").figure([]byte(`{"unavailable": "no card"}`)); !errors.Is(err, claims.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if _, err := shell("").figure([]byte(`{"wrong": "sum differs"}`)); !errors.Is(err, claims.ErrWrong) {
		t.Errorf("%v", err)
	}
}

func TestCommandProbe(t *testing.T) {
	needsShell(t)
	p := Command(claims.Command(shell("echo 4.5; echo noise >&2")))
	if p.Name != "command/x" || p.Family() != "command" || p.Unit != "s" {
		t.Errorf("%+v", p)
	}
	scaled := shell("echo 4.5")
	scaled.Scale = 0.5
	if m, err := scaled.sample(t.Context()); err != nil || m.Value != 2.25 {
		t.Errorf("half of 4.5: %+v, %v", m, err)
	}
	const enough = time.Minute
	for _, c := range []struct {
		name, script, err string
		timeout           time.Duration
	}{
		{"good", "echo 4.5; echo noise >&2", "", enough},
		{"fails and says why", "echo 4.5; echo the disk is full >&2; exit 3", "the disk is full", enough},
		{"prints for ever", "yes", "printing more than", enough},
		{"hangs", "sleep 1000", "ended after", 200 * time.Millisecond},
		{"killed", "kill -9 $$", "killed", enough},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := shell(c.script)
			spec.Timeout = c.timeout
			r, err := Command(claims.Command(spec)).Start(t.Context(), claims.Env{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			m, err := r.Sample(t.Context())
			if c.err == "" && (err != nil || m.Value != 4.5) {
				t.Errorf("%v, %v", m, err)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v does not say %q", err, c.err)
			}
		})
	}
	if _, err := Command(claims.Command{Name: "x", Command: []string{"assay-no-such-program"}}).Start(t.Context(), claims.Env{}); !errors.Is(err, claims.ErrUnavailable) {
		t.Errorf("a program that is not there: %v", err)
	}
	if _, err := Command(claims.Command{Name: "x"}).Start(t.Context(), claims.Env{}); err == nil || errors.Is(err, claims.ErrUnavailable) {
		t.Errorf("no command at all: %v", err)
	}
}

// What a command leaves running in its group is gone when the sample is, whether
// it ended by itself or was too slow.
func TestCommandLeavesNothingRunning(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("groups are killed on Linux only")
	}
	for name, end := range map[string]string{"ends": "echo 1", "too slow": "sleep 1000"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			spec := shell("sleep 1000 & echo $! > " + file + "; " + end)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if name == "too slow" {
				go func() {
					for written(file) == "" {
						time.Sleep(10 * time.Millisecond)
					}
					cancel(errors.New("too slow"))
				}()
			}
			_, err := spec.sample(ctx)
			if (err == nil) != (name == "ends") {
				t.Errorf("%v", err)
			}
			pid, err := strconv.Atoi(written(file))
			if err != nil {
				t.Fatal(err)
			}
			for range 200 {
				// A process that was killed can wait for its new parent as a zombie.
				stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
				if err != nil || strings.Contains(string(stat), ") Z ") {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Errorf("process %d still runs", pid)
		})
	}
}

// written is a line of a file, when it is there as a whole.
func written(file string) string {
	text, _ := os.ReadFile(file)
	line, _, _ := strings.Cut(string(text), "\n")
	if len(line) == len(text) {
		return ""
	}
	return line
}
