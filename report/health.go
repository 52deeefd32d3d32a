package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// HealthInput is what the health page is made of. Everything but the summary
// may be missing; what is missing is left out, or said to be unknown.
type HealthInput struct {
	Manifest assay.Manifest
	Summary  assay.Summary
	Health   *assay.Health
	Checks   []assay.Check
	// Series are readings, and requests under the name of a metric (ttft_ms,
	// tpot_ms), as they are drawn over time.
	Series []Series
}

// Series is one reading of one device over time.
type Series struct {
	Name   string // of the reading or metric
	Device string // a GPU's UUID; empty: the host, the engine or all requests
	Unit   string // base unit, as in the table of readings
	Times  []int64
	Values []float64
}

// Health is the page of a node's health: the verdict and the figures that are looked
// for first, then what they rest on, then who measured and where.
func Health(in HealthInput) Page {
	s, h := in.Summary, in.Health
	p := Page{Title: healthTitle(in)}
	add := func(blocks ...Block) { p.Blocks = append(p.Blocks, blocks...) }
	if h != nil {
		add(verdictOf(in))
	}
	if tiles := tilesOf(in); len(tiles) > 0 {
		add(tiles)
	}
	if h != nil {
		add(scoreBlocks(h.Score)...)
		add(findings(in)...)
	}
	add(Heading{"Throughput"}, stages(s))
	if t, ok := errors(s); ok {
		add(t)
	}
	add(scalingCharts(in)...)
	add(outcome(s)...)
	add(Heading{"Latency"}, percentiles(s))
	add(latencyCharts(in)...)
	if gpus := gpuBlocks(in); len(gpus) > 0 {
		add(Heading{"GPUs and host"})
		add(gpus...)
	}
	if len(s.Trends) > 0 {
		add(Heading{"Drift and leak"}, trends(in))
	}
	if h != nil {
		add(Heading{"Cost"})
		add(cost(h.Cost)...)
	}
	if len(in.Checks) > 0 {
		add(Heading{"Verification"}, checks(in))
	}
	add(Heading{"Environment"})
	add(environment(in)...)
	add(Heading{"Client certificate"}, Paragraph{Text: client(s.Client)}, clientTable(s.Client))
	add(remarks(s)...)
	return p
}

func healthTitle(in HealthInput) string {
	node := in.Manifest.Node.Hostname
	if in.Health != nil && in.Health.NodeID != "" {
		node = in.Health.NodeID
	}
	s := in.Summary
	title := fmt.Sprintf("Health of %s: %s at %s", orMissing(node), orMissing(s.Engine.Model), orMissing(s.Engine.URL))
	if s.Ended > 0 {
		title += ", " + time.Unix(0, s.Ended).UTC().Format("2006-01-02 15:04 UTC")
	}
	return title
}

// scoreOf is one part of the score as a quantity.
func scoreOf(s assay.HealthScore, part string, v *float64) assay.Quantity {
	if v == nil {
		why := s.Unknown[part]
		if why == "" {
			why = "not scored"
		}
		return assay.UnknownQuantity(why)
	}
	q := assay.Quantity{N: 1, Est: *v, Lo: math.NaN(), Hi: math.NaN()}
	if i, ok := s.Intervals[part]; ok {
		q.Lo, q.Hi = i.Low, i.High
	}
	return q
}

func verdictOf(in HealthInput) Verdict {
	h, s := in.Health, in.Summary
	var note []string
	if h.Score.Baseline != "" {
		held := "Compared with baseline " + h.Score.Baseline
		if h.Score.Stage != "" {
			held += " at stage " + h.Score.Stage
		}
		note = append(note, held+".")
	} else if h.Score.Against == assay.AgainstCatalogue {
		note = append(note, "A starting score: there is no baseline, so the node is compared with what its card's maker states.")
	}
	note = append(note, fmt.Sprintf("%s of the score's weight could be measured.", percent(h.Score.Coverage)))
	note = append(note, fmt.Sprintf("Run %s, %s, %s; client %s.", s.Status, spell(time.Duration(s.Ended-s.Started)), plural(len(s.Stages), "stage", "stages"), s.Client.Certificate))
	return Verdict{Of: h.NodeID, Verdict: h.Verdict, Score: scoreOf(h.Score, "overall", h.Score.Overall), Why: h.Because, Note: strings.Join(note, " ")}
}

