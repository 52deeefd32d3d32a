package claims

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/stat"
)

// HistoryFormat names the format of the history file.
const HistoryFormat = "assay/claims-history/v1"

// Change is how a probe compares with its last run on this machine. It is
// reported and decides no claim: one run against one run says nothing about how
// much runs differ anyway, so three things must come together before a change is
// called one: see [changed].
type Change struct {
	Word  string    `json:"word"` // improved, regressed, changed, no change
	Since time.Time `json:"since"`
	// Ratio of the new values to the old, with a 99 % interval.
	Ratio assay.Quantity `json:"ratio"`
	P     *float64       `json:"p,omitempty"` // of the Mann–Whitney test
	Why   string         `json:"why"`
}

// history is what is remembered of earlier runs, by machine and probe.
type history struct {
	Format   string                       `json:"format"`
	Machines map[string]map[string][]past `json:"machines"`
}

// past is one run of a probe. Only the last one keeps its values.
type past struct {
	At     time.Time `json:"at"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Values []float64 `json:"values,omitempty"`
}

// Bounds of the history.
const (
	maxHistoryBytes   = 64 << 20
	maxRemembered     = 20  // runs of a probe
	maxCompared       = 300 // values of a run
	maxMachines       = 50
	noticeable        = 0.05 // a change below this is none that anyone asked for
	comparisonAlpha   = 0.01
	minToCompare      = 8
	thinningTolerance = 1.5 // an autocorrelation time up to this is noise
)

func readHistory(path string) (history, error) {
	h := history{Format: HistoryFormat, Machines: map[string]map[string][]past{}}
	if path == "" {
		return h, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("open the history: %w", err)
	}
	defer f.Close()
	var in history
	if err := json.NewDecoder(io.LimitReader(f, maxHistoryBytes)).Decode(&in); err != nil {
		return h, fmt.Errorf("read the history %s: %w", path, err)
	}
	if in.Format != HistoryFormat || in.Machines == nil {
		return h, fmt.Errorf("%s is no history of format %s", path, HistoryFormat)
	}
	return in, nil
}

// save replaces the file in one step. A file that is no history is left alone.
func (h history) save(path string) error {
	if _, err := readHistory(path); err != nil {
		return err
	}
	b, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode the history: %w", err)
	}
	if err := disk.Swap(path, 0o644, disk.Bytes(append(b, '\n'))); err != nil {
		return fmt.Errorf("save the history: %w", err)
	}
	return nil
}

// add remembers a run.
func (h history) add(r *Result) {
	m := h.Machines[r.Machine]
	if m == nil {
		if len(h.Machines) >= maxMachines {
			h.forget()
		}
		m = map[string][]past{}
		h.Machines[r.Machine] = m
	}
	for _, p := range r.Probes {
		if p.Status != Measured || len(p.Values) == 0 {
			continue
		}
		runs := m[p.Name]
		for i := range runs {
			runs[i].Values = nil
		}
		runs = append(runs, past{At: r.Started, Unit: p.Unit, Median: stat.Median(p.Values), Values: thinned(p.Values)})
		m[p.Name] = runs[max(0, len(runs)-maxRemembered):]
	}
}

// forget drops the machine that was measured the longest ago.
func (h history) forget() {
	oldest, at := "", time.Time{}
	for name, probes := range h.Machines {
		newest := time.Time{}
		for _, runs := range probes {
			for _, r := range runs {
				if r.At.After(newest) {
					newest = r.At
				}
			}
		}
		if oldest == "" || newest.Before(at) {
			oldest, at = name, newest
		}
	}
	delete(h.Machines, oldest)
}

// thinned are values far enough apart to count as independent, and at most
// [maxCompared] of them, over the whole of the run.
func thinned(values []float64) []float64 {
	step := 1.0
	if tau := autocorrelation(values); tau > thinningTolerance {
		step = tau
	}
	step = max(step, float64(len(values))/maxCompared)
	var out []float64
	for at := 0.0; int(at) < len(values); at += step {
		out = append(out, values[int(at)])
	}
	return out
}

// compare compares a probe's run with the last one on this machine; nil when
// there is none.
func (h history) compare(machine string, p ProbeResult) *Change {
	runs := h.Machines[machine][p.Name]
	if len(runs) == 0 || p.Status != Measured || len(p.Values) == 0 {
		return nil
	}
	last := runs[len(runs)-1]
	if last.Unit != p.Unit || len(last.Values) == 0 {
		return nil
	}
	var medians []float64
	for _, r := range runs {
		if r.Unit == p.Unit {
			medians = append(medians, r.Median)
		}
	}
	c := changed(last.Values, thinned(p.Values), medians, p.Better)
	c.Since = last.At
	return &c
}

// changed compares two runs of a probe. A change is called one when all of this
// holds:
//   - a Mann–Whitney test of the values, thinned by their autocorrelation time,
//     rejects at 1 %;
//   - the 99 % interval of the ratio (Hodges–Lehmann on logarithms) lies wholly
//     beyond ±5 %: with thousands of samples a test finds differences that nobody
//     cares for;
//   - the new median lies further outside the medians of the earlier runs that are
//     remembered than these lie apart: what runs differ by anyway is no change.
//     After one earlier run this asks for nothing, so that a machine with other
//     work on it is soon called changed, and after some it no longer is.
func changed(before, after, medians []float64, better string) Change {
	c := Change{Word: "no change", Ratio: assay.UnknownQuantity("")}
	if len(before) < minToCompare || len(after) < minToCompare {
		c.Word, c.Why = "", fmt.Sprintf("too few independent samples to compare: %d then, %d now", len(before), len(after))
		return c
	}
	logs := func(values []float64) ([]float64, bool) {
		out := make([]float64, len(values))
		for i, v := range values {
			if !(v > 0) {
				return nil, false
			}
			out[i] = math.Log(v)
		}
		return out, true
	}
	x, okX := logs(after)
	y, okY := logs(before)
	if !okX || !okY {
		c.Word, c.Why = "", "values that are not positive have no ratio"
		return c
	}
	test := stat.MannWhitney(x, y, stat.TestOptions{})
	shift := stat.HodgesLehmann2(x, y, 1-comparisonAlpha)
	c.P = known(test.P)
	c.Ratio = assay.Quantity{N: len(after), Est: math.Exp(shift.Est), Lo: math.Exp(shift.Lo), Hi: math.Exp(shift.Hi)}
	median := stat.Median(after)
	least, most := slices.Min(medians), slices.Max(medians)
	switch {
	case !(test.P <= comparisonAlpha):
		c.Why = "the samples of the two runs do not differ beyond chance"
	case !(c.Ratio.Lo > 1+noticeable || c.Ratio.Hi < 1/(1+noticeable)):
		c.Why = fmt.Sprintf("the difference is not shown to be more than %g %%", 100*noticeable)
	case median >= least-(most-least) && median <= most+(most-least):
		c.Why = fmt.Sprintf("the %d earlier runs lie as far apart", len(medians))
	default:
		up := c.Ratio.Est > 1
		c.Word = "changed"
		if better == assay.Higher.String() || better == assay.Lower.String() {
			c.Word = map[bool]string{true: "improved", false: "regressed"}[up == (better == assay.Higher.String())]
		}
		c.Why = fmt.Sprintf("×%s of the last run's values", FormatValue(c.Ratio.Est, ""))
	}
	return c
}
