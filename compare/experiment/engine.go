package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/proc"
)

// failure is an engine that failed: it did not start, died, or answered nothing.
// It is a result, and the other engines go on.
type failure struct {
	why  string
	tail string // the end of its log
}

func (f *failure) Error() string { return f.why }

// target is an engine that answers, ours to stop or not.
type target struct {
	url    string
	apiKey string
	p      *proc.Process // nil: it was running before us
}

// environment is what an engine's processes get: what they need to find programs
// and their own files (PATH, HOME), what the configuration names, and nothing
// else of ours. fill replaces {port} and its like.
func (x *trial) environment(e EngineConfig, fill *strings.Replacer) []string {
	env := map[string]string{}
	pass := append([]string{"PATH", "HOME"}, e.PassEnv...)
	sets := []map[string]string{e.Env}
	if e.Serve != nil {
		pass = append(pass, e.Serve.PassEnv...)
		sets = append(sets, e.Serve.Env)
	}
	for _, name := range pass {
		if v, ok := lookup(x.opt.Environ, name); ok {
			env[name] = v
		}
	}
	if d := x.cfg.System.GPUDevice; d != nil {
		env["CUDA_VISIBLE_DEVICES"] = strconv.Itoa(*d)
	}
	for _, set := range sets {
		for k, v := range set {
			env[k] = fill.Replace(v)
		}
	}
	var out []string
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

func lookup(environ []string, name string) (string, bool) {
	for _, kv := range slices.Backward(environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// fills replaces what a command may leave open.
func (x *trial) fills(e EngineConfig, port int) *strings.Replacer {
	return strings.NewReplacer("{port}", strconv.Itoa(port), "{model}", e.model(), "{model_path}", x.modelPath(e))
}

func (x *trial) modelPath(e EngineConfig) string {
	if e.ModelPath != "" {
		return e.ModelPath
	}
	return x.cfg.Benchmark.ModelPath
}

// spec is what all processes of engines have in common.
func (x *trial) spec(e EngineConfig, logFile string, fill *strings.Replacer) proc.Spec {
	return proc.Spec{
		Env: x.environment(e, fill), Supervisor: x.opt.Supervisor,
		LogFile: logFile, CPUs: x.cfg.System.CPUAffinity,
		MemoryBytes: int64(x.cfg.System.MaxMemoryGB * (1 << 30)),
	}
}

// start has an engine answer.
func (x *trial) start(ctx context.Context, e EngineConfig, logFile string) (*target, error) {
	t := &target{url: e.URL}
	if e.APIKeyEnv != "" {
		key, ok := lookup(x.opt.Environ, e.APIKeyEnv)
		if !ok {
			return nil, fmt.Errorf("engine %s: its API key should be in %s, which is not set", e.Name, e.APIKeyEnv)
		}
		t.apiKey = key
	}
	if e.Serve == nil {
		return t, nil
	}
	s := e.Serve
	port, err := portFor(s.Port)
	if err != nil {
		return nil, &failure{why: err.Error()}
	}
	t.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	fill := x.fills(e, port)
	spec := x.spec(e, logFile, fill)
	spec.Dir, spec.Grace = s.Dir, time.Duration(s.Grace)
	for _, a := range s.Command {
		spec.Command = append(spec.Command, fill.Replace(a))
	}
	x.log.linef("%s: starting %q", e.Name, spec.Command)
	if t.p, err = proc.Start(spec); err != nil {
		if errors.Is(err, proc.ErrSupervisor) {
			return nil, err // ours, not the engine's
		}
		return nil, &failure{why: "it could not be started: " + err.Error()}
	}
	x.isolated(e.Name, t.p.Isolation().String())
	x.mon.follow(e.Name, t.p)
	began := time.Now()
	ready, cancel := context.WithTimeoutCause(ctx, time.Duration(s.ReadyTimeout), errNotReady)
	defer cancel()
	var last error
	err = t.p.Await(ready, func(ctx context.Context) error {
		last = t.answers(ctx, e)
		return last
	}, 100*time.Millisecond)
	if err != nil {
		return nil, x.notReady(ctx, t, e, err, last)
	}
	x.log.linef("%s: ready at %s after %s", e.Name, t.url, time.Since(began).Round(time.Millisecond))
	return t, nil
}

var errNotReady = errors.New("it was not ready in time")

// notReady ends an engine that did not get as far as answering.
func (x *trial) notReady(ctx context.Context, t *target, e EngineConfig, err, last error) error {
	exit := x.stop(t, e)
	var died *proc.DiedError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &died):
		return &failure{why: "it ended before it was ready: it " + exit.String(), tail: exit.LogTail}
	}
	return &failure{why: foreign.Line(fmt.Sprintf("it was not ready within %s: %v", e.Serve.ReadyTimeout, last), 500), tail: exit.LogTail}
}

// answers asks once whether the engine is ready.
func (t *target) answers(ctx context.Context, e EngineConfig) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if e.Serve.Health == "" {
		c := hammer.Config{URL: t.url, APIKey: t.apiKey, Model: e.model()}
		if err := hammer.Resolve(ctx, &c); !errors.Is(err, hammer.ErrNoModel) {
			return err
		}
		return nil // it answers; measuring says what it serves
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+e.Serve.Health, nil)
	if err != nil {
		return err
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 1<<20) // what it says besides does not matter
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("%s answered %s", e.Serve.Health, res.Status)
	}
	return nil
}

// stop ends an engine that we started, and everything that it started.
func (x *trial) stop(t *target, e EngineConfig) proc.Exit {
	x.mon.follow("", nil)
	if t.p == nil {
		return proc.Exit{}
	}
	exit := t.p.Stop(context.Background())
	x.log.linef("%s: %s", e.Name, exit)
	if len(exit.Left) > 0 {
		x.note("processes %v of %s could not be ended", exit.Left, e.Name)
	}
	return exit
}

// portFor gives the port to listen on. One that is taken already would have us
// measure whoever took it.
func portFor(port int) (int, error) {
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return 0, fmt.Errorf("its port %d is not available, or taken by another process: %w", port, err)
		}
		got := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("looking for a free port: %w", err)
		}
		port = got
	}
	return port, nil
}
