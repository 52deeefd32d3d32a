package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// Run is the page of one run, and of what it says of the node; a nil health is
// left out.
func Run(s assay.Summary, h *assay.Health) Page {
	p := Page{Title: fmt.Sprintf("%s at %s (%s): %s, %s",
		orMissing(s.Engine.Model), s.Engine.URL, s.Engine.Backend, s.Status, spell(time.Duration(s.Ended-s.Started)))}
	p.Blocks = append(p.Blocks, stages(s))
	if t, ok := errors(s); ok {
		p.Blocks = append(p.Blocks, t)
	}
	p.Blocks = append(p.Blocks, outcome(s)...)
	p.Blocks = append(p.Blocks, lengths(s)...)
	p.Blocks = append(p.Blocks, addresses(s)...)
	p.Blocks = append(p.Blocks, Paragraph{Head: "client ", Text: client(s.Client)})
	if h != nil {
		p.Blocks = append(p.Blocks, node(s, *h)...)
	}
	p.Blocks = append(p.Blocks, remarks(s)...)
	return p
}

// outcome is what the stages show together.
func outcome(s assay.Summary) []Block {
	out := engines(s)
	if s.Scaling != nil {
		out = append(out, Paragraph{Head: "scaling", Text: scaling(*s.Scaling)})
	}
	if s.FindMax != nil {
		out = append(out, Paragraph{Head: "find-max", Text: findMax(*s.FindMax)})
	}
	if text := undecided(s); text != "" {
		out = append(out, Paragraph{Head: "objectives", Text: text})
	}
	if len(s.Runs) > 0 {
		out = append(out, variation(s.Runs))
	}
	return out
}

// remarks are doubts, and what to try next.
func remarks(s assay.Summary) []Block {
	var out []Block
	if len(s.Warnings) > 0 {
		l := List{Head: "warning"}
		for _, w := range s.Warnings {
			text := w.Text
			if w.Stage != "" {
				text = w.Stage + ": " + text
			}
			l.Items = append(l.Items, text)
		}
		out = append(out, l)
	}
	if next := Next(s); len(next) > 0 {
		out = append(out, List{"next   ", next})
	}
	return out
}

func orMissing(s string) string {
	if s == "" {
		return missing
	}
	return s
}

func openLoop(k assay.LoadKind) bool {
	return k == assay.LoadOpen || k == assay.LoadRamp || k == assay.LoadReplay
}

func stages(s assay.Summary) Table {
	intended := slices.ContainsFunc(s.Stages, func(st assay.StageSummary) bool { return openLoop(st.Plan.Kind) })
	goodput := slices.ContainsFunc(s.Stages, func(st assay.StageSummary) bool {
		return st.GoodputPerSecond != st.RequestsPerSecond
	})
	objectives := slices.ContainsFunc(s.Stages, func(st assay.StageSummary) bool { return len(st.Objectives) > 0 })
	t := Table{Columns: []Column{
		{Name: "stage"}, {Name: "load"}, {Group: "requests", Name: "ok"}, {Group: "requests", Name: "failed"},
		{Group: "per second", Name: "requests"}, {Group: "per second", Name: "tokens"},
	}}
	if goodput {
		t.Columns = append(t.Columns, Column{Group: "per second", Name: "good"})
	}
	whole := slices.ContainsFunc(s.Stages, func(st assay.StageSummary) bool { return !st.Windowed() })
	if whole {
		t.Columns = append(t.Columns, Column{Group: "per second", Name: "over"})
	}
	group := func(name string) {
		for _, l := range tableLevels {
			t.Columns = append(t.Columns, Column{Group: name, Name: assay.PercentileName(l)})
		}
	}
	group("TTFT ms")
	if intended {
		group("as intended")
	}
	group("TPOT ms")
	group("E2E ms")
	if objectives {
		t.Columns = append(t.Columns, Column{Name: "kept"})
	}
	for _, st := range s.Stages {
		row := []string{st.Name, loadOf(st.Plan), fmt.Sprint(st.OK), fmt.Sprint(st.Failed),
			number(st.RequestsPerSecond), number(st.OutputTokensPerSecond)}
		if goodput {
			row = append(row, number(st.GoodputPerSecond))
		}
		if whole {
			row = append(row, ratesOf(st))
		}
		dists := []assay.Dist{st.TTFT, st.TTFTIntended, st.TPOT, st.E2E}
		if !intended {
			dists = slices.Delete(dists, 1, 2)
		}
		for _, d := range dists {
			for _, l := range tableLevels {
				row = append(row, percentile(d, l))
			}
		}
		if objectives {
			row = append(row, st.Kept.String())
		}
		t.Rows = append(t.Rows, row)
	}
	t.Note = strings.Join(stageNotes(s, t, intended), "\n")
	return t
}

