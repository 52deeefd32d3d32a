// Package report is the command report.
package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/vllm"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/report/dialect"
	"github.com/assay-bench/assay/summary"
)

// Format is a rendering of a run: one document, or several files.
type Format struct {
	Name string
	Help string
	// Files makes several files instead of one document.
	Files func(run *journal.Run, save Save) error

	write func(w io.Writer, r reported) error
}

// Save writes a file of a format that makes several.
type Save func(name string, write func(io.Writer) error) error

// reported is a run, read and judged.
type reported struct {
	run    *journal.Run
	sum    assay.Summary
	health assay.Health

	verbose bool
}

// formats are those that every program has.
func formats() []Format {
	return []Format{
		{Name: "text", Help: "for a terminal", write: func(w io.Writer, r reported) error {
			if r.verbose {
				return cli.Show(w, report.Run(r.sum, &r.health))
			}
			return cli.Show(w, report.First(r.sum, &r.health, "-v has all tables, --format html the plots"))
		}},
		{Name: "html", Help: "one page with plots that needs no network", write: func(w io.Writer, r reported) error {
			page, err := healthPage(r)
			if err != nil {
				return err
			}
			return report.HTML(w, page)
		}},
		{Name: "md", Help: "the same for a wiki or an issue", write: func(w io.Writer, r reported) error {
			page, err := healthPage(r)
			if err != nil {
				return err
			}
			return report.Markdown(w, page)
		}},
		{Name: "json", Help: "summary.json, made anew", write: func(w io.Writer, r reported) error { return cli.WriteJSON(w, r.sum) }},
		{Name: "health", Help: "health.json, made anew", write: func(w io.Writer, r reported) error { return cli.WriteJSON(w, r.health) }},
		{Name: "prometheus", Help: "for a textfile collector", write: func(w io.Writer, r reported) error {
			return report.Prometheus(w, r.sum, &r.health)
		}},
		{Name: "benchmark-checkpoint", Help: "benchmark_checkpoint.json of the test design's script (docs/origins.md)", write: func(w io.Writer, r reported) error {
			return dialect.BenchmarkCheckpoint(w, r.run.Manifest(), checkpointOf(r.run), r.run.Requests())
		}},
		{Name: "benchmark-results", Help: "that script's summary alone", write: func(w io.Writer, r reported) error {
			return dialect.BenchmarkResults(w, r.run.Requests())
		}},
		{Name: "vllm", Help: "the result file of vllm bench serve, a line for each stage (docs/vllm.md)", write: func(w io.Writer, r reported) error {
			results, err := vllm.Results(r.run, dialect.VLLMOptions{})
			if err != nil {
				return cli.Unknown(err)
			}
			return vllm.Write(w, r.run, results)
		}},
		{Name: "aiperf", Help: "profile_export_aiperf.json for each stage, in the run directory or in --output (docs/migrating.md)", Files: stageFiles("profile_export_aiperf", aiperf)},
		{Name: "llm-d", Help: "llm-d's benchmark report for each stage, likewise", Files: stageFiles("benchmark_report_v"+dialect.LLMDVersion, llmd)},
	}
}

// checkpointOf is how far the run came; zero: it does not say.
func checkpointOf(run *journal.Run) assay.Checkpoint {
	c, err := run.Checkpoint()
	if err != nil {
		return assay.Checkpoint{}
	}
	if run.Status() != assay.StatusComplete && c.Status == assay.StatusComplete {
		c.Status = assay.StatusPartial // what it covers is not all there
	}
	return c
}

