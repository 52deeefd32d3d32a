package hammer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/hammer"
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
	results, err := vllmResults(run, out)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	write := func(w io.Writer) error {
		for i, opts := range results {
			if i > 0 {
				if _, err := io.WriteString(w, "\n"); err != nil {
					return err
				}
			}
			if err := dialect.VLLM(w, run.Manifest(), opts, run.Requests()); err != nil {
				return err
			}
		}
		return nil
	}
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

// vllmResults gives the options of one result for each stage. vLLM's file is
// about one load; a run of several becomes several lines, as --append-result
// makes them, told apart by one more key of metadata.
func vllmResults(run *journal.Run, out hammerOutputs) ([]dialect.VLLMOptions, error) {
	m := run.Manifest()
	var c hammer.Config
	if err := json.Unmarshal(m.Config, &c); err != nil {
		return nil, fmt.Errorf("read the run's configuration: %w", err)
	}
	base := dialect.VLLMOptions{
		Backend: out.Backend, ModelID: out.ModelID, Label: c.Label,
		Date:    time.Unix(0, m.Created),
		Metrics: out.PercentileMetrics, Percentiles: out.MetricPercentiles,
		Goodput: c.Judge.Goodput, Detailed: out.SaveDetailed,
	}
	for _, kv := range c.Metadata {
		base.Metadata = append(base.Metadata, [2]string{kv.Key, kv.Value})
	}
	var all []dialect.VLLMOptions
	at := map[string]int{} // a resumed stage starts twice
	for e, err := range run.Events() {
		if err != nil {
			return nil, err
		}
		i, known := at[e.Stage]
		switch {
		case e.Kind == assay.EventStageStarted && e.Plan != nil && !known:
			at[e.Stage] = len(all)
			all = append(all, vllmStage(base, *e.Plan, e.At))
		case e.Kind == assay.EventStageEnded && known:
			all[i].End = e.At
			all[i].Date = time.Unix(0, e.At)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the run has no stage yet")
	}
	if len(all) > 1 {
		for i := range all {
			all[i].Metadata = append(all[i].Metadata[:len(base.Metadata):len(base.Metadata)], [2]string{"stage", all[i].Stages[0]})
		}
	}
	return all, nil
}

// vllmStage says in vLLM's words what a stage was asked to do.
func vllmStage(o dialect.VLLMOptions, s assay.Stage, started int64) dialect.VLLMOptions {
	o.Stages, o.NumPrompts, o.MaxConcurrency = []string{s.Name}, s.Requests, s.Concurrency
	switch s.Kind {
	case assay.LoadOpen:
		o.RequestRate = s.Rate
	case assay.LoadRamp:
		o.Ramp = &dialect.VLLMRamp{Strategy: s.Ramp, Start: s.RateFrom, End: s.RateTo}
	case assay.LoadBatch:
		o.MaxConcurrency = s.Batch
	}
	if s.Kind == assay.LoadRamp || s.Rate > 0 {
		if o.Burstiness = s.Burstiness; s.Burstiness == 0 {
			o.Burstiness = math.Inf(1)
		}
	}
	if s.Warmups == 0 && s.RampUpNS == 0 { // else the judged load begins later, with its first request
		o.Start = started
	}
	return o
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
