package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/disk"
)

// job is what an activity works on: a try of a cell, and the machine that is
// rented for it.
type job struct {
	ref      Ref
	cell     store.Cell
	spec     campaign.Planned
	settings Settings
	intent   store.Intent
	instance store.Instance
	traits   provider.Traits
}

// Settings are what a campaign's cells are measured with.
type Settings struct {
	Duration time.Duration `json:"duration"` // of the benchmark
	Streams  int           `json:"streams"`  // requests under way at once
	Tries    int           `json:"tries"`
	Window   int           `json:"window,omitempty"`
	Lease    time.Duration `json:"lease"`
	DiskGB   int           `json:"disk_gb"`
	HourCap  int64         `json:"hour_cap,omitempty"` // billionths of a dollar; 0: none
	Limits   Limits        `json:"limits"`             // of a stage; 0: by the plan
	// Pace is how much faster than the clock a sandbox is; 0: 1.
	Pace float64 `json:"pace,omitempty"`
}

// limits are how long the stages of a cell may take: as the settings say, as it was
// planned, or, for a plan that does not say, the longest life.
func (s Settings) limits(p campaign.Planned) Limits {
	l := s.Limits
	for stage, d := range map[campaign.Stage]*time.Duration{
		campaign.Provision: &l.Provision, campaign.Setup: &l.Setup, campaign.Load: &l.Load, campaign.Benchmark: &l.Benchmark, campaign.Collect: &l.Collect,
	} {
		for _, seconds := range []float64{p.StageSeconds[stage], p.LifeSeconds, 60} {
			if *d <= 0 {
				*d = time.Duration(seconds * float64(time.Second))
			}
		}
	}
	return l
}

// life is the longest life of a machine.
func (s Settings) life(p campaign.Planned) time.Duration {
	if d := time.Duration(p.LifeSeconds * float64(time.Second)); d > s.Lease {
		return d
	}
	return s.Lease
}

var errNoMachine = errors.New("no machine is rented for this try")

// plan reads what is planned for a cell.
func (a *Activities) plan(ctx context.Context, ref Ref) (j job, err error) {
	j.ref = ref
	if j.cell, err = a.Store.Cell(ctx, ref.Cell); err != nil {
		return j, err
	}
	c, err := a.Store.Campaign(ctx, ref.Campaign)
	if err != nil {
		return j, err
	}
	if err := errors.Join(json.Unmarshal([]byte(c.Settings), &j.settings), json.Unmarshal([]byte(j.cell.Spec), &j.spec)); err != nil {
		return j, fmt.Errorf("the settings of cell %s: %w", ref.Cell, err)
	}
	return j, nil
}

// work reads what a try works on.
func (a *Activities) work(ctx context.Context, ref Ref) (job, error) {
	j, err := a.plan(ctx, ref)
	if err != nil {
		return j, err
	}
	intents, err := a.Store.Intents(ctx, ref.Cell)
	if err != nil {
		return j, err
	}
	for _, i := range intents {
		if i.State == store.Live && len(i.Instances) > 0 {
			j.intent, j.instance = i, i.Instances[len(i.Instances)-1]
			c, err := a.Rent.Cloud(i.Provider)
			j.traits = c.Traits
			return j, err
		}
	}
	return j, refuse(campaign.CauseLease, errNoMachine)
}

// dir is where the results of a try are kept.
func (a *Activities) dir(ref Ref) string {
	return filepath.Join(a.Results, ref.Campaign, ref.Cell, strconv.Itoa(ref.Try))
}

func runName(ref Ref) string { return "run-" + strconv.Itoa(ref.Try) }

// options are how the machine of a try is reached.
func (a *Activities) options(j job) (node.Options, error) {
	signer, err := a.Master.Signer(j.intent.Label)
	if own := j.traits.KeyFiles[j.intent.Machine]; own != "" {
		signer, err = node.ReadKey(own)
	}
	if err != nil {
		return node.Options{}, err
	}
	user := j.traits.User
	if user == "" {
		user = "root"
	}
	return node.Options{
		Address: net.JoinHostPort(j.instance.Host, strconv.Itoa(j.instance.Port)), User: user,
		Instance: j.instance.Provider + "/" + j.instance.ID, Signer: signer, Pins: a.Pins,
	}, nil
}

