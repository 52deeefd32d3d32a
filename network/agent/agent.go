package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/outbox"
	"github.com/assay-bench/assay/network/agent/driver"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/telemetry"
)

// Options are what an agent needs of the process that it runs in.
type Options struct {
	Version assay.Version
	Log     *slog.Logger // nil: nobody is told

	// EnrolToken gives the token of a node that is not enrolled yet.
	EnrolToken func() (string, error)
	// Passphrase is that of the node's keys; nil: one that the agent keeps itself.
	Passphrase func() ([]byte, error)
	// APIKey is that of the engine; nil: it wants none.
	APIKey func() (string, error)
	// Proxy is the way out; nil: none.
	Proxy func(*http.Request) (*url.URL, error)

	// Child, Supervisor and Env are those of CheckOptions; NVML reads NVIDIA's
	// driver (telemetry.ServeChild).
	Child, Supervisor, NVML []string
	Env                     []string

	// Notify is told when the agent is ready, alive and stopping, in the words of
	// sd_notify; nil: nobody. Watchdog is how often it must hear that the agent is
	// alive; 0: never.
	Notify   func(string)
	Watchdog time.Duration

	// Spread is used in place of the configuration's; 0: the configuration's.
	Spread time.Duration
	// Look is how often the engine is looked at; 0: 5 s.
	Look time.Duration
	// Tend is how often runs that wait are looked at; 0: 30 s.
	Tend time.Duration
	// Heartbeat is used in place of the server's; 0: the server's.
	Heartbeat time.Duration
}

// Agent is a node's daemon.
type Agent struct {
	c Config
	o Options

	log      *slog.Logger
	state    *state
	link     *link
	session  *session
	box      *outbox.Outbox
	commands *commands
	reports  *reports
	lookout  *lookout
	export   *telemetry.Export
	runner   *runner
	started  time.Time
	pulse    atomic.Int64 // when a loop last went round, in Unix nanoseconds

	mu        sync.Mutex
	inventory api.Inventory
	gpus      []assay.GPU
	files     *api.DriverFiles // as they were when the GPUs were counted; nil: none
	counted   chan struct{}    // closed when gpus are known
	seen      api.Seen         // the server's last answer to a heart-beat
}

// Open opens the state directory and prepares everything; nothing is sent yet.
func Open(c Config, o Options) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	if o.APIKey == nil {
		o.APIKey = func() (string, error) { return "", nil }
	}
	o.Spread = defaulted(o.Spread, time.Duration(c.Server.Spread))
	o.Look = defaulted(o.Look, 5*time.Second)
	o.Tend = defaulted(o.Tend, 30*time.Second)
	s, err := openState(c.State)
	if err != nil {
		return nil, err
	}
	a := &Agent{c: c, o: o, log: o.Log, state: s, started: time.Now()}
	if err := a.open(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *Agent) open() (err error) {
	if a.link, err = newLink(a.c.Server.URL, a.c.Server.CA, a.o.Spread, a.o.Proxy); err != nil {
		return err
	}
	if a.session, err = openSession(a.state, vault{a.state, a.o.Passphrase}, a.link, a.log); err != nil {
		return err
	}
	a.box, err = outbox.Open(outbox.Options{
		Dir: a.state.path(outboxDir), BatchRecords: batchRecords, BatchBytes: batchBytes,
		Retry: a.o.Spread / 60, RetryMax: a.o.Spread,
	})
	if err != nil {
		return err
	}
	a.reports = &reports{state: a.state, session: a.session, box: a.box, log: a.log}
	if a.commands, err = openCommands(a.state, a.session, a.log); err != nil {
		return err
	}
	a.commands.do = a.obey
	a.lookout = &lookout{engine: a.c.Engine, apiKey: a.o.APIKey, looked: make(chan struct{})}
	a.counted = make(chan struct{})
	host, _ := os.Hostname() // only a label
	a.export = telemetry.NewExport(telemetry.ExportOptions{Interval: readEvery, Hostname: host})
	a.runner, err = newRunner(a)
	return err
}

// Close gives the state directory back.
func (a *Agent) Close() error {
	var err error
	if a.box != nil {
		err = a.box.Close()
	}
	return errors.Join(err, a.state.close())
}

// readEvery is how often the node's readings are taken for /metrics.
const readEvery = 15 * time.Second

// Run works until ctx ends. An error means that it cannot go on: the node could
// not be enrolled. A server that is away is none.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	loop := func(f func(context.Context)) { wg.Go(func() { f(ctx) }) }
	loop(a.watchEngine)
	loop(a.readNode)
	loop(a.alive)
	a.o.Notify("READY=1")
	a.log.Info("the agent runs", "server", a.link.base.String(), "state", a.c.State, "node", a.session.node())
	err := a.enrol(ctx)
	if err == nil {
		loop(a.deliver)
		loop(a.beat)
		loop(a.poll)
		loop(a.tell)
		loop(a.tend)
		loop(a.runner.run)
		<-ctx.Done()
	}
	a.o.Notify("STOPPING=1")
	cancel(err)
	wg.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// enrol has the node taken in, however long the server is away. It gives up when
