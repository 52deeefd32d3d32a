package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/journal"
)

func TestExperiment(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	l := newLab(t)
	fast, slow := l.engine("fast", ""), l.engine("slow", "env; exec %s", "--ttft", "40ms")
	slow.PassEnv = []string{"PASSED"}
	off := l.engine("off", "")
	off.Enabled = new(bool)
	key, value, _ := strings.Cut(l.mark, "=")
	bin := EngineConfig{Name: "bin", BinaryPath: "../../examples/benchmark-binary/bench.py", Env: map[string]string{key: value}}
	c := quick(0, fast, slow, off, bin)
	c.Workloads = append(c.Workloads, WorkloadConfig{Name: "random", InputLen: 20, OutputLen: 6, Iterations: 3, Concurrency: 2, Timeout: seconds(300)})
	two := 2
	c.Experiment.Pilot, c.Experiment.MaxRounds = &two, 1
	c.Analysis.SLO = []string{"ttft_p50<200ms"}
	c.Analysis.OutlierThreshold = 2
	l.opt.Command = []string{"assay", "compare", "f.yaml"}
	e, err := Run(t.Context(), c, l.dir, l.opt)
	if err != nil {
		t.Fatal(err)
	}
	l.nothingLeft(0)
	if e.Status != assay.StatusComplete || len(e.Engines) != 3 || e.Plan.Rounds != 1 || e.Plan.Needed < 10 || !(e.Plan.PilotSD > 0) {
		t.Errorf("status %s, engines %+v, plan %+v", e.Status, e.Engines, e.Plan)
	}
	if n := len(e.Samples); n != (2+1)*3*2 {
		t.Fatalf("%d samples", n)
	}
	for _, s := range e.Samples {
		if s.Failed != "" {
			t.Fatalf("%s %s round %d failed: %s", s.Engine, s.Workload, s.Round, s.Failed)
		}
		requests, cases, texts := 8, 2, 2
		if s.Workload == "random" {
			requests, cases, texts = 3, 1, 0
		}
		if s.OK != requests || s.Requests != requests || len(s.Latencies) != requests || s.Cases != cases || len(s.Texts) != texts {
			t.Errorf("%s %s: %d of %d, %d latencies, %d cases, texts %v", s.Engine, s.Workload, s.OK, s.Requests, len(s.Latencies), s.Cases, s.Texts)
		}
		for _, m := range []string{"ttft_ms_p50", "tpot_ms_p50", "e2e_ms_mean", "e2e_ms_p99", "output_tokens_per_second", "error_rate", "memory_peak_bytes"} {
			// Where all tokens came at once there is no time between them: of three
			// short answers on a busy machine that can be all.
			atOnce := m == "tpot_ms_p50" && s.Metrics["ttft_ms_p50"] == s.Metrics["e2e_ms_p50"]
			if _, ok := s.Metrics[m]; !ok && !atOnce {
				t.Errorf("%s %s has no %s: %v", s.Engine, s.Workload, m, s.Metrics)
			}
		}
		if s.Engine == "slow" && s.Metrics["ttft_ms_p50"] < 40 || s.Engine == "fast" && s.Metrics["ttft_ms_p50"] < 5 {
			t.Errorf("%s: a first token after %g ms", s.Engine, s.Metrics["ttft_ms_p50"])
		}
		if (s.Client == assay.NoClient) != (s.Engine == "bin") {
			t.Errorf("%s: client %s", s.Engine, s.Client)
		}
		if _, err := journal.Open(filepath.Join(l.dir, s.Dir)); err != nil {
			t.Error(err)
		}
	}
	for _, s := range e.Samples {
		m := s.Series[compare.SeriesMemory]
		if len(m.At) == 0 || slices.Max(m.Values) > s.Metrics["memory_peak_bytes"] || m.At[len(m.At)-1] < 0 {
			t.Errorf("%s %s: memory over time %+v, peak %g", s.Engine, s.Workload, m, s.Metrics["memory_peak_bytes"])
		}
		// A binary may be over before perf has found its threads, and that is noted.
		notes := strings.Join(e.Notes, "; ")
		if len(s.Counters) == 0 && !strings.Contains(notes, "hardware counters were not read: ") && !strings.Contains(notes, "the counters of some runs of "+s.Engine+" were not read: ") {
			t.Errorf("%s %s has no counters, and nothing says why: %q", s.Engine, s.Workload, e.Notes)
		}
	}
	t.Logf("counters of one run: %v; notes %q", e.Samples[0].Counters, e.Notes)
	if !strings.Contains(strings.Join(e.Notes, "; "), "outlier_threshold: 2 removes nothing") {
		t.Errorf("nothing answers outlier_threshold: %q", e.Notes)
	}
	if len(e.Loads) != 2 || e.Loads[0].Concurrency != 1 || e.Loads[1].Concurrency != 2 || e.Loads[0].Work == e.Loads[1].Work || len(e.Command) != 3 {
		t.Errorf("loads %+v, command %q", e.Loads, e.Command)
	}
	// Every engine once a round, in the order of the seed.
	var got, want []string
	for _, s := range e.Samples {
		if s.Workload == "short" {
			got = append(got, s.Engine)
		}
	}
	for _, i := range slices.Concat(order(7, 0, 0, 3), order(7, 0, 1, 3), order(7, 1, 0, 3)) {
		want = append(want, e.Engines[i].Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
	for _, r := range e.Engines {
		if r.Isolation == "" || r.Lock["command_sha256"] == "" || r.Kind != "binary" && (r.Lock["version"] == "" || r.Lock["model_served"] != "sim:latest") {
			t.Errorf("%+v", r)
		}
	}
	read, err := compare.ReadExperiment(l.dir)
	if err != nil || len(read.Samples) != len(e.Samples) || read.ID != e.ID || read.Status != e.Status {
		t.Errorf("on disk: %v, %d samples, %s", err, len(read.Samples), read.Status)
	}
	if said := l.said.String(); !strings.Contains(said, "plan: 1 rounds") || !strings.Contains(said, "round 1 of 1: fast") {
		t.Error(said)
	}
	for file, want := range map[string]string{"benchmark.log": "fast: ready at", "system_metrics.log": " core_ratios="} {
		if b, err := os.ReadFile(filepath.Join(l.dir, "logs", file)); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %v\n%s", file, err, b)
		}
	}
	keepsSchemas(t, l.dir)
	env, err := os.ReadFile(filepath.Join(l.dir, "runs", "slow", "r01.log"))
	if err != nil || !strings.Contains(string(env), "PASSED=passed\n") || !strings.Contains(string(env), "TMPDIR=") || strings.Contains(string(env), "SECRET") {
		t.Errorf("its environment (%v):\n%s", err, env)
	}
	if _, err := Run(t.Context(), c, l.dir, l.opt); !errors.Is(err, ErrExists) {
		t.Errorf("a second one in the same place: %v", err)
	}
	if again, err := Resume(t.Context(), l.dir, l.opt); err != nil || len(again.Samples) != len(e.Samples) {
		t.Errorf("resuming what is complete: %v", err)
	}
	locked(t, l, c, slow)
}

// keepsSchemas: what is made of a benchmark binary's lines is a run like any other.
func keepsSchemas(t *testing.T, dir string) {
	t.Helper()
	run := filepath.Join(dir, "runs", "bin", "r01-short")
	for file, name := range map[string]string{
		filepath.Join(dir, compare.ExperimentFile): "experiment", filepath.Join(run, journal.RunFile): "run", filepath.Join(run, journal.RequestsFile): "request",
		filepath.Join(run, journal.TelemetryFile): "reading", filepath.Join(run, journal.EventsFile): "event",
		filepath.Join(run, journal.CheckpointFile): "checkpoint", filepath.Join(run, journal.SummaryFile): "summary",
	} {
		schema := schemaOf(t, name+".schema.json")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		docs := [][]byte{b}
		if strings.HasSuffix(file, ".jsonl") {
			docs = bytes.Split(bytes.TrimSpace(b), []byte("\n"))
		}
		for _, d := range docs {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(d))
			if err != nil {
				t.Errorf("%s: %v", file, err)
			} else if err := schema.Validate(doc); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	rd, err := journal.Open(run)
	if err != nil || rd.Status() != assay.StatusComplete || len(rd.Torn()) > 0 {
		t.Errorf("%s: %v", run, err)
	}
}

// locked: a later experiment is compared with what an earlier one ran with.
func locked(t *testing.T, l *lab, c Config, slow EngineConfig) {
	t.Helper()
	locks, err := compare.ReadLocks(filepath.Join(l.dir, compare.ExperimentFile))
	if err != nil {
		t.Fatal(err)
	}
	zero := 0
	c.Workloads, c.Experiment.Pilot, c.Experiment.Rounds = c.Workloads[:1], &zero, 1
	l.opt.Locked = locks
	c.Engines = []EngineConfig{slow}
	if _, err := Run(t.Context(), c, t.TempDir(), l.opt); err != nil {
		t.Errorf("the same engine: %v", err)
	}
	c.Engines = []EngineConfig{l.engine("slow", "env; exec %s", "--ttft", "30ms")}
	if _, err := Run(t.Context(), c, t.TempDir(), l.opt); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "30ms") {
		t.Errorf("another flag: %v", err)
	}
	locks["slow"]["version"] = "0.0.1"
	c.Engines = []EngineConfig{slow}
	if _, err := Run(t.Context(), c, t.TempDir(), l.opt); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "version") {
		t.Errorf("another version: %v", err)
	}
	l.nothingLeft(0)
}