// New is the command report, with further formats.
func New(more ...Format) *cobra.Command {
	var format, output string
	var verbose bool
	all := append(formats(), more...)
	var names, help []string
	for _, f := range all {
		names = append(names, f.Name)
		help = append(help, fmt.Sprintf("  %-20s %s", f.Name, f.Help))
	}
	cmd := &cobra.Command{
		Use:   "report DIR|latest",
		Short: "Show a run again",
		Long: `Report summarises and judges a run directory anew and shows it. A run that was
interrupted, or that is still under way, can be shown too. latest is the newest
run under runs.

Formats:
` + strings.Join(help, "\n"),
		Example: `  assay report latest
  assay report runs/20261115-120000 --format html --output health.html`,
		Args:              cli.Takes(1, 1, "a run directory"),
		ValidArgsFunction: completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			format := formatOf(format, output, cmd.Flags().Changed("format"))
			i := slices.IndexFunc(all, func(f Format) bool { return f.Name == format })
			if i < 0 {
				return fmt.Errorf("unknown format %q; known are %s", format, strings.Join(names, ", "))
			}
			dir, err := runDir(args[0])
			if err != nil {
				return err
			}
			run, err := journal.Open(dir)
			if err != nil {
				return cli.Unknown(err)
			}
			f := all[i]
			if f.Files != nil {
				to := output
				if to == "" {
					to = dir
				}
				if err := os.MkdirAll(to, 0o755); err != nil {
					return err
				}
				return f.Files(run, func(name string, write func(io.Writer) error) error {
					path := filepath.Join(to, name)
					if err := cli.SaveFile(path, write); err != nil {
						return err
					}
					_, err := fmt.Fprintln(cmd.OutOrStdout(), "wrote", path)
					return err
				})
			}
			r := reported{run: run, verbose: verbose}
			if r.sum, err = summary.Of(run); err != nil {
				return cli.Unknown(err)
			}
			if r.health, err = hammer.Health(run, r.sum); err != nil {
				return cli.Unknown(err)
			}
			if output == "" || output == "-" {
				return f.write(cmd.OutOrStdout(), r)
			}
			return cli.SaveFile(output, func(w io.Writer) error { return f.write(w, r) })
		},
	}
	cli.FormatFlag(cmd.Flags(), &format, "by default what the output's name ends in, else text: "+strings.Join(names, ", "), names...)
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every table")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `file` (or directory, for formats that are several files)")
	return cmd
}

// formatOf is the format that was asked for, or else the one that the output's name
// ends in: text in a file called x.html is never meant.
func formatOf(format, output string, asked bool) string {
	if !asked {
		switch strings.ToLower(filepath.Ext(output)) {
		case ".html", ".htm":
			return "html"
		case ".md", ".markdown":
			return "md"
		case ".json":
			return "json"
		case ".prom":
			return "prometheus"
		}
	}
	if format == "markdown" {
		return "md"
	}
	return format
}

// healthPage is the page with plots.
func healthPage(r reported) (report.Page, error) {
	checks, err := hammer.Checks(r.run)
	if err != nil {
		return report.Page{}, err
	}
	series, err := drawn(r.run)
	if err != nil {
		return report.Page{}, err
	}
	return report.Health(report.HealthInput{
		Manifest: r.run.Manifest(), Summary: r.sum, Health: &r.health, Checks: checks, Series: series,
	}), nil
}

// mostDrawn bounds the points of one series in memory. When it is reached every
// second point is left out, and from then on every second one is not taken:
// a page draws a thousand.
const mostDrawn = 20000

// course collects one series.
type course struct {
	report.Series
	every, skipped int
}

func (c *course) add(at int64, v float64) {
	if c.skipped++; c.skipped < c.every {
		return
	}
	c.skipped = 0
	c.Times, c.Values = append(c.Times, at), append(c.Values, v)
	if len(c.Times) < mostDrawn {
		return
	}
	for i := range len(c.Times) / 2 {
		// The larger of two stays: a picture that hides a spike is of no use.
		keep := 2 * i
		if c.Values[keep+1] > c.Values[keep] {
			keep++
		}
		c.Times[i], c.Values[i] = c.Times[keep], c.Values[keep]
	}
	c.Times, c.Values = c.Times[:len(c.Times)/2], c.Values[:len(c.Values)/2]
	c.every = max(1, c.every) * 2
}

// drawn reads what a page shows over time.
func drawn(run *journal.Run) ([]report.Series, error) {
	units := map[string]string{}
	for _, n := range assay.ReadingNames() {
		units[n.Name] = n.Unit
	}
	all := map[[2]string]*course{}
	of := func(name, device, unit string) *course {
		key := [2]string{name, device}
		c := all[key]
		if c == nil {
			c = &course{Series: report.Series{Name: name, Device: device, Unit: unit}}
			all[key] = c
		}
		return c
	}
	for r, err := range run.Readings() {
		if err != nil {
			return nil, err
		}
		unit, known := units[r.Name]
		if !known || r.Value == nil || math.IsNaN(*r.Value) {
			continue
		}
		of(r.Name, r.Device, unit).add(r.At, *r.Value)
	}
	for r, err := range run.Requests() {
		if err != nil {
			return nil, err
		}
		if r.Warmup || r.Error != "" {
			continue
		}
		if ns, ok := r.TTFT(); ok {
			of("ttft_ms", "", "ms").add(r.Sent, float64(ns)/1e6)
		}
		if ns, ok := r.TPOT(); ok {
			of("tpot_ms", "", "ms").add(r.Sent, ns/1e6)
		}
	}
	var out []report.Series
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b [2]string) int {
		return slices.Compare(a[:], b[:])
	}) {
		out = append(out, all[key].Series)
	}
	return out, nil
}
