package compare

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/report"
)

// ReportFile is the page of an experiment, in its directory.
const ReportFile = "report.html"

// OutputOptions say what is written besides JSON, Markdown and HTML.
type OutputOptions struct {
	// Plot draws a chart as PNG (report/plot.PNG); nil: no pictures are written.
	Plot func(io.Writer, report.Chart) error
}

// WriteOutputs writes everything that follows from an experiment beside its
// evidence: docs/formats/experiment.md lists the files. It writes none of the
// evidence, so that it can be done again.
func WriteOutputs(dir string, e Experiment, a Analysis, o OutputOptions) error {
	if _, err := directory(dir, "analysis"); err != nil {
		return err
	}
	for name, v := range map[string]any{
		"summary.json":                           summaryOf(a),
		"analysis/statistical_summary.json":      statisticsOf(a),
		"analysis/performance_analysis.json":     performanceOf(a),
		"analysis/business_recommendations.json": recommendationsOf(a),
	} {
		if err := replaceJSON(filepath.Join(dir, filepath.FromSlash(name)), v); err != nil {
			return err
		}
	}
	if err := writeReproduce(dir, e); err != nil {
		return err
	}
	var md, html bytes.Buffer
	if err := report.Markdown(&md, Page(e, a, false)); err != nil {
		return fmt.Errorf("write comparison_table.md: %w", err)
	}
	if err := report.HTML(&html, Page(e, a, true)); err != nil {
		return fmt.Errorf("write report.html: %w", err)
	}
	if err := replace(filepath.Join(dir, "comparison_table.md"), md.Bytes()); err != nil {
		return err
	}
	if err := replace(filepath.Join(dir, ReportFile), html.Bytes()); err != nil {
		return err
	}
	if !e.Analysis.Plots || o.Plot == nil {
		return nil
	}
	return writePlots(dir, e, a, o.Plot)
}

// directory makes one of the results' directories. A link in its place is refused:
// results come from elsewhere too, and a link would have files written wherever
// their maker wants them.
func directory(results, name string) (string, error) {
	dir := filepath.Join(results, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the directory %s: %w", name, err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("make the directory %s: %w", name, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is a link, which is not followed: remove it, and analyse again", dir)
	}
	return dir, nil
}

