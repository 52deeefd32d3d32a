package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/promtext"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/server/decide"
	"github.com/assay-bench/assay/network/server/trace"
)

// listenToken is a flag of every listener that makes no sense here.
const listenToken = "listen-token-file"

// serveFlags are those of the server itself.
type serveFlags struct {
	state
	listen      cli.Listener
	work        workFlags
	collector   string
	heartbeat   time.Duration
	addressRate float64
	personRate  float64
	nodeRate    float64
	proxies     []string
	signIn      signInFlags
	agent       agentFlags
	outside     outsideFlags
	rental      rentalFlags
}

func (f *serveFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.database, "database", "", "`URL`: sqlite:FILE or postgres://…")
	f.listen.Register(fs, "127.0.0.1:8700", "where requests are answered: ")
	_ = fs.MarkHidden(listenToken) // it was just registered
	f.state.register(fs)
	f.work.register(fs)
	fs.StringVar(&f.collector, "otlp-endpoint", "", "tell the collector at this `URL` by OTLP over HTTP what each request took; without it nobody is told")
	fs.DurationVar(&f.heartbeat, "heartbeat", server.DefaultHeartbeat, "how often agents tell that they are there")
	fs.Float64Var(&f.addressRate, "address-rate", server.DefaultAddressRate.PerSecond, "requests a second of one address that nobody known sends: log-ins, enrolments, wrong tokens; 0: without a limit")
	fs.Float64Var(&f.personRate, "person-rate", server.DefaultPersonRate.PerSecond, "requests a second of one person or token; 0: without a limit")
	fs.Float64Var(&f.nodeRate, "node-rate", server.DefaultNodeRate.PerSecond, "requests a second of one node; 0: without a limit")
	fs.StringSliceVar(&f.proxies, "trusted-proxy", nil, "`networks` (CIDR) of proxies in front: who comes through them is counted by what they say in X-Forwarded-For, read from its right")
	f.signIn.register(fs)
	f.agent.register(fs)
	f.outside.register(fs)
	f.rental.register(fs)
}

// limit is a rate with the burst that the default one has, in proportion.
func limit(perSecond float64, like server.Rate) *server.Rate {
	if perSecond <= 0 {
		return &server.Rate{}
	}
	burst := max(1, int(perSecond*float64(like.Burst)/like.PerSecond))
	return &server.Rate{PerSecond: perSecond, Burst: burst}
}

func (f *serveFlags) run(ctx context.Context, out io.Writer) (err error) {
	if f.heartbeat < time.Second || f.heartbeat > time.Hour || f.heartbeat%time.Second != 0 {
		return fmt.Errorf("--heartbeat %s: whole seconds, from one to an hour", f.heartbeat)
	}
	if f.listen.TokenFile != "" {
		return fmt.Errorf("--%s is for services without tokens of their own; here each one who asks has one", listenToken)
	}
	if err := f.listen.Check(); err != nil {
		return err
	}
	db, st, err := openOld(ctx, f.database)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := st.Check(ctx); err != nil {
		return err
	}
	id, err := f.open()
	if err != nil {
		return err
	}
	st = st.RecordedBy(id.Record)
	dir, err := f.dir()
	if err != nil {
		return err
	}
	w, err := f.work.open(ctx, st, id, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	waiting := -1 // records stay where nobody publishes them
	if w.publish {
		waiting = 0
	}
	proxies, err := networks("--trusted-proxy", f.proxies)
	if err != nil {
		return err
	}
	o := server.Options{
		TrustedProxies: proxies,
		Store:          st, Identity: id, Evidence: w.evidence, Decider: w.decider, Rules: w.decider, Mounts: w.mounts,
		Ready: w.decider.Ready, Decisions: w.decider.Metrics,
		Version: cli.Release, Log: cli.Log(ctx), Heartbeat: f.heartbeat, MaxUnpublished: waiting,
		AddressRate: limit(f.addressRate, server.DefaultAddressRate), PersonRate: limit(f.personRate, server.DefaultPersonRate), NodeRate: limit(f.nodeRate, server.DefaultNodeRate),
	}
	rented, err := f.rental.open(ctx, db)
	if err != nil {
		return err
	}
	defer rented.close()
	rented.add(&o)
	checks, agent, err := f.agent.open(ctx)
	if err != nil {
		return err
	}
	if checks != nil {
		defer checks.Close()
	}
	f.outside.heartbeat = f.heartbeat
	prober, err := f.outside.open(ctx, st, w.decider, f.work.allow)
	if err != nil {
		return err
	}
	o.Metrics = func(p *promtext.Page) {
		if agent != nil {
			agent.Metrics(p)
		}
		if prober != nil {
			prober.Metrics(p)
		}
	}
	look := func(context.Context) {}
	if prober != nil {
		look = prober.Run
	}
	l, err := f.listen.Open(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := f.signIn.add(&o, st, cli.Log(ctx), l.URL); err != nil {
		return err
	}
	s, err := server.New(o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the server %s answers at %s\n", id.Origin, l.URL)
	h, end, err := f.traced(ctx, s)
	if err != nil {
		return err
	}
	defer end()
	run := func(ctx context.Context) error { return serve(ctx, s, w.decider, look, h, l) }
	if checks != nil {
		agent.Table = s.Routes()
		fmt.Fprintf(out, "agent checks are answered at %s\n", checks.Addr())
		alone := run
		run = func(ctx context.Context) error {
			return beside(ctx, func(ctx context.Context) error { return agent.Serve(ctx, checks) }, alone)
		}
	}
	return f.rental.compat(ctx, s, out, run)
}

// beside runs both until one fails or ctx ends.
func beside(ctx context.Context, a, b func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() {
		defer stop()
		failed <- a(ctx)
	}()
	err := b(ctx)
	stop()
	return errors.Join(err, <-failed)
}

// traced is the server with a span for each request, if a collector is named. end
// sends what is left.
func (f *serveFlags) traced(ctx context.Context, s *server.Server) (h http.Handler, end func(), err error) {
	if f.collector == "" {
		return s, func() {}, nil
	}
	t, err := trace.New(ctx, trace.Options{Endpoint: f.collector, Version: cli.Release, Log: cli.Log(ctx)})
	if err != nil {
		return nil, nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	return t.Wrap(s, s.Route), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := t.Close(ctx); err != nil || t.Failed() > 0 {
			cli.Log(ctx).Warn("traces were lost", "spans", t.Failed(), "error", err)
		}
	}, nil
}

// serve answers until ctx ends: then those who wait are answered, requests under way
// end, and what they left is stored.
func serve(ctx context.Context, s *server.Server, d *decide.Decider, look func(context.Context), h http.Handler, l *cli.Listening) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		all.Go(func() { s.Run(work) })
		all.Go(func() { d.Run(work) })
		all.Go(func() { look(work) })
		all.Wait()
	}()
	end := context.AfterFunc(ctx, s.Quit)
	err := l.Serve(ctx, h)
	end()
	stop()
	<-done
	return err
}
