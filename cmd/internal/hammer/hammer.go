// Package hammer is the command hammer.
package hammer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/cmd/internal/cli/publish"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/verify"
)

// New is the command hammer. Its records go to the outlet; nil: nowhere.
func New(outlet publish.Outlet) *cobra.Command {
	f := hammerFlags{publish: publish.Flags{Outlet: outlet}}
	cmd := &cobra.Command{
		Use:   "hammer [flags]",
		Short: "Measure an inference engine",
		Long: `Hammer measures an inference engine and proves that the numbers are about the
engine and not about the measuring.

With no flags it looks for an engine on the local ports where they usually
listen (11434, 8000, 8080, 30000, 1234), says which one it took, and answers in
about a minute. It takes the command line of "vllm bench serve" when its first
words are replaced; docs/vllm.md says what becomes of each flag.

The run is recorded in a directory of its own (--out). Ctrl-C saves what there
is, and --resume goes on with it.

Exit codes: 0 measured; 1 used wrongly; 2 could not measure (no engine, the
engine died, nothing succeeded, or the client was the bottleneck); 3 measured,
and an objective (--slo) was not kept.`,
		Example: `  assay hammer
  assay hammer --profile small_model --scenario baseline_capacity --duration 2m
  assay hammer --base-url http://10.0.0.7:8000 --request-rate 8 --num-prompts 500 --goodput ttft:200 tpot:50
  assay hammer --saturate
  assay hammer --find-max rate --slo "ttft_p99<200ms"`,
		Args: cli.Takes(0, 0, "no arguments"),
	}
	f.register(cmd.Flags())
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		list := basicUsage
		if f.helpAll {
			list = hammerUsage
		}
		_, err := fmt.Fprintf(c.OutOrStderr(), "Usage:\n  %s\n\nExamples:\n%s\n\n%s", c.UseLine(), c.Example, list(c.Flags()))
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.helpAll {
			return cmd.Help()
		}
		cfg, out, notes, err := f.config(cmd.Flags(), os.Getenv, os.ReadFile)
		if err != nil {
			return err
		}
		return runHammer(cmd.Context(), cfg, out, notes, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

func runHammer(ctx context.Context, cfg hammer.Config, out hammerOutputs, notes []string, stdout, stderr io.Writer) error {
	p := cli.NewProgress(stderr, out.Quiet || out.NoProgress)
	if !out.Quiet {
		for _, n := range notes {
			fmt.Fprintln(stderr, "note:", foreign.Line(n, 4<<10))
		}
	}
	if out.DryRun {
		return writeConfig(stdout, cfg)
	}
	// The measuring process has little to collect and much to be on time for.
	debug.SetGCPercent(400)
	opt := hammer.Options{Version: cli.MeasuringVersion(), Nonce: out.Nonce, Progress: p.Show}
	signer, err := out.signing(ctx)
	if err != nil {
		return err
	}
	if opt.NVML, err = native.Command("nvml"); err != nil {
		return err
	}
	pub, err := out.Publish.Open()
	if err != nil {
		return err
	}
	err = hammerOnce(ctx, cfg, out, opt, signer, pub, p, stdout)
	return errors.Join(err, pub.Close(ctx, p))
}

// hammerOnce measures, shows, signs and judges.
func hammerOnce(ctx context.Context, cfg hammer.Config, out hammerOutputs, opt hammer.Options, signer *keys.Signing, pub *publish.Publisher, p *cli.Progress, stdout io.Writer) error {
	if out.Metrics.Address != "" {
		stop, err := exportTo(ctx, &opt, out.Metrics, time.Duration(cfg.Telemetry.Interval), p)
		if err != nil {
			return err
		}
		defer stop()
	}
	dir := out.Resume
	var sum assay.Summary
	var err error
	if out.Checks != "" {
		if opt.Checks, err = readChecks(out.Checks); err != nil {
			return err
		}
	}
	if dir != "" {
		sum, err = hammer.Resume(ctx, dir, hammer.Secrets{APIKey: cfg.APIKey, Headers: cfg.Headers}, opt)
	} else {
		if err := target(ctx, &cfg, hammer.Ports(), p); err != nil {
			return err
		}
		if dir = out.OutDir; dir == "" {
			if dir, err = journal.NewDir("runs", time.Now()); err != nil {
				return err
			}
			defer func() { _ = os.Remove(dir) }() // does nothing to one that holds a run
		}
		if out.Verify {
			p.Say("verifying the GPUs; the product alone takes two seconds each")
			found, verr := native.Verify(ctx, verify.Options{})
			if verr != nil {
				p.Say("note: verify: %v", verr)
			}
			opt.Checks = append(opt.Checks, found.Checks...)
			pub.Verified(ctx, found.Operations, found.Checks)
		}
		pub.Event(ctx, "run_started", "hammer", fmt.Sprintf("measuring %s at %s", cfg.Model, cfg.URL), map[string]any{"model": cfg.Model, "backend": cfg.Backend})
		sum, err = hammer.Run(ctx, cfg, dir, opt)
	}
	p.Clear()
	h := healthOf(dir)
	if sum.Format != "" {
		if perr := show(stdout, sum, h, out, dir); perr != nil {
			return errors.Join(err, perr)
		}
		p.Say("\nrun directory: %s", dir)
		// Also a run that was interrupted: its statements say so.
		records, serr := signRunDir(ctx, signer, out, dir, p)
		if serr != nil {
			return errors.Join(err, serr)
		}
		pub.Add(ctx, records...)
		pub.Event(ctx, "run_ended", "hammer", fmt.Sprintf("run %s: %s", sum.RunID, sum.Status), map[string]any{"run": sum.RunID, "status": sum.Status, "certificate": sum.Client.Certificate})
		if eerr := writeExports(dir, out); eerr != nil {
			return errors.Join(err, eerr)
		}
	}
	if err := outcome(sum, h, err, dir, out.AllowInvalid); err != nil {
		if out.SaveBaseline != "" {
			p.Say("no baseline was saved: later runs could not be compared with this one")
		}
		return err
	}
	return saveBaseline(dir, sum, out.SaveBaseline, p)
}

// healthOf is what a run's directory says of the node; nil when it has none, as
// when the disk was full.
func healthOf(dir string) *assay.Health {
	run, err := journal.Open(dir)
	if err != nil {
		return nil
	}
	h, err := run.Health()
	if err != nil {
		return nil
	}
	return h
}

// target finds the engine, on one of the ports if nobody named its address, and
// has it tell about itself.
func target(ctx context.Context, cfg *hammer.Config, ports []int, p *cli.Progress) error {
	found := cfg.URL == ""
	if found {
		url, err := hammer.Find(ctx, ports)
		if err != nil {
			return cli.Unknown(err)
		}
		cfg.URL, cfg.Found = url, true
		if cfg.APIKey != "" {
			// Whatever listens there need not be the engine that the key is for.
			cfg.APIKey = ""
			p.Say("note: OPENAI_API_KEY is not sent to an engine that was only found; name its address with --base-url %s to have it sent", url)
		}
	}
	if err := hammer.Resolve(ctx, cfg); errors.Is(err, hammer.ErrNoModel) {
		return err // a name to correct, not an engine to repair
	} else if err != nil {
		return cli.Unknown(err)
	}
	how := "measuring"
	if found {
		how = "found"
	}
	p.Say("%s %s at %s (%s)", how, cfg.Model, cfg.URL, cfg.Backend)
	if d, ok := cfg.Length(); ok {
		p.Say("this takes about %s", d.Round(time.Second))
	}
	return nil
}

// show prints the first screen, or with verbose everything.
func show(w io.Writer, sum assay.Summary, h *assay.Health, out hammerOutputs, dir string) error {
	switch {
	case out.Format == "json":
		return cli.WriteJSON(w, sum)
	case out.Verbose:
		return cli.Show(w, report.Run(sum, h))
	}
	return cli.Show(w, report.First(sum, h, "assay report "+foreign.Shell(dir)+" -v has all tables, --format html the plots"))
}

// outcome is what the run's end means for the exit code.
func outcome(sum assay.Summary, h *assay.Health, err error, dir string, allowInvalid bool) error {
	switch {
	case errors.Is(err, hammer.ErrInterrupted):
		return cli.Unknown(fmt.Errorf("interrupted; what there is was saved, and assay hammer --resume %s goes on", dir))
	case errors.Is(err, hammer.ErrEngineDown):
		return cli.Unknown(fmt.Errorf("%w; start the engine again, then assay hammer --resume %s goes on", err, dir))
	case errors.Is(err, hammer.ErrNothingMeasured), errors.Is(err, hammer.ErrTooShort):
		return cli.Unknown(err)
	case err != nil && sum.Format != "":
		return cli.Unknown(err) // the run began, and could not be brought to its end
	case err != nil:
		return err
	case sum.Client.Certificate == assay.Invalid && !allowInvalid:
		return cli.Unknown(fmt.Errorf("invalid: the client was the bottleneck (%s); --allow-invalid accepts such numbers", sum.Client.Cause))
	}
	return errors.Join(judged(sum), healthy(h))
}

// healthy holds the node's health: one that is bad fails, and one that was held
// against a baseline and could not be scored is not a pass. Health that nobody
// asked for and that could not be read says nothing.
func healthy(h *assay.Health) error {
	switch {
	case h == nil:
		return nil
	case h.Verdict == assay.Fail:
		return cli.Failed(fmt.Errorf("the node is not healthy: %s", h.Because))
	case h.Score.Baseline != "" && h.Score.Overall == nil:
		return cli.Unknown(fmt.Errorf("the node could not be scored against %s: %s", h.Score.Baseline, h.Score.Unknown["overall"]))
	}
	return nil
}
