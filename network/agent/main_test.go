package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/simulate/simulatetest"
)

// The test's own program is also the supervisor, the process of a check, and an
// agent that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			os.Exit(proc.Supervise())
		case "agent-check":
			os.Exit(measureOnce())
		case "agent":
			os.Exit(agentProcess())
		}
	}
	os.Exit(m.Run())
}

func measureOnce() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var o Order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return 1
	}
	say := json.NewEncoder(os.Stdout)
	_, err := Measure(ctx, o, MeasureOptions{Version: assay.Version{Assay: "test"}, Progress: func(c assay.Checkpoint) { say.Encode(Line{Checkpoint: &c}) }})
	l := Line{Done: err == nil, Yielded: errors.Is(err, ErrYield)}
	if err != nil {
		l.Error = err.Error()
	}
	say.Encode(l)
	return 0
}

// agentProcess is an agent as a process of its own; its configuration is an
// argument.
func agentProcess() int {
	var c Config
	if err := json.Unmarshal([]byte(os.Args[2]), &c); err != nil {
		fmt.Println(err)
		return 1
	}
	o := testOptions(nil)
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	a, err := Open(c, o)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := errors.Join(a.Run(ctx), a.Close()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func testOptions(log *slog.Logger) Options {
	return Options{
		Version: assay.Version{Assay: "test"}, Log: log, EnrolToken: func() (string, error) { return goodToken, nil },
		Child: []string{os.Args[0], "agent-check"}, Supervisor: []string{os.Args[0], "supervise"}, Env: os.Environ(),
		Spread: 60 * time.Millisecond, Look: 50 * time.Millisecond, Tend: 50 * time.Millisecond, Heartbeat: 30 * time.Millisecond,
	}
}

// shortScenario is a check of a second.
func shortScenario() assay.Scenario {
	return assay.Scenario{Name: "short", Pattern: "sequential", Requests: 5, Duration: assay.Duration(20 * time.Second), Grace: assay.Duration(time.Second)}
}

// longScenario does not end within a test by itself.
func longScenario() assay.Scenario {
	return assay.Scenario{Name: "long", Pattern: "parallel", Levels: []int{2}, Duration: assay.Duration(5 * time.Minute), Grace: assay.Duration(time.Second)}
}

func testConfig(t testing.TB, server, engine string) Config {
	c := DefaultConfig()
	c.Server.URL, c.Engine.BaseURL, c.GPU = server, engine, GPUNone
	c.State = t.TempDir() + "/state"
	c.Scenario, c.Scenarios = "short", []assay.Scenario{shortScenario(), longScenario()}
	c.Schedule.OnStart = false
	return c
}

func engine(t testing.TB) string {
	e := simulate.DefaultConfig()
	e.TTFT, e.ITL = 2*time.Millisecond, time.Millisecond
	if err := e.Like("vllm"); err != nil { // with its metrics
		t.Fatal(err)
	}
	return simulatetest.Start(t, e).URL
}

// running is an agent in this process.
type running struct {
	*Agent
	stop func() error
}

func start(t testing.TB, c Config, o Options) running {
	t.Helper()
	a, err := Open(c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-done, a.Close())
	})
	t.Cleanup(func() { stop() })
	return running{a, stop}
}

// eventually waits until something holds; the limit is only there to end.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to pass: %s", what)
		}
	}
}

// order has the server ask for something.
func (f *fake) order(kind api.CommandKind, holds time.Duration) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := api.Command{Id: ulid.Make().String(), Kind: kind, Created: f.now(), Expires: f.now().Add(holds)}
	f.commands = append(f.commands, c)
	return c.Id
}

// outcome is the last that the agent told of a command.
func (f *fake) outcome(id string) (api.Acknowledgement, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.acks[id]
	if len(a) == 0 {
		return api.Acknowledgement{}, false
	}
	return a[len(a)-1], a[len(a)-1].Outcome != api.AcknowledgementOutcomeStarted
}
