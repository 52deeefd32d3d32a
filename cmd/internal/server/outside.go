package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/server/ask"
	"github.com/assay-bench/assay/network/server/decide"
	"github.com/assay-bench/assay/network/server/egress"
	"github.com/assay-bench/assay/network/server/trust"
	"github.com/assay-bench/assay/network/store"
)

// outsideFlags say whether and how nodes are looked at from outside.
type outsideFlags struct {
	on        bool
	router    string
	pinFile   string
	keyFile   string
	heartbeat time.Duration
}

func (f *outsideFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.on, "look-outside", false, "look at nodes from outside, as customers do: can they be reached, do their serving URLs lead to their own engines, are they as fast as they say. Addresses that are not public need --allow-network")
	fs.StringVar(&f.router, "router", "", "with --look-outside: the router's `URL`, through which nodes in rotation are asked; by default straight at their serving URLs")
	fs.StringVar(&f.pinFile, "router-pin-file", "", "with --router: `file` with the secret by which a request is pinned to a node, as `assay server haproxy` has it")
	fs.StringVar(&f.keyFile, "engine-key-file", "", "with --look-outside: `file` with the API key that customers have; by default none is sent")
}

// open makes the prober; nil where nobody is looked at.
func (f *outsideFlags) open(ctx context.Context, st *store.Store, d *decide.Decider, allow []string) (*trust.Prober, error) {
	if !f.on {
		if f.router != "" || f.pinFile != "" || f.keyFile != "" {
			return nil, errors.New("--router, --router-pin-file and --engine-key-file are for --look-outside")
		}
		return nil, nil
	}
	if (f.router == "") != (f.pinFile == "") {
		return nil, errors.New("--router and --router-pin-file belong together: without a pin a router sends a request to anybody")
	}
	networks, err := networks("--allow-network", allow)
	if err != nil {
		return nil, err
	}
	w := ask.Way{Client: egress.Client(&egress.Dialer{Allow: networks}, 0), Router: f.router}
	if f.router != "" {
		// Who runs the server names the router, so it may be anywhere.
		w.ByRouter = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		if w.Secret, err = readPin(f.pinFile); err != nil {
			return nil, fmt.Errorf("--router-pin-file: %w", err)
		}
	}
	if f.keyFile != "" {
		text, err := ledger.ReadSecretFile(f.keyFile, maxSecrets)
		if err != nil {
			return nil, fmt.Errorf("--engine-key-file: %w", err)
		}
		w.APIKey = strings.TrimSpace(string(text))
	}
	return trust.New(trust.Options{Store: st, Decider: d, Way: w, Holder: ulid.Make().String(), Heartbeat: f.heartbeat, Log: cli.Log(ctx)})
}

// readPin reads the secret that server and router share.
func readPin(file string) ([]byte, error) {
	text, err := ledger.ReadSecretFile(file, maxSecrets)
	if err != nil {
		return nil, err
	}
	secret := strings.TrimSpace(string(text))
	if len(secret) < ask.MinSecret {
		return nil, fmt.Errorf("%s has %d letters: a secret has at least %d, as `openssl rand -hex 32` makes them", file, len(secret), ask.MinSecret)
	}
	return []byte(secret), nil
}
