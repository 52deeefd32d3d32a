// Package compare is the command compare.
package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/compare/experiment"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/report/plot"
)

type compareFlags struct {
	config, output, results, resume, checkBinary, locked, format string
	engines                                                      []string
	gates                                                        []string
	verbose, quiet, analyzeOnly, generateReport                  bool
}

// New is the command compare.
func New() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare [FILE.yaml | RUNS RUNS...]",
		Short: "Which engine is faster, and is it more than noise",
		Long: `Compare runs an experiment over several engines, each in processes of its own,
and says which differences hold up. The sample is a run: rounds are blocks,
every engine runs once a round in random order, and how many rounds are needed
is computed from a pilot and printed before the start.

Given directories of runs instead of a file, it compares those and starts
nothing. Single runs are shown with intervals within the run, which decide
nothing.

Exit codes: 0 done (and every --gate kept); 1 used wrongly; 2 could not measure,
or a gate could not be decided; 3 a gate was broken.`,
		Example: `  assay compare bench.yaml --output results/first
  assay compare bench.yaml --engines vllm,sglang --gate "ttft_p99<=+5%"
  assay compare --analyze-only --results results/first
  assay compare runs/before runs/after --gate "output_tokens_per_second>=-5%"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.config, "config", "", "the experiment's YAML `file`; the same as FILE.yaml")
	fs.StringVar(&f.output, "output", "", "the results' `directory`; by default the file's output_dir")
	fs.StringSliceVar(&f.engines, "engines", nil, "only these engines, `a,b`")
	fs.StringArrayVar(&f.gates, "gate", nil, "what each engine must keep against the first, such as `ttft_p99<=+5%`")
	fs.StringVar(&f.resume, "resume", "", "go on with the experiment in this `directory`")
	fs.BoolVar(&f.analyzeOnly, "analyze-only", false, "measure nothing: analyse --results anew")
	fs.StringVar(&f.results, "results", "", "the `directory` for --analyze-only")
	fs.BoolVar(&f.generateReport, "generate-report", false, "with --analyze-only, where it is implied: write report, tables and plots")
	fs.StringVar(&f.locked, "locked", "", "refuse engines that differ from those of this experiment (a `directory` or experiment.json)")
	fs.StringVar(&f.checkBinary, "check-binary", "", "check a benchmark binary at this `path` against the protocol, and stop")
	cli.FormatFlag(fs, &f.format, "of what is printed: text, json, md or benchstat", "text", "json", "md", "benchstat")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print every table")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print the result only")
	return cmd
}

func (f *compareFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var gates []compare.Gate
	for _, text := range f.gates {
		g, err := compare.ParseGates(text)
		if err != nil {
			return err
		}
		gates = append(gates, g...)
	}
	if f.format == "markdown" {
		f.format = "md"
	}
	switch f.format {
	case "text", "json", "md", "benchstat":
	default:
		return fmt.Errorf("unknown format %q; known are text, json, md, benchstat", f.format)
	}
	p := cli.NewProgress(stderr, f.quiet)
	opt, err := f.options(ctx, p)
	if err != nil {
		return err
	}
	if f.checkBinary != "" {
		return check(ctx, f.checkBinary, args, opt, stdout)
	}
	e, dir, err := f.experiment(ctx, args, opt)
	p.Clear()
	if len(e.Samples) == 0 {
		return outcome(err, e, nil, assay.Unknown, dir)
	}
	a := compare.Analyze(e)
	if dir != "" {
		o := compare.OutputOptions{Plot: func(w io.Writer, c report.Chart) error { return plot.PNG(w, c, plot.Options{}) }}
		if werr := compare.WriteOutputs(dir, e, a, o); werr != nil {
			return errors.Join(err, werr)
		}
	}
	held, verdict := compare.CheckGates(e, a, gates)
	if perr := f.show(stdout, e, a, held); perr != nil {
		return errors.Join(err, perr)
	}
	if dir != "" {
		p.Say("\nreport: %s", filepath.Join(dir, compare.ReportFile))
	}
	if len(gates) == 0 {
		verdict = assay.Pass
	}
	return outcome(err, e, held, verdict, dir)
}

// options are what an experiment needs of this process.
func (f *compareFlags) options(ctx context.Context, p *cli.Progress) (experiment.Options, error) {
	supervisor, err := native.Command("supervise")
	if err != nil {
		return experiment.Options{}, err
	}
	nvml, err := native.Command("nvml")
	if err != nil {
		return experiment.Options{}, err
	}
	o := experiment.Options{
		Version: cli.Version(), Command: os.Args, Supervisor: supervisor, NVML: nvml, Environ: os.Environ(),
		Log: p.Log(ctx),
		Progress: func(x experiment.Progress) {
			if x.Run != nil && p.Terminal() { // a log has a line for each run already
				c := *x.Run
				c.Stage = fmt.Sprintf("round %d of %d, %s, %s", x.Round, x.Rounds, x.Engine, x.Workload)
				p.Show(c)
			}
		},
	}
	if f.locked != "" {
		path := f.locked
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, compare.ExperimentFile)
		}
		if o.Locked, err = compare.ReadLocks(path); err != nil {
			return o, err
		}
	}
	return o, nil
}

// experiment makes, resumes or reads the experiment, and says where its results
// go; nowhere for runs that are only looked at.
func (f *compareFlags) experiment(ctx context.Context, args []string, opt experiment.Options) (compare.Experiment, string, error) {
	switch {
	case f.analyzeOnly:
		dir := f.results
		if dir == "" && len(args) == 1 {
			dir = args[0]
		}
		if dir == "" {
			return compare.Experiment{}, "", errors.New("--analyze-only needs --results DIR, an experiment's directory")
		}
		e, err := compare.ReadExperiment(dir)
		if err != nil {
			return e, "", cli.Unknown(err)
		}
		return e, dir, nil
	case f.resume != "":
		opt.Version = cli.MeasuringVersion()
		e, err := experiment.Resume(ctx, f.resume, opt)
		return e, f.resume, err
	case len(args) > 1:
		e, err := compare.FromRuns(args...)
		e.Command = opt.Command
		if err != nil {
			return e, "", cli.Unknown(err)
		}
		return e, f.output, nil
	}
	path := f.config
	if path == "" && len(args) == 1 {
		path = args[0]
	}
	if path == "" {
		return compare.Experiment{}, "", errors.New("give an experiment's YAML file, or two or more directories of runs")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return compare.Experiment{}, "", fmt.Errorf("%s is one directory: give two or more directories of runs to compare, or --analyze-only for an experiment's", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return compare.Experiment{}, "", err
	}
	defer file.Close()
	c, err := experiment.ReadConfig(file, path)
	if err != nil {
		return compare.Experiment{}, "", err
	}
	if len(f.engines) > 0 {
		if err := c.Pick(f.engines); err != nil {
			return compare.Experiment{}, "", err
		}
	}
	dir := f.output
	if dir == "" {
		dir = c.Benchmark.OutputDir
	}
	if dir == "" {
		return compare.Experiment{}, "", errors.New("say where the results go: --output DIR, or output_dir in the file")
	}
	opt.Version = cli.MeasuringVersion()
	e, err := experiment.Run(ctx, c, dir, opt)
	return e, dir, err
}

func (f *compareFlags) show(w io.Writer, e compare.Experiment, a compare.Analysis, held []compare.GateResult) error {
	switch f.format {
	case "json":
		return cli.WriteJSON(w, compare.DocumentOf(a, held))
	case "benchstat":
		return compare.Benchstat(w, e)
	}
	page := compare.Brief(e, a)
	if f.verbose || f.format == "md" {
		page = compare.Page(e, a, false)
	}
	if len(held) > 0 {
		l := report.List{Head: "gate"}
		for _, h := range held {
			text := fmt.Sprintf("%s: %s for %s against %s on %s", h.Verdict, h.Gate, h.Engine, h.Against, h.Workload)
			if h.Why != "" {
				text += "; " + h.Why
			}
			l.Items = append(l.Items, text)
		}
		page.Blocks = append(page.Blocks, l)
	}
	if f.format == "md" {
		return report.Markdown(w, page)
	}
	return cli.Show(w, page)
}

// outcome is the exit code.
func outcome(err error, e compare.Experiment, held []compare.GateResult, gates assay.Verdict, dir string) error {
	switch {
	case errors.Is(err, experiment.ErrInterrupted):
		return cli.Unknown(fmt.Errorf("interrupted; what there is was saved, and assay compare --resume %s goes on", dir))
	case errors.Is(err, experiment.ErrAllFailed), errors.Is(err, experiment.ErrLocked), errors.Is(err, experiment.ErrBusy), errors.Is(err, experiment.ErrMissing):
		return cli.Unknown(err)
	case err != nil && len(e.Samples) > 0:
		return cli.Unknown(err)
	case err != nil:
		return err
	case gates == assay.Fail:
		for _, h := range held {
			if h.Verdict == "broken" {
				return cli.Failed(fmt.Errorf("the gate %s is broken by %s on %s", h.Gate, h.Engine, h.Workload))
			}
		}
		return cli.Failed(errors.New("a gate is broken"))
	case gates != assay.Pass:
		return cli.Unknown(errors.New("a gate could not be decided"))
	}
	return nil
}

func check(ctx context.Context, path string, args []string, opt experiment.Options, w io.Writer) error {
	c, err := experiment.CheckBinary(ctx, path, args, opt)
	if err != nil {
		return cli.Unknown(err)
	}
	for _, p := range c.Problems {
		if _, err := fmt.Fprintln(w, foreign.Line(p, 4<<10)); err != nil {
			return err
		}
	}
	if len(c.Problems) > 0 {
		return cli.Failed(fmt.Errorf("%s does not keep to docs/formats/benchmark-binary.md: %d problems in %d lines", path, len(c.Problems), c.Lines))
	}
	_, err = fmt.Fprintf(w, "%s keeps to the protocol: %d request lines\n", path, c.Lines)
	return err
}
