package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
)

// CheckConfig says what a check of a node is to be.
type CheckConfig struct {
	Engine     Engine
	APIKey     string
	GPU        GPU
	Profile    *assay.Profile
	Scenario   assay.Scenario
	Busy       bool // the engine serves others, or nobody knows
	Streams    int  // at most so many while it is busy
	Beside     bool // others' requests run there, as it says, and nobody waits for the result: ask little
	Background bool // give way to others' requests
	Clock      Skew
	Begin      time.Time // of the load, by this machine's clock; zero: at once
	Command    string    // that asks for it; empty: nobody
}

// CheckOptions are what Check needs besides.
type CheckOptions struct {
	Node   string // its ULID
	Signer ledger.Signer
	Key    ledger.Key
	// Child is the command line of a program that reads an Order from its standard
	// input, calls Measure, and writes lines of a Line to its standard output. It
	// has no key, runs in a cgroup of its own where there is one, and can be killed.
	Child []string
	// Supervisor is for the child's tree (see internal/proc).
	Supervisor []string
	Env        []string
	Progress   func(assay.Checkpoint)
	Limit      time.Duration // of the whole; 0: an hour
	Grace      time.Duration // from being told to stop to being killed; 0: 3 s
}

// Line is what the child says, a JSON object a line.
type Line struct {
	Checkpoint *assay.Checkpoint `json:"checkpoint,omitempty"`
	Done       bool              `json:"done,omitempty"`
	Error      string            `json:"error,omitempty"`
	Yielded    bool              `json:"yielded,omitempty"`
}

// CheckResult is what a check left: a run directory, signed.
type CheckResult struct {
	Run     string // the run's id
	Status  assay.Status
	Health  *assay.Health // nil: the run has none
	Results []ledger.Result
	Records []ledger.Record
	Took    time.Duration
}

// lightNice is how far a check steps back that runs beside real traffic.
const lightNice = 10

// Check verifies and measures a node in a process of its own, into dir, and signs
// what came of it. A run that was interrupted is not signed: the check is made
// again, and dir is for the caller to remove.
func Check(ctx context.Context, c CheckConfig, dir string, o CheckOptions) (CheckResult, error) {
	began := time.Now()
	order, err := c.order(dir, o)
	if err != nil {
		return CheckResult{}, err
	}
	if err := ledger.CheckSigner(o.Signer, o.Key, o.Node, began); err != nil {
		return CheckResult{}, err
	}
	err = runChild(ctx, order, o)
	res := CheckResult{Took: time.Since(began)}
	if err != nil {
		return res, err
	}
	return finish(ctx, dir, res, o)
}

// finish signs a run that was recorded to its end.
func finish(ctx context.Context, dir string, res CheckResult, o CheckOptions) (CheckResult, error) {
	run, err := journal.Open(dir)
	if err != nil {
		return res, err
	}
	m := run.Manifest()
	sum, err := run.Summary()
	if err != nil {
		return res, fmt.Errorf("the check left no summary: %w", err)
	}
	res.Run, res.Status, res.Results = m.ID, sum.Status, ledger.Results(*sum)
	if h, err := run.Health(); err == nil {
		res.Health = h
	} else if !errors.Is(err, fs.ErrNotExist) {
		return res, err
	}
	// What was measured is signed, also when somebody is in a hurry.
	res.Records, err = ledger.SignRun(context.WithoutCancel(ctx), dir, o.Signer, o.Key, ledger.SignOptions{})
	return res, err
}

// order makes the configuration of the measurement.
func (c CheckConfig) order(dir string, o CheckOptions) (Order, error) {
	cfg := hammer.DefaultConfig()
	cfg.URL, cfg.Backend, cfg.Model = c.Engine.BaseURL, c.Engine.Backend, c.Engine.Model
	if c.Profile != nil {
		cfg.SetProfile(*c.Profile)
	}
	scenario := c.Scenario
	if c.Busy {
		scenario = lighter(scenario, c.Streams)
	}
	if err := cfg.Apply(scenario); err != nil {
		return Order{}, err
	}
	if c.Beside {
		unnoticed(&cfg, c.Streams)
	}
	limit := o.Limit
	if limit <= 0 {
		limit = time.Hour
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return Order{}, err
	}
	order := Order{
		Node: o.Node, Replica: c.Engine.Name, Dir: absolute, Config: cfg, APIKey: c.APIKey, GPU: c.GPU, Yield: c.Background, Light: c.Busy,
		Limit: assay.Duration(limit), Clock: c.Clock,
	}
	if !c.Begin.IsZero() {
		order.Begin = c.Begin.UnixNano()
	}
	if c.Busy {
		order.Nice = lightNice
	}
	if c.Command != "" {
		order.Nonce, order.Challenge = ledger.Challenge(c.Command)
	}
	return order, nil
}