// Engines at their worst: each fails for itself, leaves nothing, and the one after
// it is measured as if it had not been.
func TestNastyEngines(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	l := newLab(t)
	daemon := `python3 -c '
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        time.sleep(300)
    os._exit(0)
os.wait()'
exec %s`
	garbage := filepath.Join(t.TempDir(), "garbage")
	parttest.Program(t, garbage, []byte("\x00 is no program\n"))
	c := quick(2,
		l.engine("forks", `sleep 300 & (sleep 300 & sleep 300) & exec %s`),
		l.engine("daemonises", daemon),
		l.engine("deaf", `trap "" TERM INT HUP; %s & while :; do sleep 1; done`),
		l.engine("chatty", `yes endless & exec %s`),
		l.engine("hungry", `exec python3 -c 'b = bytearray(600<<20); import time; time.sleep(300)'`),
		l.engine("stillborn", `echo no such GPU >&2; exit 3`),
		l.engine("mortal", `(sleep 1.2; echo oh no >&2; kill -9 $$) & exec %s --ttft 300ms`),
		l.engine("late", `echo still loading; sleep 300`),
		EngineConfig{Name: "garbage", Serve: &ServeConfig{Command: []string{garbage, "{port}"}}},
	)
	c.Engines[7].Serve.ReadyTimeout = seconds(0.5)
	c.System.MaxMemoryGB = 0.4
	e, err := Run(t.Context(), c, l.dir, l.opt)
	if err != nil {
		t.Fatal(err)
	}
	l.nothingLeft(0)
	if e.Status != assay.StatusComplete {
		t.Errorf("status %s", e.Status)
	}
	outcomes := map[string]struct {
		samples int
		failed  string // in Failed
		tail    string
	}{
		"forks": {2, "", ""}, "daemonises": {2, "", ""}, "deaf": {2, "", ""}, "chatty": {2, "", ""},
		"hungry":    {2, "memory limit", ""},
		"stillborn": {2, "exited with code 3", "no such GPU"},
		"mortal":    {2, "it ended in the middle of the workload: it ended by SIGKILL", "oh no"},
		"late":      {2, "it was not ready within 500ms: Get", "still loading"},
		"garbage":   {2, "could not be started", ""},
	}
	for _, r := range e.Engines {
		want := outcomes[r.Name]
		n := 0
		for _, s := range e.Samples {
			if s.Engine != r.Name {
				continue
			}
			n++
			if (s.Failed != "") != (want.failed != "") || !strings.Contains(s.Failed, want.failed) {
				t.Errorf("%s: failed %q, want %q", r.Name, s.Failed, want.failed)
			}
			if s.Failed == "" && s.OK != 8 {
				t.Errorf("%s: %d requests succeeded", r.Name, s.OK)
			}
		}
		if n != want.samples || (r.Failed != "") != (want.failed != "") || !strings.Contains(r.LogTail, want.tail) {
			t.Errorf("%s: %d samples, out %q, log ends %q", r.Name, n, r.Failed, r.LogTail)
		}
	}
	logs, err := filepath.Glob(filepath.Join(l.dir, "runs", "chatty", "*.log"))
	if err != nil || len(logs) != 2 {
		t.Fatalf("%v: %v", logs, err)
	}
	for _, f := range logs {
		if info, err := os.Stat(f); err != nil || info.Size() > 3<<20 {
			t.Errorf("%s: %d bytes (%v)", f, info.Size(), err)
		}
	}
}

