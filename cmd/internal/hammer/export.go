package hammer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/vllm"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/report/dialect"
)

// writeExports writes the other tools' files that were asked for, from the run
// directory and nothing else: they can be made again at any time.
func writeExports(dir string, out hammerOutputs) error {
	if !out.SaveResult && !out.AppendResult && len(out.Exports) == 0 {
		return nil
	}
	run, err := journal.Open(dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	results, err := vllm.Results(run, dialect.VLLMOptions{
		Backend: out.Backend, ModelID: out.ModelID, Metrics: out.PercentileMetrics, Percentiles: out.MetricPercentiles, Detailed: out.SaveDetailed,
	})
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	write := func(w io.Writer) error { return vllm.Write(w, run, results) }
	var errs []error
	for _, e := range out.Exports {
		errs = append(errs, cli.SaveFile(e.Path, write))
	}
	if out.SaveResult || out.AppendResult {
		path, err := resultPath(run.Manifest(), out, results[0])
		switch {
		case err != nil:
			errs = append(errs, err)
		case out.AppendResult:
			errs = append(errs, appendLine(path, write))
		default:
			errs = append(errs, cli.SaveFile(path, write))
		}
	}
	return errors.Join(errs...)
}

// resultPath is where --save-result goes.
func resultPath(m assay.Manifest, out hammerOutputs, opts dialect.VLLMOptions) (string, error) {
	name := out.ResultFilename
	if name == "" {
		var err error
		if name, err = dialect.VLLMFileName(m, opts); err != nil {
			return "", err
		}
	}
	if out.ResultDir != "" {
		if err := os.MkdirAll(out.ResultDir, 0o755); err != nil {
			return "", fmt.Errorf("make --result-dir: %w", err)
		}
	}
	return filepath.Join(out.ResultDir, name), nil
}

// appendLine adds to a file of JSON lines whose last has no line break, as
// vLLM leaves it.
func appendLine(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("append to %s: %w", path, err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		_, err = io.WriteString(f, "\n")
	}
	if err == nil {
		err = write(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("append to %s: %w", path, err)
	}
	return nil
}
