package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/haproxy"
)

// haproxyFlags are those of the process beside an HAProxy.
type haproxyFlags struct {
	remote   remote.Flags
	model    string
	networks []string
	once     bool
	pinFile  string
	o        haproxy.Options
}

func newHAProxy() *cobra.Command {
	var f haproxyFlags
	cmd := &cobra.Command{
		Use:   "haproxy --socket SOCKET --backend NAME --server URL --token-file FILE",
		Short: "Keep the slots of an HAProxy: which node each of them stands for",
		Long: `Keep the slots of an HAProxy: run it beside each one, with access to its socket.

It asks the server who serves a model, and gives each replica a slot of a backend:
its address, and what the slot's agent check asks for. HAProxy then asks the server
itself ("assay server --agent-check") how much each slot gets. After a reload or a
restart everything is told anew. The token needs the role router, and no more.

The backend's servers must be slots and nothing else: deploy/haproxy.cfg has an
example. With --state-file, HAProxy's state is kept in a file from which it starts
again, also while the server is away.`,
		Example: `  assay server access create --role router --name lb1 --out router.token
  assay server haproxy --socket /run/haproxy/admin.sock --backend llm --state-file /var/lib/haproxy/state --server https://assay.example.org --token-file router.token`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	f.remote.Register(fs)
	fs.StringVar(&f.o.Socket, "socket", "", "HAProxy's runtime API: a `socket` of level admin")
	fs.StringVar(&f.o.Backend, "backend", "", "the backend's `name`")
	fs.StringVar(&f.o.StateFile, "state-file", "", "HAProxy's server-state-file: a `file` that is kept; beside it FILE.slots")
	fs.StringVar(&f.o.PinMap, "pin-map", "", "the `file` of HAProxy's map of pins, which is kept: by it the server's looks from outside find a node's slot")
	fs.StringVar(&f.pinFile, "pin-file", "", "with --pin-map: `file` with the secret of the pins, the same as the server's --router-pin-file")
	fs.StringVar(&f.model, "model", "", "only replicas that serve this model; by default all")
	fs.BoolVar(&f.o.TLS, "node-tls", false, "the slots speak TLS: only nodes with an https serving URL are put into them")
	fs.StringSliceVar(&f.networks, "node-network", nil, "`networks` (CIDR) that nodes may be in; by default all but this machine's own and link-local ones")
	fs.DurationVar(&f.o.Every, "every", haproxy.DefaultEvery, "how often to look")
	fs.BoolVar(&f.once, "once", false, "look once, and end")
	return cmd
}

func (f *haproxyFlags) run(ctx context.Context) error {
	switch {
	case f.o.Socket == "":
		return errors.New("--socket SOCKET is needed: HAProxy's runtime API, as its configuration names it with `stats socket`")
	case f.o.Backend == "":
		return errors.New("--backend NAME is needed: the one whose servers are slots")
	case f.o.Every < 100*time.Millisecond:
		return fmt.Errorf("--every %s: at least 100ms", f.o.Every)
	}
	for _, text := range f.networks {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--node-network: write ADDRESS/BITS, as 10.1.0.0/16: %w", err)
		}
		f.o.Networks = append(f.o.Networks, p.Masked())
	}
	if (f.o.PinMap == "") != (f.pinFile == "") {
		return errors.New("--pin-map and --pin-file belong together")
	}
	if f.pinFile != "" {
		var err error
		if f.o.PinSecret, err = readPin(f.pinFile); err != nil {
			return fmt.Errorf("--pin-file: %w", err)
		}
	}
	var err error
	if f.o.Routes, err = f.asking(); err != nil {
		return err
	}
	f.o.Log = cli.Log(ctx)
	k, err := haproxy.New(f.o)
	if err != nil {
		return err
	}
	if f.once {
		return k.Pass(ctx)
	}
	k.Run(ctx)
	return nil
}

// asking asks the server for its routes. Where that fails the token's file is read
// again: after a restore all tokens are void, and who puts a new one in its place need
// not know who has read the old one.
func (f *haproxyFlags) asking() (func(context.Context) ([]api.Route, error), error) {
	c, err := f.remote.Open()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([]api.Route, error) {
		all, err := routes(ctx, c, f.model)
		if err != nil {
			if again, bad := f.remote.Open(); bad == nil {
				c = again
			}
		}
		return all, err
	}, nil
}

// routes asks for all who serve a model, also those that get no requests now.
func routes(ctx context.Context, c *remote.Client, model string) ([]api.Route, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	all := true
	p := api.GetRouteParams{All: &all}
	if model != "" {
		p.Model = &model
	}
	r, err := c.GetRouteWithResponse(ctx, &p)
	if err != nil {
		return nil, c.Answer(nil, nil, err)
	}
	if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
		return nil, err
	}
	if r.JSON200 == nil {
		return nil, errors.New("the server's answer has no routes")
	}
	return *r.JSON200, nil
}