// What a check asks beside others' requests: a short one now and then. One stream
// whose requests follow each other keeps an engine at their prefills for one moment
// in fifty, and whoever comes then waits: a p99 is made of such.
const (
	besideRate   = 0.5 // a second
	besideInput  = 64  // tokens
	besideOutput = 16
	besideTime   = assay.Duration(time.Minute)
)

// unnoticed makes the load one that nobody notices. Its figures are those of its own
// load, and are compared with no other's.
func unnoticed(c *hammer.Config, streams int) {
	lasts := besideTime
	if s := c.Scenario.Duration; s > 0 {
		lasts = min(lasts, s)
	}
	c.Load = hammer.Load{Mode: hammer.ModeOpen, Rate: besideRate, Concurrency: max(1, streams), Duration: lasts, Grace: c.Load.Grace, Warmups: 1}
	c.Data.InputTokens, c.Data.OutputTokens = min(c.Data.InputTokens, besideInput), min(c.Data.OutputTokens, besideOutput)
	c.Scenario = nil
}

// lighter is the scenario with so many streams at most, and nothing that looks for
// the engine's limit.
func lighter(s assay.Scenario, streams int) assay.Scenario {
	streams = max(1, streams)
	switch s.Pattern {
	case "saturation", "sustained":
		return assay.Scenario{Name: s.Name, Pattern: "parallel", Levels: []int{streams}, Duration: min(s.Duration, assay.Duration(time.Minute)), Grace: s.Grace}
	case "batch":
		s.BatchSizes = capped(s.BatchSizes, streams)
	case "parallel":
		if len(s.Levels) == 0 {
			s.Levels = []int{1, s.MaxConcurrency}
		}
		s.Levels, s.MaxConcurrency = capped(s.Levels, streams), streams
	}
	return s
}

func capped(levels []int, most int) []int {
	var out []int
	for _, n := range levels {
		if n = min(max(1, n), most); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// maxLine bounds a line of the child.
const maxLine = 1 << 20

// runChild has the order carried out, and ends the child when ctx does.
func runChild(ctx context.Context, order Order, o CheckOptions) error {
	in, err := json.Marshal(order)
	if err != nil {
		return err
	}
	grace := o.Grace
	if grace <= 0 {
		grace = 3 * time.Second
	}
	out := &lines{progress: o.Progress}
	p, err := proc.Start(proc.Spec{
		Command: o.Child, Supervisor: o.Supervisor, Env: o.Env, Stdin: bytes.NewReader(append(in, '\n')), Stdout: out,
		LogHead: 64 << 10, LogTail: 64 << 10, Grace: grace,
		// A driver names processes by the ids of the machine.
		Avoid: proc.PIDNamespace,
	})
	if err != nil {
		return fmt.Errorf("start the check: %w", err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		// Whoever said stop wants it at once: what is under way is not waited for.
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		p.Stop(stop)
		return errors.Join(ErrStopped, context.Cause(ctx))
	}
	exit := p.Wait()
	last := out.result()
	switch {
	case last.Yielded:
		return ErrYield
	case last.Error != "":
		return errors.New(foreign.Line(last.Error, 4<<10))
	case !last.Done:
		return fmt.Errorf("the check's process ended early: %s", foreign.Line(exit.String()+" "+exit.LogTail, 2<<10))
	}
	return nil
}

// lines takes what the child writes.
type lines struct {
	progress func(assay.Checkpoint)

	mu   sync.Mutex
	buf  []byte
	last Line
	skip bool // within a line that is too long
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if len(l.buf)+len(line) > maxLine {
			l.buf, l.skip = l.buf[:0], true
		}
		if !l.skip {
			l.buf = append(l.buf, line...)
		}
		b = rest
		if !whole {
			break
		}
		if !l.skip {
			l.line()
		}
		l.buf, l.skip = l.buf[:0], false
	}
	return n, nil
}

func (l *lines) line() {
	var x Line
	if json.Unmarshal(l.buf, &x) != nil {
		return // it is nothing of ours
	}
	if x.Checkpoint != nil && l.progress != nil {
		l.progress(*x.Checkpoint)
	}
	if x.Done || x.Error != "" {
		l.last = x
	}
}

func (l *lines) result() Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// removeRun deletes a run's directory.
func removeRun(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the run %s: %w", dir, err)
	}
	return nil
}