// at runs something with a machine of a try, while its lease is renewed and Temporal
// hears that the activity is alive.
func (a *Activities) at(ctx context.Context, ref Ref, stage campaign.Stage, do func(context.Context, job) error) error {
	j, err := a.work(ctx, ref)
	if err != nil {
		return coded(err)
	}
	if err := a.Store.SetCell(ctx, ref.Cell, store.Progress{Status: string(campaign.Running), Stage: string(stage)}); err != nil {
		return err
	}
	held, release := a.hold(ctx, j)
	defer release()
	err = do(held, j)
	if err != nil && held.Err() != nil && ctx.Err() == nil {
		err = context.Cause(held)
	}
	if errors.Is(err, node.ErrNoGPU) || errors.Is(err, node.ErrHostile) || errors.Is(err, node.ErrForged) {
		err = errors.Join(err, a.Store.MarkMachine(ctx, j.intent.Provider, j.intent.Machine, err.Error()))
	}
	return coded(err)
}

// on is at with a connection.
func (a *Activities) on(ctx context.Context, ref Ref, stage campaign.Stage, do func(context.Context, job, *node.Node) error) error {
	return a.at(ctx, ref, stage, func(ctx context.Context, j job) error {
		n, err := a.connect(ctx, j, node.Patience{Within: time.Minute})
		if err != nil {
			return err
		}
		defer n.Close()
		defer a.renew(ctx, n, j)()
		return do(ctx, j, n)
	})
}

// renew keeps the dead man quiet while something long runs on the machine.
func (a *Activities) renew(ctx context.Context, n *node.Node, j job) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n.Renew(ctx) == nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(j.settings.Lease / 4):
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (a *Activities) connect(ctx context.Context, j job, p node.Patience) (*node.Node, error) {
	o, err := a.options(j)
	if err != nil {
		return nil, err
	}
	return node.Await(ctx, o, p)
}

// hold renews a lease and beats until it is released. The context ends when the
// lease was lost: reap may have begun to destroy.
func (a *Activities) hold(ctx context.Context, j job) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	every := min(j.settings.Lease/4, silence(j.settings.Pace)/4)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := a.Rent.Renew(ctx, j.intent.Label, j.settings.Lease); errors.Is(err, store.ErrLease) {
				cancel(err)
			}
			activity.RecordHeartbeat(ctx)
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// Reach waits until the machine lets us in.
func (a *Activities) Reach(ctx context.Context, ref Ref) error {
	return a.at(ctx, ref, campaign.Provision, func(ctx context.Context, j job) error {
		n, err := a.reach(ctx, &j)
		if errors.Is(err, node.ErrNotReady) || errors.Is(err, node.ErrAuth) || errors.Is(err, errStopped) {
			err = errors.Join(err, a.Store.Learn(ctx, j.intent.Provider, j.intent.Location, false))
		}
		if errors.Is(err, node.ErrNotReady) { // it was waited for long enough
			return refuse(campaign.CauseSSH, err)
		}
		if err != nil {
			return err
		}
		defer n.Close()
		if err := a.Store.Learn(ctx, j.intent.Provider, j.intent.Location, true); err != nil {
			return err
		}
		return n.Prepare(ctx)
	})
}

// Verify compares the machine's GPUs with what was rented, and their free memory
// with what the model needs.
func (a *Activities) Verify(ctx context.Context, ref Ref) error {
	return a.on(ctx, ref, campaign.Setup, func(ctx context.Context, j job, n *node.Node) error {
		m, err := n.Inspect(ctx)
		if err != nil {
			return err
		}
		if err := expected(j, m); err != nil {
			return err
		}
		return a.note(ref, "machine.json", m)
	})
}

