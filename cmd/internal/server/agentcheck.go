package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/network/server/routing"
)

// agentFlags say where routers' agent checks are answered, and whose.
type agentFlags struct {
	address string
	allow   []string
}

func (f *agentFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.address, "agent-check", "", "answer HAProxy's agent checks here: `HOST:PORT`; without a host, on loopback. The protocol is plain text")
	fs.StringSliceVar(&f.allow, "agent-check-allow", nil, "`networks` (CIDR) whose agent checks are answered; needed unless it is this machine's")
}

// open takes the address; nil where none was given.
func (f *agentFlags) open(ctx context.Context) (net.Listener, *routing.Agent, error) {
	if f.address == "" {
		if len(f.allow) > 0 {
			return nil, nil, errors.New("--agent-check-allow is for --agent-check HOST:PORT")
		}
		return nil, nil, nil
	}
	host, port, err := net.SplitHostPort(f.address)
	if err != nil {
		return nil, nil, fmt.Errorf("--agent-check: write HOST:PORT or :PORT: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if len(f.allow) > 0 {
		allow = nil
	} else if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, nil, fmt.Errorf("--agent-check %s can be reached by others, and nothing in the protocol says who asks: give --agent-check-allow with the routers' networks", f.address)
	}
	for _, text := range f.allow {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, nil, fmt.Errorf("--agent-check-allow: write ADDRESS/BITS, as 10.1.0.0/24: %w", err)
		}
		allow = append(allow, p.Masked())
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, nil, fmt.Errorf("--agent-check: %w", err)
	}
	return ln, &routing.Agent{Allow: allow, Log: cli.Log(ctx)}, nil
}
