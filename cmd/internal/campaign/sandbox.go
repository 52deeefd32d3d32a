package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/pretend"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/internal/disk"
)

const sandboxLong = `Sandbox runs simulated clouds, over HTTP, on which a campaign can be tried without
money: Vast.ai and TensorDock with their habits. It prints their URLs and writes a
credentials file with keys for them, which every campaign command takes.

Faults are off unless asked for: --faults has all at rates seen in the open, by which
about two of three first tries fail, and --fault sets one, for both clouds or after
vast: or tensordock: for one of them. While it runs, the control address changes them
and shows the book: which instance lived from when to when and what it really cost,
and which limits were broken.

Nothing is behind an instance's address, unless --machines puts a machine there: an
SSH server on loopback, with this machine's shell, a stand-in for the driver and the
simulator as its Ollama. Then a campaign runs to its end, with figures that say
nothing about any GPU. The manual is docs/providers.md.`

type sandboxFlags struct {
	listen, control cli.Listener
	config          sandbox.Config
	credentials     string
	nasty, scripts  bool
	machines        bool
	faults          []string
}

func newSandbox() *cobra.Command {
	f := sandboxFlags{control: cli.Listener{Flag: "control", Private: true}}
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Run simulated clouds, with faults, to try a campaign on",
		Long:  sandboxLong + "\n\nSwitches:\n" + switchTable(),
		Example: `  assay campaign sandbox --listen 127.0.0.1:8090 --scale 60 --faults
  assay campaign check --credentials sandbox.env
  curl -s http://127.0.0.1:8091/book | jq '.entries[] | {label, cost}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.listen.Register(fs, "127.0.0.1:0", "the clouds answer on ")
	f.control.Register(fs, "127.0.0.1:0", "the book and the switches are on ")
	fs.StringVar(&f.credentials, "credentials", "sandbox.env", "`file` to write the keys to, with mode 0600")
	fs.Float64Var(&f.config.Scale, "scale", 1, "how much faster than real the clouds' clock runs, limits and prices included")
	fs.Uint64Var(&f.config.Seed, "seed", 0, "seed of the faults")
	fs.BoolVar(&f.nasty, "faults", false, "all faults, at rates seen in the open")
	fs.StringArrayVar(&f.faults, "fault", nil, "`NAME=VALUE`: one switch of the table above; repeatable")
	fs.BoolVar(&f.scripts, "scripts", false, "run the start scripts of Vast's instances on this machine: whoever has the key runs what they like")
	fs.BoolVar(&f.machines, "machines", false, "put a machine behind each instance, one at a time, on this one: whoever has its key runs what they like")
	return cmd
}

// switchTable is the list of switches as the help prints it.
func switchTable() string {
	var b strings.Builder
	for _, w := range sandbox.Switches() {
		fmt.Fprintf(&b, "  %-22s %-8s %s\n", w.Name, w.Kind, w.Help)
	}
	return strings.TrimRight(b.String(), "\n")
}

// resolve turns the flags into the sandbox' Config.
func (f *sandboxFlags) resolve(ctx context.Context) error {
	f.config.Faults = map[string]float64{}
	if f.nasty {
		f.config.Faults = sandbox.Nasty()
	}
	for _, text := range f.faults {
		name, value, ok := strings.Cut(text, "=")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			return fmt.Errorf("--fault %q: write NAME=VALUE, as list-lag=20", text)
		}
		f.config.Faults[name] = v
	}
	switch {
	case f.scripts && f.machines:
		return errors.New("--machines run their start scripts themselves: --scripts is for a sandbox without")
	case f.scripts:
		f.config.Start = sandbox.Scripts
	case f.machines:
		return f.pretend(ctx)
	}
	return nil
}

// pretend puts machines behind the instances.
func (f *sandboxFlags) pretend(ctx context.Context) error {
	if err := pretend.CheckPort(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it again: %w", err)
	}
	supervisor, err := native.Command("supervise")
	if err != nil {
		return err
	}
	f.config.Start = pretend.Start(pretend.Options{Command: []string{self, "campaign", "machine"}, Supervisor: supervisor, Env: os.Environ(), Log: cli.Log(ctx)})
	return nil
}

func (f *sandboxFlags) run(ctx context.Context, w io.Writer) error {
	if err := f.resolve(ctx); err != nil {
		return err
	}
	s, err := sandbox.New(f.config)
	if err != nil {
		return err
	}
	defer s.Close()
	clouds, err := f.listen.Open(ctx)
	if err != nil {
		return err
	}
	control, err := f.control.Open(ctx)
	if err != nil {
		return errors.Join(err, clouds.Close())
	}
	if err := f.announce(w, s, clouds.URL, control.URL); err != nil {
		return errors.Join(err, clouds.Close(), control.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var both sync.WaitGroup
	var controlled error
	both.Go(func() {
		controlled = control.Serve(ctx, s.Control())
		cancel()
	})
	err = clouds.Serve(ctx, s.Handler())
	cancel()
	both.Wait()
	return errors.Join(err, controlled)
}

// announce writes the credentials, and says where everything is.
func (f *sandboxFlags) announce(w io.Writer, s *sandbox.Sandbox, clouds, control string) error {
	vast, tensordock := clouds+sandbox.VastPath, clouds+sandbox.TensorDockPath
	text := fmt.Sprintf("VAST_API_KEY=%s\nVAST_API_URL=%s\nTENSORDOCK_API_KEY=%s\nTENSORDOCK_API_URL=%s\nASSAY_SANDBOX_SCALE=%s\n",
		s.Key(sandbox.Vast), vast, s.Key(sandbox.TensorDock), tensordock, strconv.FormatFloat(f.config.Scale, 'g', -1, 64))
	if err := disk.Replace(f.credentials, 0o600, disk.Bytes([]byte(text))); err != nil {
		return fmt.Errorf("write the credentials: %w", err)
	}
	fmt.Fprintf(w, "vast         %s\ntensordock   %s\ncontrol      %s\ncredentials  %s\n", vast, tensordock, control, f.credentials)
	return nil
}
