package hammer

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/cmd/internal/cli/publish"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/ledger"
)

// hammerOutputs is what `assay hammer` was asked besides the measurement.
type hammerOutputs struct {
	OutDir string `json:"out,omitempty"`    // run directory to make; empty: a new one
	Resume string `json:"resume,omitempty"` // run directory to go on with; the Config then holds secrets only

	SaveResult     bool     `json:"save_result,omitempty"`
	SaveDetailed   bool     `json:"save_detailed,omitempty"`
	AppendResult   bool     `json:"append_result,omitempty"`
	ResultDir      string   `json:"result_dir,omitempty"`
	ResultFilename string   `json:"result_filename,omitempty"`
	Exports        []export `json:"exports,omitempty"`

	AllowInvalid bool   `json:"allow_invalid,omitempty"`
	DryRun       bool   `json:"dry_run,omitempty"`
	Quiet        bool   `json:"quiet,omitempty"`       // nothing but the result
	NoProgress   bool   `json:"no_progress,omitempty"` // true when Quiet is
	Verbose      bool   `json:"verbose,omitempty"`
	Format       string `json:"format"` // text, json

	Metrics      metricsOutput `json:"metrics,omitzero"`
	SaveBaseline string        `json:"save_baseline,omitempty"` // a file
	Verify       bool          `json:"verify,omitempty"`
	Checks       string        `json:"checks,omitempty"` // a directory of assay verify --out

	Sign    bool             `json:"sign,omitempty"`
	SignKey keys.SignerFlags `json:"-"`
	Publish publish.Flags    `json:"-"`
	Nonce   string           `json:"nonce,omitempty"` // empty: random

	// For vLLM's result file.
	PercentileMetrics []string  `json:"percentile_metrics"`
	MetricPercentiles []float64 `json:"metric_percentiles"`
	Backend           string    `json:"backend,omitempty"`  // as given: "vllm" is not renamed
	ModelID           string    `json:"model_id,omitempty"` // --model, where another name is sent
}

// export is one --export FORMAT=FILE.
type export struct {
	Format string `json:"format"` // vllm
	Path   string `json:"path"`
}

// writeConfig is what --dry-run prints.
func writeConfig(w io.Writer, c hammer.Config) error {
	if err := cli.WriteJSON(w, c); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// outputs resolves what is not the measurement.
func (f *hammerFlags) outputs() (hammerOutputs, error) {
	o := hammerOutputs{
		OutDir: f.out, Resume: f.resume,
		SaveResult: f.saveResult, SaveDetailed: f.saveDetailed, AppendResult: f.appendResult,
		ResultDir: f.resultDir, ResultFilename: f.resultFilename,
		AllowInvalid: f.allowInvalid, DryRun: f.dryRun, Verbose: f.verbose,
		Quiet: f.quiet, NoProgress: f.quiet || f.disableTqdm,
		Format: f.format, Backend: f.backend,
		Metrics: f.metrics, SaveBaseline: f.saveBaseline, Verify: f.verify, Checks: f.checks,
		Sign: f.sign, SignKey: f.signKey, Publish: f.publish, Nonce: strings.ToLower(f.nonce),
	}
	if f.servedModel != "" || len(f.loraModules) > 0 {
		o.ModelID = f.model
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if f.format != "text" && f.format != "json" {
		bad("--format is text or json, not %q", f.format)
	}
	if f.quiet && f.verbose {
		bad("--quiet and --verbose contradict each other; leave one out")
	}
	if f.again != "" && f.resume != "" {
		bad("--again makes a new run, and --resume goes on with one; leave one out")
	}
	if f.out != "" && f.resume != "" {
		bad("--resume goes on in its own directory; leave out --out")
	}
	if err := o.Metrics.check(); err != nil {
		errs = append(errs, err)
	}
	if !f.sign && f.signKey != (keys.SignerFlags{}) {
		bad("--sign-key, --signer and --passphrase-file are for --sign; give it, or leave them out")
	}
	if o.Nonce != "" {
		if err := ledger.CheckNonce(o.Nonce); err != nil {
			bad("--nonce: %w", err)
		}
	}
	for _, e := range f.exports {
		format, path, ok := strings.Cut(e, "=")
		switch {
		case !ok || path == "":
			bad("--export %s: write FORMAT=FILE, for example vllm=result.json", e)
		case format != "vllm":
			bad("--export %s: unknown format %q; known is vllm", e, format)
		default:
			o.Exports = append(o.Exports, export{format, path})
		}
	}
	for name := range strings.SplitSeq(f.percentileMetrics, ",") {
		switch name = strings.TrimSpace(name); name {
		case "ttft", "tpot", "itl", "e2el":
			o.PercentileMetrics = append(o.PercentileMetrics, name)
		case "client_queue_time", "e2el_including_client_queue":
			bad("--percentile-metrics: %s is not in the result file; ttft_intended_ms and e2e_intended_ms of our summary hold the wait before sending", name)
		default:
			bad("--percentile-metrics: unknown metric %q; known are ttft, tpot, itl, e2el", name)
		}
	}
	for level := range strings.SplitSeq(f.metricPercentiles, ",") {
		p, err := strconv.ParseFloat(strings.TrimSpace(level), 64)
		if err != nil || !(p > 0 && p < 100) {
			bad("--metric-percentiles: %q is not a percentile; write numbers between 0 and 100, for example 50,99,99.9", level)
			continue
		}
		o.MetricPercentiles = append(o.MetricPercentiles, p)
	}
	return o, errors.Join(errs...)
}

// resumable are the flags that go with --resume: outputs, and the secrets that
// a run directory does not hold.
var resumable = map[string]bool{
	"resume": true, "header": true, "export": true, "save-result": true, "save-detailed": true,
	"append-result": true, "result-dir": true, "result-filename": true, "percentile-metrics": true,
	"metric-percentiles": true, "allow-invalid": true, "dry-run": true, "format": true,
	"quiet": true, "verbose": true, "disable-tqdm": true, "metrics": true, "dcgm-names": true,
	"metrics-tls-cert": true, "metrics-tls-key": true, "metrics-tls-client-ca": true, "metrics-token-file": true, "save-baseline": true, "verify": true,
	"sign": true, "sign-key": true, "signer": true, "passphrase-file": true,
}

// repeatable are the flags that go with --again besides: a new run has a name, a
// place and a nonce of its own, and may be of another engine.
var repeatable = map[string]bool{"again": true, "out": true, "label": true, "nonce": true, "base-url": true, "checks": true}

// checkRepeated refuses flags that would change a run which is half done (resume) or
// made once more (again).
func checkRepeated(fs *pflag.FlagSet, by string) error {
	var wrong []string
	fs.Visit(func(fl *pflag.Flag) {
		if fl.Annotations[groupAnnotation] != nil && !resumable[fl.Name] && !(by == "again" && repeatable[fl.Name]) {
			wrong = append(wrong, "--"+fl.Name)
		}
	})
	if len(wrong) > 0 {
		return fmt.Errorf("--%s takes the run as it was configured; leave out %s, or start a new run without --%s", by, strings.Join(wrong, " "), by)
	}
	return nil
}
