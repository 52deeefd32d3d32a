package experiment

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/simulate"
)

// The test binary is also what a shipped binary would be to an experiment: the
// supervisor, an engine, and the experiment itself where that must be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "as-supervisor":
			os.Exit(proc.Supervise())
		case "as-engine":
			asEngine(os.Args[2:])
		case "as-experiment":
			asExperiment(os.Args[2], os.Args[3])
		}
	}
	os.Exit(m.Run())
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		parttest.Need(t, program+" is not here")
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// asEngine is an engine whose truth is known.
func asEngine(args []string) {
	fs := flag.NewFlagSet("engine", flag.ExitOnError)
	port := fs.Int("port", 0, "")
	ttft := fs.Duration("ttft", 5*time.Millisecond, "")
	itl := fs.Duration("itl", time.Millisecond, "")
	model := fs.String("model", "sim", "")
	_ = fs.Parse(args) // ExitOnError
	c := simulate.DefaultConfig()
	c.TTFT, c.ITL, c.Model = *ttft, *itl, *model
	e, err := simulate.New(c)
	if err != nil {
		panic(err)
	}
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := e.Serve(ctx, ln); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(0)
}

// asExperiment runs a configuration, given as JSON, to its end.
func asExperiment(config, dir string) {
	var c Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		panic(err)
	}
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	if _, err := Run(context.Background(), c, dir, Options{Supervisor: []string{path, "as-supervisor"}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// lab is an experiment to be done in a test.
type lab struct {
	t    *testing.T
	dir  string
	mark string          // in the environment of everything that engines start
	said strings.Builder // handlers lock it
	opt  Options
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes are held together on Linux only")
	}
	l := &lab{t: t, dir: t.TempDir(), mark: fmt.Sprintf("ASSAY_TEST_MARK=%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())}
	l.opt = Options{
		Supervisor: []string{self(t), "as-supervisor"},
		Environ:    []string{"PATH=" + os.Getenv("PATH"), "SECRET=do-not-pass", "PASSED=passed"},
		Log:        slog.New(slog.NewTextHandler(&l.said, nil)),
	}
	return l
}

// engine is a simulated engine, started through the shell with something nasty
// before it; %s in it is the engine's own command line.
func (l *lab) engine(name, script string, flags ...string) EngineConfig {
	l.t.Helper()
	key, value, _ := strings.Cut(l.mark, "=")
	own := self(l.t) + " as-engine --port {port} " + strings.Join(flags, " ")
	if script == "" {
		script = "exec %s"
	}
	return EngineConfig{Name: name, Serve: &ServeConfig{
		Command: []string{"sh", "-c", ": {port}; " + strings.ReplaceAll(script, "%s", own)},
		Env:     map[string]string{key: value},
		Health:  "/health", ReadyTimeout: seconds(300), Grace: seconds(0.3),
	}}
}

// quick is a small experiment of these engines.
func quick(rounds int, engines ...EngineConfig) Config {
	none, zero := 0, 0.0
	return Config{
		Benchmark: BenchmarkConfig{Name: "test"},
		Engines:   engines,
		Workloads: []WorkloadConfig{{
			Name: "short", TestCases: []TestCase{{"Hello, how are you?", 8, &zero}, {"And now?", 4, &zero}},
			Iterations: 4, WarmupIterations: 1, Timeout: seconds(300),
		}},
		System:     SystemConfig{CoolDownSeconds: &zero},
		Experiment: PlanConfig{Rounds: rounds, Pilot: &none, Seed: 7},
	}
}

// nothingLeft fails when something that an engine started is still there.
func (l *lab) nothingLeft(within time.Duration) {
	l.t.Helper()
	end := time.Now().Add(within)
	for {
		left := marked(l.mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			l.t.Errorf("still running: %v", left)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// marked are the processes with the mark in their environment.
func marked(mark string) []string {
	var found []string
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err != nil || !strings.Contains(string(env), mark+"\x00") {
			continue
		}
		cmd, _ := os.ReadFile("/proc/" + d.Name() + "/cmdline")
		found = append(found, d.Name()+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
	}
	return found
}