// scoreBlocks are the parts of the score, and what was lost of it.
func scoreBlocks(score assay.HealthScore) []Block {
	overall := scoreOf(score, "overall", score.Overall)
	bars := Bars{Bars: []Bar{{Name: "overall", Value: overall, Strong: true, Note: "weighted geometric mean: one bad part is not averaged away"}}}
	for _, part := range []struct {
		name string
		v    *float64
	}{{"latency", score.Latency}, {"throughput", score.Throughput}, {"stability", score.Stability}, {"efficiency", score.Efficiency}} {
		b := Bar{Name: part.name, Value: scoreOf(score, part.name, part.v)}
		if w, ok := score.Weights[part.name]; ok {
			b.Note = "weight " + number(w)
		}
		bars.Bars = append(bars.Bars, b)
	}
	out := []Block{bars}
	if why, all := unscored(bars); all {
		out = []Block{Paragraph{Head: "score", Text: "Not known, nor any part of it: " + strings.TrimSuffix(why, ".") + "."}}
	}
	if len(score.Deductions) == 0 {
		if score.Overall != nil {
			out = append(out, Paragraph{Text: "No part of the score was lost."})
		}
		return out
	}
	t := Table{Title: "What was lost, and why", Columns: []Column{{Name: "part"}, {Name: "metric", Words: true}, {Name: "measured"}, {Name: "expected"}, {Name: "lost"}, {Name: "because", Words: true}}}
	for _, d := range score.Deductions {
		t.Rows = append(t.Rows, []string{d.Part, d.Metric, number(d.Measured), number(d.Expected), fmt.Sprintf("%.2f", d.Lost), d.Because})
	}
	return append(out, t)
}

// unscored says that no part of a score is known, and for which one reason; several
// reasons are shown beside their parts.
func unscored(bars Bars) (why string, all bool) {
	for i, b := range bars.Bars {
		if b.Value.Known() || i > 1 && b.Value.Why != why {
			return "", false
		}
		why = b.Value.Why // the whole may give its own, in other words
	}
	return why, true
}

// tilesOf are the figures that are looked for first: of the stage with the most
// tokens a second, since that is what the node can do.
func tilesOf(in HealthInput) Tiles {
	var best *assay.StageSummary
	ok, failed := 0, 0
	for i, st := range in.Summary.Stages {
		ok, failed = ok+st.OK, failed+st.Failed
		if st.OK > 0 && (best == nil || st.OutputTokensPerSecond > best.OutputTokensPerSecond) {
			best = &in.Summary.Stages[i]
		}
	}
	if best == nil {
		return nil
	}
	ms := func(d assay.Dist) (string, string) {
		note := ""
		if p, ok := d.P(99); ok && p.Held() {
			note = "p99 " + number(p.Value) + " ms"
		}
		return percentile(d, 50) + " ms", note
	}
	tiles := Tiles{{"output tokens/s", number(best.OutputTokensPerSecond), "at " + loadOf(best.Plan)}}
	for _, m := range []struct {
		name string
		d    assay.Dist
	}{{"TTFT, median", best.TTFT}, {"TPOT, median", best.TPOT}} {
		if m.d.N > 0 {
			value, note := ms(m.d)
			tiles = append(tiles, Tile{m.name, value, note})
		}
	}
	tiles = append(tiles, Tile{"failed requests", percent(float64(failed) / float64(ok+failed)), fmt.Sprintf("%d of %d", failed, ok+failed)})
	if h := in.Health; h != nil && h.Cost.TotalPerMillion != nil {
		tiles = append(tiles, Tile{"a million output tokens", price(*h.Cost.TotalPerMillion), "rental and energy"})
	} else if h != nil && h.Cost.RentalPerMillion != nil {
		tiles = append(tiles, Tile{"a million output tokens", price(*h.Cost.RentalPerMillion), "rental"})
	}
	return tiles
}

