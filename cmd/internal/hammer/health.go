package hammer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/score"
	"github.com/assay-bench/assay/telemetry"
)

// registerHealth adds what is asked about the node: its readings, what they are
// compared with and what it costs.
func (f *hammerFlags) registerHealth(fs *pflag.FlagSet) {
	cli.SecondsVar(fs, &f.sampleInterval, "sample-interval", 100*time.Millisecond, "how often GPUs, host and engine are read; 0: not at all")
	fs.StringVar(&f.dcgm, "dcgm-exporter", "", "`URL` of a dcgm-exporter to read in place of the driver")
	f.metrics.Listener = metricsListener()
	f.metrics.Register(fs, "", "serve readings and progress for Prometheus on this ")
	fs.BoolVar(&f.metrics.DCGM, "dcgm-names", false, "with --metrics: also under DCGM's names, which dashboards know")
	fs.BoolVar(&f.verify, "verify", false, "verify the GPUs first, as assay verify does, and judge the node by that too")
	fs.StringVar(&f.checks, "checks", "", "judge the node also by what assay verify --out found before, in this `directory`")
	fs.StringVar(&f.baseline, "baseline", "", "score the node against this `file`, or a baseline that is shipped, by its name")
	fs.StringVar(&f.saveBaseline, "save-baseline", "", "accept this run as the node's baseline: write it to a `file`")
	fs.StringVar(&f.price, "price", "", "what renting the node costs, `0.35/h`")
	fs.StringVar(&f.energyRate, "energy-rate", "", "what energy costs, `0.30/kWh`")
	fs.StringVar(&f.currency, "currency", "USD", "of --price and --energy-rate")
}

// maxBaselineFile bounds --baseline.
const maxBaselineFile = 1 << 20

// health resolves the flags of registerHealth that belong to the measurement.
func (r *resolver) health(readFile func(string) ([]byte, error)) {
	if r.sampleInterval < 0 || r.sampleInterval > 0 && r.sampleInterval < 10*time.Millisecond {
		r.bad("--sample-interval is at least 10ms, or 0 for no readings, not %s", r.sampleInterval)
	}
	r.c.Telemetry.Interval = assay.Duration(r.sampleInterval)
	if r.dcgm != "" {
		if u, err := url.Parse(r.dcgm); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			r.bad("--dcgm-exporter: write http://HOST:9400/metrics")
		}
		r.c.Telemetry.DCGM = r.dcgm
	}
	if r.currency == "" || len(r.currency) > 8 || strings.ContainsFunc(r.currency, func(c rune) bool { return c <= ' ' || c > '~' }) {
		r.bad("--currency is a short word such as EUR, not %q", r.currency)
	}
	r.c.Judge.PricePerHour = r.rate("price", r.price, "h")
	r.c.Judge.EnergyRate = r.rate("energy-rate", r.energyRate, "kWh")
	if r.baseline != "" {
		base, err := loadBaseline(r.baseline, readFile)
		if err != nil {
			r.bad("read --baseline: %w", err)
			return
		}
		r.c.Judge.Baseline = &base
	}
}

// loadBaseline reads a file, or finds a baseline of that name among those that the
// program ships.
func loadBaseline(name string, readFile func(string) ([]byte, error)) (assay.Baseline, error) {
	b, err := readFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		list, err := score.Catalogue()
		if err != nil {
			return assay.Baseline{}, err
		}
		var names []string
		for _, base := range list {
			if base.Name == name {
				return base, nil
			}
			names = append(names, base.Name)
		}
		return assay.Baseline{}, fmt.Errorf("there is no file %s, and no such baseline is shipped; there are %s", name, strings.Join(names, ", "))
	case err != nil:
		return assay.Baseline{}, err
	case len(b) > maxBaselineFile:
		return assay.Baseline{}, fmt.Errorf("%s is larger than %d bytes, which no baseline is", name, maxBaselineFile)
	}
	base, err := score.ParseBaseline(b)
	if err != nil {
		return base, fmt.Errorf("%s: %w; assay hammer --save-baseline FILE writes one", name, err)
	}
	return base, nil
}

// rate reads an amount of money a unit, as 0.35/h.
func (r *resolver) rate(flag, text, unit string) *assay.Money {
	if text == "" {
		return nil
	}
	amount, per, ok := strings.Cut(text, "/")
	if ok && !strings.EqualFold(per, unit) {
		r.bad("--%s is an amount a %s, such as 0.35/%s, not a %s", flag, unit, unit, per)
		return nil
	}
	m, err := assay.ParseMoney(amount, r.currency)
	if err != nil {
		r.bad("--%s: %w; write 0.35/%s, and the currency in --currency", flag, err, unit)
		return nil
	}
	return &m
}

// exportTo serves readings and checkpoints of a run for Prometheus.
func exportTo(ctx context.Context, opt *hammer.Options, m metricsOutput, interval time.Duration, p *cli.Progress) (stop func(), err error) {
	host, _ := os.Hostname() // only a label
	export := telemetry.NewExport(telemetry.ExportOptions{Interval: interval, DCGM: m.DCGM, Hostname: host})
	addr, stop, err := m.serve(ctx, export)
	if err != nil {
		return nil, err
	}
	p.Say("metrics at %s", addr)
	opt.Found, opt.Reading = export.GPUs, export.Reading
	show := opt.Progress
	opt.Progress = func(c assay.Checkpoint) {
		export.Checkpoint(c)
		show(c)
	}
	return stop, nil
}

// saveBaseline accepts a run as what later ones are compared with.
func saveBaseline(dir string, sum assay.Summary, path string, p *cli.Progress) error {
	if path == "" {
		return nil
	}
	run, err := journal.Open(dir)
	if err != nil {
		return fmt.Errorf("--save-baseline: %w", err)
	}
	m := run.Manifest()
	base, err := score.FromRun(m, sum, m.Node.Hostname)
	if err != nil {
		return cli.Unknown(fmt.Errorf("--save-baseline: %w", err))
	}
	if err := cli.SaveFile(path, func(w io.Writer) error { return cli.WriteJSON(w, base) }); err != nil {
		return fmt.Errorf("--save-baseline: %w", err)
	}
	p.Say("baseline: %s", path)
	return nil
}