// the server says no: the token is wrong, used or expired.
func (a *Agent) enrol(ctx context.Context) error {
	for told := false; a.session.node() == ""; {
		token, err := a.token()
		if err != nil {
			return err
		}
		err = a.session.enrol(ctx, token)
		var se *ServerError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &se) && se.Status >= 400 && se.Status < 500 && se.Status != http.StatusTooManyRequests && se.Status != http.StatusRequestTimeout:
			return fmt.Errorf("%w; a token is good once, for one key, until it expires: make another with `assay server token create`", err)
		}
		if !told {
			told = true
			a.log.Warn("the node cannot be enrolled yet; it is tried again", "error", err)
		}
		if !a.link.rest(ctx) {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (a *Agent) token() (string, error) {
	if a.o.EnrolToken == nil {
		return "", ErrNotEnrolled
	}
	return a.o.EnrolToken()
}

// deliver empties the outbox into the server.
func (a *Agent) deliver(ctx context.Context) {
	s := &sink{session: a.session, settled: func(r *ledger.Record, o outbox.Outcome) {
		a.reports.settled(r, o)
		a.runner.kick()
	}}
	if err := a.box.Run(ctx, s, a.log); err != nil {
		a.log.Error("the outbox", "error", err)
	}
}

// poll fetches commands for as long as the agent runs.
func (a *Agent) poll(ctx context.Context) {
	a.retry(ctx, "the server cannot be asked for commands", func(ctx context.Context) error { return a.commands.poll(ctx) })
}

// tell acknowledges commands.
func (a *Agent) tell(ctx context.Context) {
	a.retry(ctx, "commands cannot be acknowledged", func(ctx context.Context) error {
		if err := a.commands.tell(ctx); err != nil {
			return err
		}
		select {
		case <-a.commands.news:
		case <-ctx.Done():
		}
		return nil
	})
}

// tend brings runs to the server.
func (a *Agent) tend(ctx context.Context) {
	a.retry(ctx, "runs cannot be delivered; they are kept", func(ctx context.Context) error {
		if _, err := a.reports.tend(ctx); err != nil {
			return err
		}
		t := time.NewTimer(a.o.Tend)
		defer t.Stop()
		select {
		case <-a.runner.kicked:
		case <-t.C:
		case <-ctx.Done():
		}
		return nil
	})
}

// retry does something again and again until ctx ends; after a failure it waits,
// and says once that it fails and once that it works again.
func (a *Agent) retry(ctx context.Context, trouble string, f func(context.Context) error) {
	down := false
	for ctx.Err() == nil {
		err := f(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if down {
				down = false
				a.log.Info("that is over", "trouble", trouble)
			}
			continue
		}
		if !down {
			down = true
			a.log.Warn(trouble, "error", err)
		}
		if !a.link.rest(ctx) {
			return
		}
	}
}

// watchEngine looks at the engine.
func (a *Agent) watchEngine(ctx context.Context) {
	defer a.lookout.forget()
	for first := true; ; first = false {
		a.lookout.look(ctx)
		if first {
			close(a.lookout.looked)
		}
		if !sleep(ctx, a.o.Look) {
			return
		}
	}
}

// readNode takes readings of the node for /metrics, and its GPUs for the
// inventory.
func (a *Agent) readNode(ctx context.Context) {
	sources, gpus, notes, err := telemetry.Choose(ctx, telemetry.ChooseOptions{Child: a.o.NVML, Interval: readEvery})
	if err != nil {
		return // ctx has ended
	}
	for _, n := range notes {
		a.log.Debug("readings of the node", "note", foreign.Line(n, maxProblem))
	}
	files := driver.Read("/") // beside the cards: later one may be gone
	a.mu.Lock()
	a.gpus, a.files = gpus, files
	a.mu.Unlock()
	close(a.counted)
	a.export.GPUs(gpus)
	telemetry.Poll(ctx, readEvery, func() int64 { return time.Now().UnixNano() }, sources, a.export.Reading,
		func(err error) { a.log.Debug("a reading of the node failed", "error", err) })
	for _, s := range sources {
		_ = s.Close() // it was only read
	}
}

// alive tells the watchdog that the agent works: that its locks can be had and its
// heart beats, whether the server answers or not.
func (a *Agent) alive(ctx context.Context) {
	if a.o.Watchdog <= 0 {
		return
	}
	for sleep(ctx, a.o.Watchdog/2) {
		if a.works() {
			a.o.Notify("WATCHDOG=1")
		}
	}
}

// maxStill is how long the runner's loop may stand still: it goes round at least
// every minute.
const maxStill = 5 * time.Minute

func (a *Agent) works() bool {
	a.session.node()
	a.lookout.now()
	a.box.Pending()
	last := a.pulse.Load()
	return last == 0 || time.Since(time.Unix(0, last)) < maxStill
}

func defaulted[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}