// nameOf says which device is meant: by its number where it has one.
func (in HealthInput) nameOf(uuid string) string {
	if uuid == "" {
		return missing
	}
	if in.Health != nil {
		for _, g := range in.Health.GPUs {
			if g.UUID == uuid {
				return fmt.Sprintf("GPU %d", g.Index)
			}
		}
	}
	for _, g := range in.Manifest.Node.GPUs {
		if g.UUID == uuid {
			return fmt.Sprintf("GPU %d", g.Index)
		}
	}
	return uuid
}

func findings(in HealthInput) []Block {
	h := in.Health
	out := []Block{Heading{"Findings"}}
	if len(h.Findings) == 0 {
		out = append(out, Paragraph{Text: "None of the rules found a sign of bad health in what was read."})
	} else {
		t := Table{Columns: []Column{{Name: "rule"}, {Name: "verdict", Words: true}, {Name: "device", Words: true}, {Name: "what was seen", Words: true}, {Name: "what to do", Words: true}}}
		hard := false
		for _, f := range h.Findings {
			rule := f.Rule
			if f.Hard {
				rule, hard = rule+" *", true
			}
			t.Rows = append(t.Rows, []string{rule, f.Verdict.String(), in.nameOf(f.Device), f.Text, f.Action})
		}
		if hard {
			t.Note = "* fails the node whatever its score."
		}
		out = append(out, t)
	}
	if len(h.GPUs) > 1 || len(h.GPUs) == 1 && h.GPUs[0].Verdict != h.Verdict {
		t := Table{Title: "Each GPU", Columns: []Column{{Name: "GPU"}, {Name: "verdict", Words: true}, {Name: "model", Words: true}, {Name: "UUID", Words: true}, {Name: "because", Words: true}}}
		for _, g := range h.GPUs {
			t.Rows = append(t.Rows, []string{fmt.Sprint(g.Index), g.Verdict.String(), g.Name, g.UUID, g.Because})
		}
		out = append(out, t)
	}
	return out
}

func trends(in HealthInput) Table {
	t := Table{Columns: []Column{{Name: "of"}, {Name: "kind", Words: true}, {Name: "stage", Words: true}, {Name: "device", Words: true},
		{Group: "change a minute", Name: "slope"}, {Group: "change a minute", Name: "95 %"}, {Group: "change a minute", Name: "counts from"}, {Name: "p"},
		{Name: "found", Words: true}, {Name: "why", Words: true}},
		Note: "A drift is a share of the median a minute; a leak is in the reading's own unit. Found: pass is no trend beyond the least effect that counts."}
	for _, tr := range in.Summary.Trends {
		slope, span := missing, missing
		write := number
		if tr.Kind == "drift" {
			write = percent
		}
		if tr.Slope.Known() {
			slope = write(tr.Slope.Est)
			if !math.IsNaN(tr.Slope.Lo) && !math.IsNaN(tr.Slope.Hi) {
				span = write(tr.Slope.Lo) + " … " + write(tr.Slope.Hi)
			}
		}
		p := missing
		if tr.P != nil {
			p = number(*tr.P)
		}
		why := tr.Why
		if tr.Cause != "" {
			why = strings.TrimSpace(why + " Changed together with " + strings.ReplaceAll(tr.Cause, "_", " ") + ".")
		}
		t.Rows = append(t.Rows, []string{tr.Of, tr.Kind, orMissing(tr.Stage), in.nameOf(tr.Device), slope, span, write(tr.MinEffect), p, tr.Found.String(), why})
	}
	return t
}

func checks(in HealthInput) Table {
	t := Table{Columns: []Column{{Name: "check"}, {Name: "verdict", Words: true}, {Name: "device", Words: true}, {Name: "evidence", Words: true}, {Name: "proves", Words: true}, {Name: "does not prove", Words: true}}}
	for _, c := range in.Checks {
		c = c.Settled()
		claim := c.Proves
		if c.WouldProve != "" {
			claim = "nothing; would prove: " + c.WouldProve
		}
		t.Rows = append(t.Rows, []string{c.Name, c.Verdict.String(), in.nameOf(c.Device), c.Evidence, orMissing(claim), orMissing(c.DoesNotProve)})
	}
	return t
}