func writePlots(dir string, e Experiment, a Analysis, plot func(io.Writer, report.Chart) error) error {
	dir, err := directory(dir, "plots")
	if err != nil {
		return err
	}
	for _, p := range Plots(e, a) {
		var b bytes.Buffer
		if err := plot(&b, p.Chart); err != nil {
			return fmt.Errorf("draw %s: %w", p.Name, err)
		}
		if err := replace(filepath.Join(dir, p.Name+".png"), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// The JSON documents.

type summaryJSON struct {
	Format           string                `json:"format"`
	Experiment       string                `json:"experiment_id"`
	Name             string                `json:"name"`
	Status           assay.Status          `json:"status"`
	Summary          overallJSON           `json:"summary"`
	Matrix           map[string]matrixJSON `json:"comparison_matrix"`
	LatencyOf        string                `json:"latency_workload"`
	ThroughputOf     string                `json:"throughput_workload"`
	Criteria         []Criterion           `json:"criteria"`
	MarkedRuns       int                   `json:"marked_runs"`
	InvalidSamples   int                   `json:"runs_with_invalid_client"`
	DegradedSamples  int                   `json:"runs_with_degraded_client"`
	Notes            []string              `json:"notes"`
	FailedEngines    []string              `json:"failed_engines"`
	ComparisonsShown int                   `json:"differences_shown"`
}

type overallJSON struct {
	Fastest        string   `json:"fastest_engine"`
	Because        string   `json:"fastest_because"`
	BestThroughput *float64 `json:"best_throughput"`
	BestLatency    *float64 `json:"best_latency_ms"`
	MostConsistent string   `json:"most_consistent"`
	ConsistentWhy  string   `json:"most_consistent_because"`
	BestGPU        *string  `json:"best_gpu_utilization"`
	Recommendation string   `json:"recommendation"`
}

type matrixJSON struct {
	Latency    *float64 `json:"latency_ms"`
	Throughput *float64 `json:"throughput"`
	Speedup    *float64 `json:"speedup"`
	SpeedupLo  *float64 `json:"speedup_low"`
	SpeedupHi  *float64 `json:"speedup_high"`
	Verdict    string   `json:"verdict"`
	Failed     string   `json:"failed,omitempty"`
}

func summaryOf(a Analysis) summaryJSON {
	o := a.Overall
	s := summaryJSON{
		Format: ComparisonFormat, Experiment: a.Experiment, Name: a.Name, Status: a.Status,
		Summary: overallJSON{o.Fastest, o.Because, o.BestThroughput, o.BestLatency, o.MostConsistent, o.ConsistentWhy, o.BestGPU, o.Recommendation},
		Matrix:  map[string]matrixJSON{}, LatencyOf: o.LatencyOf, ThroughputOf: o.ThroughputOf, Criteria: a.Criteria,
		MarkedRuns: o.MarkedRuns, InvalidSamples: o.InvalidSamples, DegradedSamples: o.DegradedSamples,
		Notes: append([]string{}, a.Notes...), FailedEngines: []string{},
	}
	for _, r := range o.Matrix {
		m := matrixJSON{Latency: r.Latency, Throughput: r.Throughput, Verdict: r.Verdict, Failed: r.Failed}
		if r.Speedup.Known() {
			m.Speedup, m.SpeedupLo, m.SpeedupHi = known(r.Speedup.Est), known(r.Speedup.Lo), known(r.Speedup.Hi)
		}
		s.Matrix[r.Engine] = m
		if r.Failed != "" {
			s.FailedEngines = append(s.FailedEngines, r.Engine)
		}
	}
	for _, c := range a.Comparisons {
		if c.Verdict.Shown() {
			s.ComparisonsShown++
		}
	}
	return s
}

type statisticsJSON struct {
	Format      string       `json:"format"`
	Experiment  string       `json:"experiment_id"`
	Family      Family       `json:"family"`
	Comparisons []Comparison `json:"comparisons"`
	Agreement   []Agreement  `json:"agreement"`
	Marked      []markedJSON `json:"marked_runs"`
	Failed      []Failure    `json:"failed"`
	Criteria    []Criterion  `json:"criteria"`
}

type markedJSON struct {
	Engine   string `json:"engine"`
	Workload string `json:"workload"`
	Metric   string `json:"metric"`
	Marked
}

func statisticsOf(a Analysis) statisticsJSON {
	s := statisticsJSON{ComparisonFormat, a.Experiment, a.Family, a.Comparisons, a.Agreement, []markedJSON{}, a.Failures, a.Criteria}
	for _, f := range a.Figures {
		for _, m := range f.Marked {
			s.Marked = append(s.Marked, markedJSON{f.Engine, f.Workload, f.Metric, m})
		}
	}
	return s
}

type performanceJSON struct {
	Format     string   `json:"format"`
	Experiment string   `json:"experiment_id"`
	Figures    []Figure `json:"figures"`
}

func performanceOf(a Analysis) performanceJSON {
	return performanceJSON{ComparisonFormat, a.Experiment, a.Figures}
}

type recommendationsJSON struct {
	Format     string       `json:"format"`
	Experiment string       `json:"experiment_id"`
	Line       string       `json:"recommendation"`
	Advice     []Advice     `json:"recommendations"`
	Unanswered []Unanswered `json:"not_answered"`
}

func recommendationsOf(a Analysis) recommendationsJSON {
	return recommendationsJSON{ComparisonFormat, a.Experiment, a.Overall.Recommendation, a.Advice, a.Unanswered}
}

// Document is the whole analysis as one value: what assay compare --format json
// prints. Its members are the files of WriteOutputs, and the gates.
type Document struct {
	Format          string              `json:"format"`
	Summary         summaryJSON         `json:"summary"`
	Statistics      statisticsJSON      `json:"statistical_summary"`
	Performance     performanceJSON     `json:"performance_analysis"`
	Recommendations recommendationsJSON `json:"business_recommendations"`
	Gates           []GateResult        `json:"gates"`
}

// DocumentOf makes the document of an analysis and of its gates.
func DocumentOf(a Analysis, gates []GateResult) Document {
	if gates == nil {
		gates = []GateResult{}
	}
	return Document{ComparisonFormat, summaryOf(a), statisticsOf(a), performanceOf(a), recommendationsOf(a), gates}
}
