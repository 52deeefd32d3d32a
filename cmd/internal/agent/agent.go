// Package agent is the command agent.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/network/agent"
)

type flags struct {
	config, server, ca, token, state, baseURL, phrase, gpu, features string
	budget                                                           string
	listen                                                           cli.Listener
}

// New is the command agent.
func New() *cobra.Command {
	f := flags{listen: cli.Listener{Private: true, Grace: time.Second}}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run a node of a network: check it, and deliver what was measured",
		Long: `Agent is the daemon of one node. It enrols with a server, sends heart-beats,
verifies the GPUs and measures the local engine at its start, on a schedule, and
when the server asks, and delivers what it signed. It dials out only.

Everything can be in one file, --config agent.yaml (docs/formats/agent.md); a flag
wins over the file. Within limits that the file sets, the server chooses profile,
scenario, schedule and budget; it never names a command, a path, a URL or a key.

The state directory holds the node's key, its outbox and the runs that the server
has not confirmed yet: a server that is away for a day loses nothing.

Exit codes: 0 ended by a signal; 1 used wrongly; 2 the node could not be enrolled.`,
		Example: `  assay agent --server https://assay.example --enrol-token-file token --state /var/lib/assay-agent
  assay agent --config /etc/assay/agent.yaml --listen :9470`,
		Args: cli.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.Flags().Changed)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.config, "config", "", "agent.yaml, a `file`")
	fs.StringVar(&f.server, "server", "", "the server's `URL`")
	fs.StringVar(&f.ca, "server-ca", "", "PEM `file` of the authorities that the server's certificate may be of; by default the system's")
	fs.StringVar(&f.token, "enrol-token-file", "", "`file` with the token that takes this node in, for its owner only; needed once")
	fs.StringVar(&f.state, "state", "", "`directory` for the key, the outbox and runs on their way")
	fs.StringVar(&f.baseURL, "base-url", "", "the engine's `URL`; by default it is looked for on this machine")
	fs.StringVar(&f.gpu, "gpu", "", "auto, required or none (default auto)")
	fs.StringVar(&f.budget, "check-budget", "", "`share` of the node's time that checks may take (default 1%)")
	fs.StringVar(&f.phrase, "key-passphrase-file", "", "`file` with the passphrase of the node's key; by default one is made and kept in the state directory")
	fs.StringVar(&f.features, "features-file", "", "write the last check's verdict to this `file` for node-feature-discovery, which makes labels of a Kubernetes node from it")
	f.listen.Register(fs, "", "serve /metrics and /healthz on ")
	return cmd
}

// maxConfig bounds what is read of --config; the parser has its own bound.
const maxConfig = 2 << 20

// resolve is the configuration: the file's, and flags over it.
func (f *flags) resolve(changed func(string) bool) (agent.Config, error) {
	c := agent.DefaultConfig()
	if f.config != "" {
		b, err := readAtMost(f.config, maxConfig)
		if err != nil {
			return c, fmt.Errorf("--config: %w", err)
		}
		if c, err = agent.ParseConfig(f.config, b); err != nil {
			return c, err
		}
	}
	for name, to := range map[string]*string{"server": &c.Server.URL, "server-ca": &c.Server.CA, "enrol-token-file": &c.Server.EnrolTokenFile, "state": &c.State, "base-url": &c.Engine.BaseURL, "features-file": &c.FeaturesFile} {
		if changed(name) {
			*to = map[string]string{"server": f.server, "server-ca": f.ca, "enrol-token-file": f.token, "state": f.state, "base-url": f.baseURL, "features-file": f.features}[name]
		}
	}
	if changed("gpu") {
		c.GPU = agent.GPU(f.gpu)
	}
	if changed("check-budget") {
		if err := c.Budget.UnmarshalText([]byte(f.budget)); err != nil {
			return c, fmt.Errorf("--check-budget: %w", err)
		}
	}
	if c.Server.URL == "" {
		return c, errors.New("--server: name the server, https://HOST[:PORT]")
	}
	return c, c.Validate()
}

func readAtMost(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

func (f *flags) run(ctx context.Context, changed func(string) bool) error {
	c, err := f.resolve(changed)
	if err != nil {
		return err
	}
	if f.listen.Address != "" {
		if err := f.listen.Check(); err != nil {
			return err
		}
	}
	o, err := f.options(ctx, c)
	if err != nil {
		return err
	}
	a, err := agent.Open(c, o)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served, err := f.serve(serving, a.Handler())
	if err != nil {
		return errors.Join(err, a.Close())
	}
	err = a.Run(ctx)
	stop()
	if err != nil {
		err = cli.Unknown(err)
	}
	return errors.Join(err, <-served, a.Close())
}

// serve answers until ctx ends; the channel has the error of that.
func (f *flags) serve(ctx context.Context, h http.Handler) (<-chan error, error) {
	done := make(chan error, 1)
	if f.listen.Address == "" {
		done <- nil
		return done, nil
	}
	ln, err := f.listen.Open(ctx)
	if err != nil {
		return nil, err
	}
	cli.Log(ctx).Info("metrics are served", "url", ln.URL+"/metrics")
	go func() { done <- ln.Serve(ctx, h) }()
	return done, nil
}

// options are what the agent needs of this process.
func (f *flags) options(ctx context.Context, c agent.Config) (agent.Options, error) {
	o := agent.Options{Version: cli.Version(), Log: cli.Log(ctx), Proxy: http.ProxyFromEnvironment, Env: os.Environ()}
	var err error
	for name, to := range map[string]*[]string{"nvml": &o.NVML, "supervise": &o.Supervisor} {
		if *to, err = native.Command(name); err != nil {
			return o, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("find this program, to start it again: %w", err)
	}
	o.Child = []string{self, "agent-check"}
	if c.Server.EnrolTokenFile != "" {
		o.EnrolToken = func() (string, error) { return secret(c.Server.EnrolTokenFile) }
	}
	if c.Engine.APIKeyFile != "" {
		o.APIKey = func() (string, error) { return secret(c.Engine.APIKeyFile) }
	}
	if f.phrase != "" {
		o.Passphrase = func() ([]byte, error) {
			s, err := secret(f.phrase)
			return []byte(s), err
		}
	}
	o.Notify, o.Watchdog, err = notifier()
	return o, err
}
