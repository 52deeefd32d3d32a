// Package vllm says in vLLM's words what a run was asked to do, for commands that
// write its result file.
package vllm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/report/dialect"
)

// Results gives the options of one result for each stage; what the run itself does
// not say is of base. vLLM's file is about one load; a run of several becomes
// several lines, as --append-result makes them, told apart by one more key of
// metadata.
func Results(run *journal.Run, base dialect.VLLMOptions) ([]dialect.VLLMOptions, error) {
	m := run.Manifest()
	var c hammer.Config
	if err := json.Unmarshal(m.Config, &c); err != nil {
		return nil, fmt.Errorf("read the run's configuration: %w", err)
	}
	base.Label, base.Date, base.Goodput = c.Label, time.Unix(0, m.Created), c.Judge.Goodput
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
			all = append(all, stage(base, *e.Plan, e.At))
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

// stage says in vLLM's words what a stage was asked to do.
func stage(o dialect.VLLMOptions, s assay.Stage, started int64) dialect.VLLMOptions {
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

// Write writes results, a line each, the last without a line break, as vLLM leaves
// its file.
func Write(w io.Writer, run *journal.Run, results []dialect.VLLMOptions) error {
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