func TestTooSlowForItsTimeout(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := quick(1, l.engine("slow", "", "--ttft", "5s"))
	c.Workloads[0].Timeout = seconds(0.5)
	e, err := Run(t.Context(), c, l.dir, l.opt)
	if err != nil {
		t.Fatal(err)
	}
	l.nothingLeft(0)
	if s := e.Samples; len(s) != 1 || s[0].Failed != "the workload took longer than its timeout of 500ms" {
		t.Errorf("%+v", s)
	}
}

// What is wrong on our side ends the experiment, and is no engine's failure.
func TestOurOwnFailure(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if err := os.MkdirAll(filepath.Join(l.dir, "workloads", "short.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := Run(t.Context(), quick(1, l.engine("a", "")), l.dir, l.opt)
	if err == nil || len(e.Samples) != 0 || e.Status != assay.StatusPartial {
		t.Errorf("%v, %+v", err, e.Samples)
	}
	c := quick(1, l.engine("a", ""))
	l.opt.Supervisor = []string{"/bin/false"}
	if e, err := Run(t.Context(), c, t.TempDir(), l.opt); !errors.Is(err, proc.ErrSupervisor) || len(e.Samples) != 0 {
		t.Errorf("without a supervisor: %v, %+v", err, e.Samples)
	}
}

func TestEveryEngineFails(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	e, err := Run(t.Context(), quick(5, l.engine("a", "exit 1"), l.engine("b", "exit 2")), l.dir, l.opt)
	if !errors.Is(err, ErrAllFailed) || !strings.Contains(err.Error(), "code 2") {
		t.Errorf("%v", err)
	}
	if e.Status != assay.StatusPartial || len(e.Samples) != 4 {
		t.Errorf("%s, %d samples", e.Status, len(e.Samples))
	}
}

func TestURLEngineIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	port, err := portFor(0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self(t), "as-engine", "--port", strconv.Itoa(port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	// The second one wants the port that the first one has: it must not be taken for it.
	taken := l.engine("taken", "")
	taken.Serve.Port = port
	for range 100 {
		if _, err := portFor(port); err != nil {
			break // it listens
		}
		time.Sleep(20 * time.Millisecond)
	}
	e, err := Run(t.Context(), quick(2, EngineConfig{Name: "running", URL: "http://127.0.0.1:" + strconv.Itoa(port)}, taken), l.dir, l.opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range e.Samples {
		if _, has := s.Metrics["memory_peak_bytes"]; has || (s.Engine == "running") != (s.Failed == "") || s.Engine == "taken" && !strings.Contains(s.Failed, "taken by another process") {
			t.Errorf("%s: failed %q, %v", s.Engine, s.Failed, s.Metrics)
		}
	}
	if cmd.Process.Signal(syscall.Signal(0)) != nil {
		t.Error("the engine that was running is gone")
	}
}

// Killed with no chance to clean up: nothing is left, and Resume completes it.
func TestKilledAndResumed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := quick(3,
		l.engine("a", `sleep 300 & trap "" TERM; %s --ttft 20ms`),
		l.engine("b", `(setsid sleep 300 &) ; exec %s --ttft 20ms`))
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self(t), "as-experiment", string(config), l.dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// In the middle of a run, after two that were completed.
	var before compare.Experiment
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		runs, _ := filepath.Glob(filepath.Join(l.dir, "runs", "*", "r*-short", journal.RunFile))
		if before, _ = compare.ReadExperiment(l.dir); len(before.Samples) >= 2 && len(runs) > len(before.Samples) && len(marked(l.mark)) > 2 {
			break
		}
		if time.Now().After(end) {
			_, _ = cmd.Process.Kill(), cmd.Wait()
			t.Fatalf("%d samples after two minutes", len(before.Samples))
		}
	}
	if _, err := Resume(t.Context(), l.dir, l.opt); !errors.Is(err, ErrBusy) {
		t.Errorf("resuming what runs: %v", err)
	}
	_, _ = cmd.Process.Kill(), cmd.Wait()
	l.nothingLeft(2 * time.Minute)
	before, err = compare.ReadExperiment(l.dir)
	if err != nil || before.Status != assay.StatusPartial || len(before.Samples) == 6 {
		t.Fatalf("after the kill: %v, %s, %d samples", err, before.Status, len(before.Samples))
	}
	e, err := Resume(t.Context(), l.dir, l.opt)
	if err != nil {
		t.Fatal(err)
	}
	l.nothingLeft(0)
	if e.Status != assay.StatusComplete || len(e.Samples) != 6 || e.ID != before.ID || e.ConfigSHA256 != before.ConfigSHA256 {
		t.Errorf("%s, %d samples", e.Status, len(e.Samples))
	}
	if d := cmp.Diff(before.Plan, e.Plan); d != "" {
		t.Errorf("another plan: %s", d)
	}
	for _, s := range before.Samples {
		i := slices.IndexFunc(e.Samples, func(o compare.Sample) bool { return o.Engine == s.Engine && o.Round == s.Round })
		if i < 0 || e.Samples[i].Started != s.Started {
			t.Errorf("%s of round %d was done again", s.Engine, s.Round)
		}
	}
	for _, s := range e.Samples {
		if want := slices.Index(order(7, s.Round, 0, 2), slices.Index([]string{"a", "b"}, s.Engine)) + 1; s.Order != want || s.Failed != "" {
			t.Errorf("%s in round %d has place %d, want %d (failed %q)", s.Engine, s.Round, s.Order, want, s.Failed)
		}
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.opt.Progress = func(p Progress) {
		if p.Round == 2 {
			cancel()
		}
	}
	// At the second start its run takes so long that it is surely interrupted, by
	// many requests: the one that is under way is waited for.
	starts := filepath.Join(t.TempDir(), "starts")
	c := quick(3, l.engine("a", `echo >>`+starts+`; if [ "$(wc -l <`+starts+`)" -eq 2 ]; then exec %s --ttft 500ms; fi; exec %s`))
	c.Workloads[0].Iterations = 40
	e, err := Run(ctx, c, l.dir, l.opt)
	if !errors.Is(err, ErrInterrupted) || e.Status != assay.StatusPartial || len(e.Samples) != 1 {
		t.Fatalf("%v, %s, %d samples", err, e.Status, len(e.Samples))
	}
	l.nothingLeft(0)
	l.opt.Progress = nil
	if e, err = Resume(t.Context(), l.dir, l.opt); err != nil || len(e.Samples) != 3 || e.Status != assay.StatusComplete {
		t.Errorf("resumed: %v, %d samples", err, len(e.Samples))
	}
}

// Nine rounds are on record and show a difference; the tenth is run, and the look
// after it ends the experiment.
func TestStopsAtAPlannedLook(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := quick(0, l.engine("a", ""), l.engine("b", "", "--ttft", "60ms"))
	two := 2
	c.Experiment.Looks, c.Experiment.Pilot = 2, &two // the plan stands: no pilot is made again
	c.fill()
	config, hash, err := c.encoded()
	if err != nil {
		t.Fatal(err)
	}
	e := compare.Experiment{
		Format: compare.ExperimentFormat, ID: "x", Config: config, ConfigSHA256: hash, Workloads: []string{"short"}, Paired: true, Status: assay.StatusPartial,
		Engines: []compare.Engine{{Name: "a", Lock: map[string]string{}}, {Name: "b", Lock: map[string]string{}}},
		Plan:    compare.Plan{Seed: 7, Primary: "e2e_ms_mean", Effect: 0.05, Level: 0.05, Power: 0.9, Rounds: 20, Looks: 2, Tests: 9, Test: "signed_rank", Adjust: "holm"},
	}
	for round := 1; round <= 9; round++ {
		for i, name := range []string{"a", "b"} {
			m := map[string]float64{"e2e_ms_mean": 12 + 60*float64(i) + 0.01*float64(round)}
			e.Samples = append(e.Samples, compare.Sample{Engine: name, Workload: "short", Round: round, Order: 1 + slices.Index(order(7, round, 0, 2), i),
				Metrics: m, Requests: 8, OK: 8, OutputTokens: 6, InputTokens: 4, Client: assay.Certified})
		}
	}
	if err := compare.WriteExperiment(l.dir, e); err != nil {
		t.Fatal(err)
	}
	got, err := Resume(t.Context(), l.dir, l.opt)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != assay.StatusComplete || len(got.Samples) != 20 || !strings.Contains(strings.Join(got.Notes, "; "), "stopped after 10 of 20 rounds: a planned look") {
		t.Errorf("%s, %d samples, notes %q", got.Status, len(got.Samples), got.Notes)
	}
}