func expected(j job, m node.Machine) error {
	if n := max(1, j.spec.Count); len(m.GPUs) != n {
		return fmt.Errorf("%w: %d GPUs were rented, and it has %d", node.ErrNoGPU, n, len(m.GPUs))
	}
	for _, g := range m.GPUs {
		if !provider.SameGPU(j.cell.GPU, g.Name) {
			return fmt.Errorf("%w: %s was rented, and it has %s", node.ErrNoGPU, j.cell.GPU, g.Name)
		}
	}
	if need := j.spec.Memory; need != nil && m.FreeMiB()<<20 < need.Total() {
		return refuse(campaign.CauseMemory, fmt.Errorf("%d MiB of its memory are free, and the model needs %d", m.FreeMiB(), need.Total()>>20))
	}
	return nil
}

// Engine sends our binary and has an engine answer.
func (a *Activities) Engine(ctx context.Context, ref Ref) error {
	return a.on(ctx, ref, campaign.Setup, func(ctx context.Context, j job, n *node.Node) error {
		m, err := n.Inspect(ctx)
		if err != nil {
			return err
		}
		binary, err := a.Binary(m.GoArch())
		if err != nil {
			return err
		}
		if err := n.Install(ctx, binary); err != nil {
			return err
		}
		return n.StartEngine(ctx, node.Engine(j.cell.Engine), node.EngineOptions{Model: j.cell.Model})
	})
}

// Load brings the model and has it answer once.
func (a *Activities) Load(ctx context.Context, ref Ref) error {
	return a.on(ctx, ref, campaign.Load, func(ctx context.Context, j job, n *node.Node) error {
		l, err := n.LoadModel(ctx, node.Engine(j.cell.Engine), node.EngineOptions{Model: j.cell.Model})
		if err != nil {
			return err
		}
		return a.note(ref, "load.json", l)
	})
}

// note keeps what was found beside the results of a try.
func (a *Activities) note(ref Ref, name string, v any) error {
	dir := a.dir(ref)
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return disk.Replace(filepath.Join(dir, name), 0o600, disk.Bytes(append(b, '\n')))
}

// Benchmark measures. A worker that takes it over goes on watching what runs.
func (a *Activities) Benchmark(ctx context.Context, ref Ref) error {
	return a.at(ctx, ref, campaign.Benchmark, func(ctx context.Context, j job) error {
		b := node.Bench{Run: runName(ref), Engine: node.Engine(j.cell.Engine), Model: j.cell.Model, Duration: j.settings.Duration, Streams: j.settings.Streams}
		n, err := a.connect(ctx, j, node.Patience{Within: time.Minute})
		if err != nil {
			return err
		}
		err = n.StartBench(ctx, b)
		n.Close()
		if err != nil {
			return err
		}
		exit, err := node.Watch(ctx, b, node.WatchOptions{
			Dial: func(ctx context.Context) (*node.Node, error) {
				return a.connect(ctx, j, node.Patience{Within: 2 * time.Minute})
			},
			Every: max(time.Second, min(10*time.Second, j.settings.Duration/10, j.settings.Lease/4)),
		})
		switch {
		case errors.Is(err, node.ErrNotReady):
			return refuse(campaign.CauseLost, err)
		case err != nil:
			return err
		case exit != 0:
			return refuse(campaign.CauseExit, fmt.Errorf("the benchmark ended with exit status %d", exit))
		}
		return nil
	})
}

// Collect brings the run directory home and examines it, and the logs beside it.
func (a *Activities) Collect(ctx context.Context, ref Ref) error {
	return a.on(ctx, ref, campaign.Collect, func(ctx context.Context, j job, n *node.Node) error {
		dir := filepath.Join(a.dir(ref), "run")
		if err := os.RemoveAll(dir); err != nil { // of a worker that was lost
			return err
		}
		if logs, err := n.Logs(ctx, runName(ref)); err == nil && logs != "" {
			if err := a.keep(ref, "machine.log", []byte(logs+"\n")); err != nil {
				return err
			}
		}
		files, err := n.Collect(ctx, runName(ref), dir, a.Take)
		if err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
		if _, _, err := node.Examine(dir, node.Want{Model: j.cell.Model}); err != nil {
			return err
		}
		return a.note(ref, "files.json", files)
	})
}

func (a *Activities) keep(ref Ref, name string, b []byte) error {
	if err := disk.MkdirAll(a.dir(ref), 0o700); err != nil {
		return err
	}
	return disk.Replace(filepath.Join(a.dir(ref), name), 0o600, disk.Bytes(b))
}
