package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/simulate/simulatetest"
)

// slowEngine answers slowly enough for somebody's requests to be seen.
func slowEngine(t testing.TB) string {
	e := simulate.DefaultConfig()
	e.TTFT, e.ITL, e.Model = 5*time.Millisecond, 5*time.Millisecond, "sim"
	if err := e.Like("vllm"); err != nil {
		t.Fatal(err)
	}
	return simulatetest.Start(t, e).URL
}

// others ask the engine for so long as the function is not called.
func others(t testing.TB, url string, n int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, n)
	for range n {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				body := strings.NewReader(`{"model":"sim","stream":true,"max_tokens":100000,"messages":[{"role":"user","content":"hello"}]}`)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", body)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}()
	}
	return func() {
		cancel()
		for range n {
			<-done
		}
	}
}

// checkOptions are those of a node with a key of its own.
func checkOptions(t *testing.T) CheckOptions {
	t.Helper()
	s, err := openState(t.TempDir() + "/state")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	v := vault{state: s}
	id, err := v.create()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := v.open(id)
	if err != nil {
		t.Fatal(err)
	}
	node := ulid.Make().String()
	key, err := ledger.StateKey(t.Context(), signer.Public(), signer, ledger.KeyOptions{Node: node, Owner: "owner"})
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions(nil)
	return CheckOptions{Node: node, Signer: signer, Key: key, Child: o.Child, Supervisor: o.Supervisor, Env: o.Env}
}

// A check that began in quiet ends when others come.
func TestCheckYieldsToOthers(t *testing.T) {
	address := slowEngine(t)
	o := checkOptions(t)
	dir := filepath.Join(t.TempDir(), "run")
	stop := func() {}
	defer func() { stop() }()
	begun := false
	o.Progress = func(c assay.Checkpoint) {
		if c.Done > 0 && !begun {
			begun = true
			stop = others(t, address, 8)
		}
	}
	_, err := Check(t.Context(), CheckConfig{Engine: Engine{BaseURL: address}, GPU: GPUNone, Scenario: longScenario(), Background: true}, dir, o)
	if !errors.Is(err, ErrYield) {
		t.Fatalf("it did not give way: %v", err)
	}
	if _, err := journal.Open(dir); err != nil {
		t.Errorf("what it recorded cannot be read: %v", err)
	}
}

// A check leaves a signed run of the node, which verifies.
func TestCheckIsSigned(t *testing.T) {
	address := slowEngine(t)
	o := checkOptions(t)
	dir := filepath.Join(t.TempDir(), "run")
	res, err := Check(t.Context(), CheckConfig{Engine: Engine{BaseURL: address}, GPU: GPUNone, Scenario: shortScenario(), Busy: true, Streams: 1, Clock: Skew{Known: true}}, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ledger.VerifyRun(dir, ledger.VerifyOptions{Keys: ledger.NewKeyring(o.Key), Now: time.Now()})
	if err != nil || v.Run == nil || v.Run.Node != o.Node || v.Run.ID != res.Run {
		t.Fatalf("%+v %v", v.Run, err)
	}
	for _, p := range v.Problems {
		if p.Verdict == assay.Fail {
			t.Errorf("%s", p.Text)
		}
	}
	run, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c := run.Manifest().Client; c == nil || c.Nice < lightNice {
		t.Errorf("the client did not step back: %+v", c)
	}
	if len(res.Results) == 0 || res.Health == nil {
		t.Errorf("no results: %+v", res)
	}
}

// While the engine serves others a scheduled check waits; a check that the server
// asks for is made at once, with few streams.
func TestBusyEngine(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	address := slowEngine(t)
	stop := others(t, address, 3)
	stopped := false
	defer func() {
		if !stopped {
			stop()
		}
	}()
	c := testConfig(t, f.http.URL, address)
	c.Scenarios = append(c.Scenarios, assay.Scenario{Name: "levels", Pattern: "parallel", Levels: []int{1, 4}, Duration: assay.Duration(2 * time.Second), Grace: assay.Duration(time.Minute)})
	c.Scenario, c.Schedule = "levels", Schedule{Every: assay.Duration(time.Hour), OnStart: true}
	c.Budget = 1 // the server's check is not to be paid for here
	a := start(t, c, testOptions(testLog(t)))
	eventually(t, "it waits for quiet", func() bool {
		a.runner.mu.Lock()
		defer a.runner.mu.Unlock()
		return strings.Contains(a.runner.said, "serves nobody")
	})
	eventually(t, "the server hears of the requests", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.beats) > 0 && f.beats[len(f.beats)-1].Running == 3
	})
	id := f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the server's check is done", func() bool { _, done := f.outcome(id); return done })
	if got, _ := f.outcome(id); got.Outcome != api.AcknowledgementOutcomeDone {
		t.Fatalf("%+v %s", got, value(got.Detail))
	}
	eventually(t, "it is delivered", func() bool { n, _ := a.reports.count(); return n == 0 })
	if levels := f.levels(t); fmt.Sprint(levels) != "[1]" {
		t.Errorf("beside others it had %v streams", levels)
	}
	stop()
	stopped = true
}

// levels are those of the only run.
func (f *fake) levels(t *testing.T) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.reports {
		for _, file := range r.Files {
			if file.Name != journal.RunFile {
				continue
			}
			var m assay.Manifest
			var c hammer.Config
			if err := errors.Join(json.Unmarshal(f.objects[file.Sha256], &m), json.Unmarshal(m.Config, &c)); err != nil {
				t.Fatal(err)
			}
			return c.Load.Levels
		}
	}
	t.Fatal("no run")
	return nil
}

// A scheduled check is made when the engine has become quiet, and an engine that
// does not tell is not quiet.
func TestScheduledInQuiet(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	address := slowEngine(t)
	stop := others(t, address, 2)
	c := testConfig(t, f.http.URL, address)
	c.Schedule = Schedule{Every: assay.Duration(time.Hour), OnStart: true}
	a := start(t, c, testOptions(testLog(t)))
	eventually(t, "it waits for quiet", func() bool {
		a.runner.mu.Lock()
		defer a.runner.mu.Unlock()
		return strings.Contains(a.runner.said, "serves nobody")
	})
	f.mu.Lock()
	if len(f.statements) > 0 {
		t.Error("it checked while others were served")
	}
	f.mu.Unlock()
	stop()
	eventually(t, "the check is made", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.confirmed) == 1 })
	// It is paid for, also by an agent that starts again.
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	a = start(t, c, testOptions(testLog(t)))
	if at := a.runner.next(); time.Until(at) < time.Minute {
		t.Errorf("the next check after a restart is at %v", at)
	}
	if (Traffic{Up: true}).Quiet() {
		t.Error("an engine that does not tell is quiet")
	}
}