// tableLevels are the percentiles of the table of stages.
var tableLevels = []float64{50, 90, 99}

// ratesOf names what the rates of a stage are of.
func ratesOf(st assay.StageSummary) string {
	if st.Windowed() {
		return "window"
	}
	return "whole run"
}

// fewNote explains the mark of percentiles.
const fewNote = fewMark + ": too few independent requests for a 95 % interval (p50 needs 6, p90 36, p95 72, p99 368); it decides nothing."

// stageNotes explain what stands in the table of stages.
func stageNotes(s assay.Summary, t Table, intended bool) []string {
	var notes []string
	few := slices.ContainsFunc(t.Rows, func(row []string) bool {
		return slices.ContainsFunc(row, func(c string) bool { return strings.HasSuffix(c, fewMark) })
	})
	if few {
		notes = append(notes, fewNote)
	}
	told := map[string]bool{}
	for _, st := range s.Stages {
		if !st.Windowed() && !told[st.WindowWhy] && len(told) < 3 {
			told[st.WindowWhy] = true
			notes = append(notes, "whole run: "+st.Name+" has no steady window: "+st.WindowWhy+". Filling and draining are in its rates.")
		}
	}
	if intended {
		notes = append(notes, "as intended: TTFT from the moment that the schedule wanted the request out.")
	}
	return notes
}

func loadOf(p assay.Stage) string {
	switch p.Kind {
	case assay.LoadClosed:
		return plural(p.Concurrency, "stream", "streams")
	case assay.LoadBatch:
		return fmt.Sprintf("batch %d", p.Batch)
	case assay.LoadRamp:
		return fmt.Sprintf("%s → %s/s", number(p.RateFrom), number(p.RateTo))
	case assay.LoadReplay:
		return "trace"
	}
	load := number(p.Rate) + "/s"
	if p.Rate == 0 {
		load = "all at once"
	}
	if p.Concurrency > 0 {
		load += fmt.Sprintf(", cap %d", p.Concurrency)
	}
	return load
}

func errors(s assay.Summary) (Table, bool) {
	var classes []assay.Failure
	for _, f := range assay.Failures() {
		if slices.ContainsFunc(s.Stages, func(st assay.StageSummary) bool { return st.Errors[f] > 0 }) {
			classes = append(classes, f)
		}
	}
	late := slices.ContainsFunc(s.Stages, func(st assay.StageSummary) bool { return st.LateSent > 0 })
	if len(classes) == 0 && !late {
		return Table{}, false
	}
	t := Table{Columns: []Column{{Name: "stage"}, {Name: "error rate"}}}
	for _, f := range classes {
		t.Columns = append(t.Columns, Column{Group: "not succeeded", Name: string(f)})
	}
	if late {
		t.Columns = append(t.Columns, Column{Name: "late_sent"})
	}
	for _, st := range s.Stages {
		row := []string{st.Name, percent(st.ErrorRate)}
		for _, f := range classes {
			row = append(row, fmt.Sprint(st.Errors[f]))
		}
		if late {
			row = append(row, fmt.Sprint(st.LateSent))
		}
		t.Rows = append(t.Rows, row)
	}
	return t, true
}

// engines is what the engine says of the stages, beside ours; summaries of
// before 0.2 have only its answers.
func engines(s assay.Summary) []Block {
	if out := enginesChecked(s); out != nil {
		return out
	}
	var t Table
	for _, st := range s.Stages {
		if st.Engine == nil {
			continue
		}
		ratio := missing
		if r := st.Engine.OursOverTheirs; r != nil {
			ratio = fmt.Sprintf("%+.2f %%", (*r-1)*100)
		}
		t.Rows = append(t.Rows, []string{st.Name, number(st.TPOT.Mean), number(st.Engine.TPOT.Mean), ratio, number(st.Engine.Prompt.Mean)})
	}
	if len(t.Rows) == 0 {
		return nil
	}
	t.Columns = []Column{{Name: "stage"}, {Group: "mean TPOT ms", Name: "ours"}, {Group: "mean TPOT ms", Name: "engine's"}, {Group: "mean TPOT ms", Name: "difference"}, {Group: "engine's", Name: "prompt ms"}}
	return []Block{t}
}