// environment is what was measured with, and where.
func environment(in HealthInput) []Block {
	m, s := in.Manifest, in.Summary
	t := Table{Columns: []Column{{Name: "what"}, {Name: "value", Words: true}}}
	row := func(what, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{what, value})
		}
	}
	join := func(words ...string) string {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		return strings.Join(words, ", ")
	}
	row("node", join(m.Node.ID, m.Node.Hostname))
	row("system", join(strings.TrimSpace(m.Node.OS+" "+m.Node.Arch), m.Node.Kernel))
	if m.Node.Cores > 0 {
		row("processor", join(m.Node.CPU, plural(m.Node.Cores, "core", "cores")))
	}
	if m.Node.MemoryBytes > 0 {
		row("memory", bytesOf(float64(m.Node.MemoryBytes)))
	}
	row("engine", join(s.Engine.URL, s.Engine.Backend, s.Engine.Version))
	row("model", s.Engine.Model)
	row("run", join(s.RunID, string(s.Status)))
	row("measured by", join(strings.TrimSpace("assay "+m.Version.Assay), m.Version.Go, "seed "+fmt.Sprint(m.Seed)))
	if c := s.Sampling; c != nil {
		text := join("every "+time.Duration(c.IntervalNS).String(), "from "+strings.Join(c.Sources, ", "))
		if c.CPUShare != nil {
			text = join(text, "at a cost of "+percent(*c.CPUShare)+" of one core")
		}
		row("readings", text)
	}
	if s.Restarts > 0 {
		row("engine restarts", fmt.Sprint(s.Restarts))
	}
	out := []Block{t}
	if len(m.Node.GPUs) > 0 {
		g := Table{Title: "GPUs, self-reported", Columns: []Column{{Name: "GPU"}, {Name: "model", Words: true}, {Name: "memory"}, {Name: "multiprocessors"}, {Name: "bus, bits"}, {Name: "driver"}, {Name: "VBIOS"}, {Name: "PCI"}, {Name: "UUID", Words: true}}}
		for _, x := range m.Node.GPUs {
			memory, sms, bus := missing, missing, missing
			if x.MemoryBytes > 0 {
				memory = bytesOf(float64(x.MemoryBytes))
			}
			if x.SMCount > 0 {
				sms = fmt.Sprint(x.SMCount)
			}
			if x.BusWidthBits > 0 {
				bus = fmt.Sprint(x.BusWidthBits)
			}
			g.Rows = append(g.Rows, []string{fmt.Sprint(x.Index), orMissing(x.Name), memory, sms, bus, orMissing(x.Driver), orMissing(x.VBIOS), orMissing(x.PCIBusID), orMissing(x.UUID)})
		}
		out = append(out, g)
	}
	return out
}

// bytesOf writes a size in the binary units that memory is sold in.
func bytesOf(v float64) string {
	switch {
	case math.IsNaN(v):
		return missing
	case v >= 1<<30:
		return number(v/(1<<30)) + " GiB"
	case v >= 1<<20:
		return number(v/(1<<20)) + " MiB"
	}
	return number(v) + " B"
}

func clientTable(c assay.ClientSummary) Table {
	t := Table{Columns: []Column{{Name: "of the client itself"}, {Name: "value"}}}
	row := func(what, value string) { t.Rows = append(t.Rows, []string{what, value}) }
	row("clock", string(c.Clock))
	row("reads", fmt.Sprint(c.Reads))
	row("merged reads", fmt.Sprintf("%d (%s)", c.MergedReads, percent(c.MergedShare)))
	row("schedule slots dropped", fmt.Sprint(c.Dropped))
	optional := func(what string, v *float64, write func(float64) string) {
		if v == nil {
			row(what, missing)
			return
		}
		row(what, write(*v))
	}
	optional("processor time", c.CPUSeconds, func(v float64) string { return number(v) + " s" })
	optional("share of its processors", c.CPUShare, percent)
	optional("waited for a CPU", c.RunDelay, percent)
	optional("stopped as a whole", c.Suspended, percent)
	optional("peak memory", c.PeakRSSBytes, bytesOf)
	return t
}
