// Package claims is the command claims.
package claims

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/claims/engine"
	"github.com/assay-bench/assay/claims/gpu"
	"github.com/assay-bench/assay/claims/host"
	"github.com/assay-bench/assay/claims/show"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/report"
)

// New is the command claims.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "claims",
		Short: "Check this machine against promises",
		Long: `Claims runs probes, each a real measurement, and compares them with what was
promised. The verdict comes from the interval of what was measured: kept when
the whole interval keeps the promise, broken when the whole interval breaks it,
and otherwise unknown, with how many more samples would decide.`,
	}
	cmd.AddCommand(newClaimsRun(), newClaimsCheck(), newClaimsList())
	return cmd
}

// catalog is all that a claims file may name.
func catalog() claims.Catalog {
	return claims.Catalog{Probes: slices.Concat(host.Probes(), gpu.Probes(), engine.Probes()), Command: host.Command}
}

type claimsFlags struct {
	out, history, format, dir, module, baseURL string
	samples, iterations                        int
	duration, warmup, budget                   time.Duration
	untilDecided, quiet, stress                bool
	profileCPU, updateClaims, budgetGiven      bool
	seed                                       uint64
}

func newClaimsRun() *cobra.Command {
	var f claimsFlags
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Measure, and judge the claims of a file",
		Long: `Run measures the probes that the file names, five seconds each unless the file
says otherwise, and judges its claims. Nothing on the machine is changed; advice
comes with the command to apply it.

Exit codes: 0 every promise is kept; 1 used wrongly; 2 something is unknown;
3 a promise is broken.`,
		Example: `  assay claims run examples/claims/stratoswarm.yaml
  assay claims run claims.yaml --until-decided --format junit > claims.xml
  assay claims run claims.yaml --profile-cpu --update-claims`,
		Args: cli.Takes(1, 1, "a file of claims"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.budgetGiven = cmd.Flags().Changed("budget")
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	cli.SecondsVar(fs, &f.duration, "duration", 0, "how long each probe is measured, whatever the file says (default the file's, else 5s, unless --samples or --iterations)")
	fs.IntVar(&f.samples, "samples", 0, "samples of each probe at most")
	fs.IntVar(&f.iterations, "iterations", 0, "operations of each probe at most; a batch counts all of its own")
	fs.DurationVar(&f.warmup, "warmup", 0, "time before, which is not judged (default a tenth of --duration); negative: none")
	fs.BoolVar(&f.untilDecided, "until-decided", false, "go on until a claim is decided, at most for --budget")
	cli.SecondsVar(fs, &f.budget, "budget", time.Minute, "the most time of a probe with --until-decided")
	fs.BoolVar(&f.stress, "stress", false, "measure the families of probes side by side, each under the load of the others")
	fs.BoolVar(&f.profileCPU, "profile-cpu", false, "record in which code processor time goes, of the probes and of the engine's processes (perf, else our own process only)")
	fs.BoolVar(&f.updateClaims, "update-claims", false, "propose the file with promises as measured, as a diff; the file itself is never changed")
	fs.StringVar(&f.out, "out", "", "the results' `directory`; by default a new one under claims")
	fs.StringVar(&f.history, "history", "", "`file` that remembers earlier runs on this machine (default claims/history.json)")
	fs.StringVar(&f.dir, "scratch", "", "`directory` for probes to write to, on the disk that is meant; by default the system's for temporary files")
	fs.StringVar(&f.module, "module", "", "kernel `module` (its name or .ko file) to measure with and without; it is loaded and unloaded, which needs root")
	fs.StringVar(&f.baseURL, "base-url", "", "the engine's `URL` for inference probes; by default looked for on the usual ports")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of generated data")
	cli.FormatFlag(fs, &f.format, "of what is printed: text, json, junit or github", "text", "json", "junit", "github")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print the result only")
	return cmd
}

func (f *claimsFlags) run(ctx context.Context, path string, stdout, stderr io.Writer) error {
	write := map[string]func(*claims.Result) error{
		"text":   func(r *claims.Result) error { return cli.Show(stdout, show.Page(r)) },
		"json":   func(r *claims.Result) error { return r.JSON(stdout) },
		"junit":  func(r *claims.Result) error { return show.JUnit(stdout, r) },
		"github": func(r *claims.Result) error { return show.GitHub(stdout, r) },
	}[f.format]
	if write == nil {
		return fmt.Errorf("unknown format %q; known are text, json, junit, github", f.format)
	}
	if f.budgetGiven && !f.untilDecided {
		return errors.New("--budget is for --until-decided; --duration says how long each probe is measured")
	}
	text, suite, err := readFile(path)
	if err != nil {
		return err
	}
	p := cli.NewProgress(stderr, f.quiet)
	o := claims.Options{
		Duration: f.duration, Samples: f.samples, Iterations: f.iterations, Warmup: f.warmup,
		UntilDecided: f.untilDecided, Budget: f.budget, Stress: f.stress, Dir: f.out, History: f.history,
		Version: cli.Release, Log: p.Log(ctx),
		Env: claims.Env{Dir: f.dir, Module: f.module, EngineURL: f.baseURL, Seed: f.seed},
	}
	if o.Dir == "" {
		o.Dir = filepath.Join("claims", time.Now().Format("20060102-150405"))
	}
	if o.History == "" {
		o.History = filepath.Join("claims", "history.json")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it again: %w", err)
	}
	o.Env.GPU, o.Env.Agent = []string{self, "probe"}, []string{self, "ready"}
	if o.Env.NVML, err = native.Command("nvml"); err != nil {
		return err
	}
	o.Beside = f.beside(ctx, suite, o.Env)
	p.Say("collecting system information")
	o.Machine = host.ReadMachine(ctx, host.MachineOptions{})
	r, err := claims.Run(ctx, suite, o)
	if err != nil {
		return err
	}
	if err := show.Write(o.Dir, r); err != nil {
		return err
	}
	p.Clear()
	if err := write(r); err != nil {
		return err
	}
	if f.updateClaims {
		if err := f.propose(r, text, o.Dir, stdout, p); err != nil {
			return errors.Join(err, promised(r.Verdict))
		}
	}
	p.Say("\nreport: %s", filepath.Join(o.Dir, show.ReportFile))
	return promised(r.Verdict)
}

// promised is the exit code.
func promised(v assay.Verdict) error {
	if v == assay.Fail {
		return cli.Judged(v, errors.New("a promise is broken"))
	}
	return cli.Judged(v, errors.New("not every promise could be decided"))
}

func newClaimsList() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "list", Short: "Name the probes, with what each does and needs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := append(catalog().Probes, claims.EmptyProbe())
			switch format {
			case "text":
				return cli.Show(cmd.OutOrStdout(), probePage(all))
			case "json":
				type line struct {
					Name   string `json:"name"`
					Unit   string `json:"unit"`
					Better string `json:"better"`
					Help   string `json:"help"`
					Needs  string `json:"needs,omitempty"`
				}
				out := []line{}
				for _, p := range all {
					out = append(out, line{p.Name, p.Unit, p.Better.String(), p.Help, p.Needs})
				}
				return cli.WriteJSON(cmd.OutOrStdout(), out)
			}
			return fmt.Errorf("unknown format %q; known are text, json", format)
		},
	}
	cli.FormatFlag(cmd.Flags(), &format, "text or json", "text", "json")
	return cmd
}

func probePage(all []claims.Probe) report.Page {
	t := report.Table{Columns: []report.Column{{Name: "probe"}, {Name: "unit", Words: true}, {Name: "better", Words: true}, {Name: "what it does, and needs", Words: true}}}
	for _, p := range all {
		text := p.Help
		if p.Needs != "" {
			text = strings.TrimSuffix(text, ".") + ". Needs " + p.Needs
		}
		t.Rows = append(t.Rows, []string{p.Name, p.Unit, p.Better.String(), text})
	}
	return report.Page{Title: "Probes", Blocks: []report.Block{t}}
}

// Probe runs GPU probes for a parent process, which can kill it.
func Probe() *cobra.Command {
	return &cobra.Command{
		Use: "probe", Hidden: true, Short: "Run GPU probes for a parent process", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return gpu.Serve(cmd.InOrStdin(), cmd.OutOrStdout(), gpu.Native{})
		},
	}
}

// Ready is an agent that is ready and ends: what a spawn probe starts.
func Ready() *cobra.Command {
	return &cobra.Command{
		Use: "ready", Hidden: true, Short: "Say ready, and end", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return err
		},
	}
}