func scaling(s assay.Scaling) string {
	var b strings.Builder
	if s.Knee.Known() && s.Knee.Why != "" {
		fmt.Fprintf(&b, "Knee at %s streams by what was measured, but %s. ", streams(s.Knee.Est), s.Knee.Why)
	} else if s.Knee.Known() {
		fmt.Fprintf(&b, "Knee at %s streams: beyond it more streams buy more waiting than throughput. ", streams(s.Knee.Est))
	} else {
		fmt.Fprintf(&b, "Knee unknown: %s. ", s.Knee.Why)
	}
	if s.Peak.Known() {
		fmt.Fprintf(&b, "Highest goodput at %s streams. ", streams(s.Peak.Est))
	}
	if s.Cliff.Known() {
		fmt.Fprintf(&b, "Cliff at %s streams [%s, %s]: goodput is 10 %% below its maximum there. ", streams(s.Cliff.Est), streams(s.Cliff.Lo), streams(s.Cliff.Hi))
	} else {
		fmt.Fprintf(&b, "Cliff: %s. ", s.Cliff.Why)
	}
	if u := s.USL; u != nil {
		fmt.Fprintf(&b, "Scalability law: γ %s/s, σ %s, κ %s, R² %.3f", number(u.Gamma), number(u.Sigma), number(u.Kappa), u.R2)
		if u.PeakN == nil {
			b.WriteString("; κ = 0, so it has no peak.")
		} else {
			fmt.Fprintf(&b, "; its peak is at %s streams.", streams(*u.PeakN))
		}
	}
	return b.String()
}

func variation(vs []assay.Variation) Table {
	t := Table{Title: "Run to run", Columns: []Column{{Name: "stage"}, {Name: "metric"}, {Name: "runs"}, {Name: "mean"}, {Name: "variation"}}}
	for _, v := range vs {
		cv := missing
		if v.CV != nil {
			cv = percent(*v.CV)
		}
		t.Rows = append(t.Rows, []string{v.Stage, v.Metric, fmt.Sprint(len(v.Values)), number(v.Mean), cv})
	}
	return t
}

// lags says what the certificate is judged by, each beside its own limit. By the
// kernel's clock a late read changes no time: only what was merged counts there.
func lags(c assay.ClientSummary) string {
	p99 := func(d assay.Dist) string {
		if p, ok := d.P(99); ok && d.N > 0 {
			return number(p.Value/1000) + " ms"
		}
		return "unknown"
	}
	send, read, merged, allowed := p99(c.SendLag), p99(c.LagUS), percent(c.MergedShare), number(c.AllowedLagUS/1000)
	if c.Clock == assay.ClockKernel {
		return fmt.Sprintf("Send lag p99 %s (%s ms allowed), %s of reads merged (1 %% allowed); read lag p99 %s (no limit: the kernel stamps arrivals).", send, allowed, merged, read)
	}
	return fmt.Sprintf("Send lag p99 %s and read lag p99 %s (%s ms allowed for each); %s of reads merged.", send, read, allowed, merged)
}

func client(c assay.ClientSummary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s by the %s clock", strings.ToUpper(string(c.Certificate)), c.Clock)
	if c.Cause != "" {
		fmt.Fprintf(&b, ", limited by %s", strings.ReplaceAll(c.Cause, "_", " "))
	}
	b.WriteString(". " + lags(c))
	if c.CPUShare != nil {
		fmt.Fprintf(&b, " Client used %s of its CPU.", percent(*c.CPUShare))
	}
	if c.Certificate != assay.Certified {
		fmt.Fprintf(&b, " Error bar %s ms.", number(c.ErrorBarUS/1000))
		for _, w := range c.Why {
			b.WriteString(" " + strings.TrimSuffix(w, ".") + ".")
		}
	}
	return b.String()
}
