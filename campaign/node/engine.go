package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// ErrEngine says that the engine does not answer after its one restart, or that
// the model is not served: the cell fails.
var ErrEngine = errors.New("the engine does not serve")

// Engine is one that can be started on a rented machine.
type Engine string

// The engines that the list of commands knows.
const (
	Ollama Engine = "ollama"
	VLLM   Engine = "vllm"
)

// Known reports whether there are commands for the engine.
func (e Engine) Known() bool { return e == Ollama || e == VLLM }

func (e Engine) port() string {
	if e == VLLM {
		return "8000"
	}
	return "11434"
}

// backend is hammer's name for the API that the engine is measured by.
func (e Engine) backend() string {
	if e == VLLM {
		return "openai"
	}
	return "ollama"
}

// EngineOptions are how long an engine may take.
type EngineOptions struct {
	Model string
	// InstallWithin is for its installer; 0: ten minutes.
	InstallWithin time.Duration
	// ReadyWithin is for the answer after a start; 0: one minute, and for vLLM, which
	// loads the model meanwhile, twenty.
	ReadyWithin time.Duration
	// PullWithin is for the model; 0: thirty minutes.
	PullWithin time.Duration
	// WarmWithin is for the first answer, which loads the model; 0: five minutes.
	WarmWithin time.Duration
	// Every is the time between two looks; 0: one second.
	Every time.Duration
}

func (o EngineOptions) resolved(e Engine) EngineOptions {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.InstallWithin, 10*time.Minute)
	ready := time.Minute
	if e == VLLM {
		ready = 20 * time.Minute
	}
	set(&o.ReadyWithin, ready)
	set(&o.PullWithin, 30*time.Minute)
	set(&o.WarmWithin, 5*time.Minute)
	set(&o.Every, time.Second)
	return o
}

// StartEngine installs the engine if it is not there, and starts it if it does not
// answer: once, and once more.
func (n *Node) StartEngine(ctx context.Context, e Engine, o EngineOptions) error {
	if !e.Known() {
		return fmt.Errorf("there are no commands for the engine %q on a rented machine; ollama and vllm have some", string(e))
	}
	o = o.resolved(e)
	w := words{"model": o.Model}
	if _, err := n.ask(ctx, call{command: string(e) + "-there"}); isExit(err) {
		if _, err := n.ask(ctx, call{command: string(e) + "-install", within: o.InstallWithin}); err != nil {
			return engineError("install "+string(e), err)
		}
	} else if err != nil {
		return err
	}
	if n.healthy(ctx, e) == nil {
		return nil
	}
	var err error
	for try := range 2 {
		if try > 0 {
			if _, err := n.ask(ctx, call{command: string(e) + "-stop"}); err != nil && !isExit(err) {
				return err
			}
		}
		if _, err = n.ask(ctx, call{command: string(e) + "-start", words: w}); err != nil {
			return engineError("start "+string(e), err)
		}
		if err = n.ready(ctx, e, o); err == nil || is(err, ErrLost, ErrHostile, context.Canceled) {
			return err
		}
	}
	return fmt.Errorf("%w: %s was restarted once: %w", ErrEngine, e, err)
}

func engineError(doing string, err error) error {
	if isExit(err) {
		return fmt.Errorf("%w: %s: %w", ErrEngine, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func (n *Node) healthy(ctx context.Context, e Engine) error {
	_, err := n.ask(ctx, call{command: string(e) + "-health"})
	return err
}

// ready waits until the engine answers.
func (n *Node) ready(ctx context.Context, e Engine, o EngineOptions) error {
	end := time.Now().Add(o.ReadyWithin)
	for {
		err := n.healthy(ctx, e)
		switch {
		case err == nil:
			return nil
		case !isExit(err):
			return err
		case time.Now().After(end):
			return fmt.Errorf("%s does not answer within %s: %w", e, o.ReadyWithin, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(o.Every):
		}
	}
}

// Loaded is what loading a model took.
type Loaded struct {
	Pull  time.Duration `json:"pull_ns"`  // until the model was on the machine
	First time.Duration `json:"first_ns"` // until it gave its first answer
	// UsedMiB is the GPUs' memory in use after that.
	UsedMiB int64 `json:"used_mib"`
}

// LoadModel brings the model to the machine, sees that it is listed, and has it
// answer once.
func (n *Node) LoadModel(ctx context.Context, e Engine, o EngineOptions) (Loaded, error) {
	o = o.resolved(e)
	var l Loaded
	begin := time.Now()
	if e == Ollama { // vLLM had it when it began to answer
		if _, err := n.ask(ctx, call{command: "ollama-pull", words: words{"model": o.Model}, within: o.PullWithin}); err != nil {
			return l, engineError("pull "+o.Model, err)
		}
	}
	l.Pull = time.Since(begin)
	out, err := n.ask(ctx, call{command: string(e) + "-list"})
	if err != nil {
		return l, engineError("list models", err)
	}
	if !listed(e, out, o.Model) {
		return l, fmt.Errorf("%w: %s does not list %s after the pull: %s", ErrEngine, e, o.Model, foreign.Line(out, 300))
	}
	begin = time.Now()
	w := words{"model": o.Model, "seconds": strconv.Itoa(max(1, int(o.WarmWithin.Seconds())))}
	if _, err := n.ask(ctx, call{command: string(e) + "-warm", words: w, within: o.WarmWithin + 10*time.Second}); err != nil {
		return l, engineError("the first answer of "+o.Model, err)
	}
	l.First = time.Since(begin)
	gpus, err := n.gpus(ctx)
	if err != nil {
		return l, err
	}
	l.UsedMiB = Machine{GPUs: gpus}.UsedMiB()
	return l, nil
}

// listed reports whether a model is among those that an engine lists. Ollama adds
// the tag "latest" to a name without one.
func listed(e Engine, out []byte, model string) bool {
	if e == VLLM {
		var models struct{ Data []struct{ ID string } }
		if json.Unmarshal(out, &models) != nil {
			return false
		}
		for _, m := range models.Data {
			if m.ID == model {
				return true
			}
		}
		return false
	}
	if !strings.Contains(model, ":") {
		model += ":latest"
	}
	for line := range bytes.Lines(out) {
		if f := strings.Fields(string(line)); len(f) > 0 && strings.EqualFold(f[0], model) {
			return true
		}
	}
	return false
}
