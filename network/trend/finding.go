package trend

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Kinds of findings: what the policy's table of anomalies names.
const (
	KindDrop    = "performance_drop"  // from one report to the next
	KindDrift   = "performance_drift" // bit by bit
	KindFlap    = "performance_flapping"
	KindOutlier = "peer_outlier"
	KindBatch   = "bad_batch"
)

// Finding is something that a person might want to know, with what it rests on.
type Finding struct {
	Kind   string `json:"kind"`
	Metric string `json:"metric"`
	// Subject is what the finding is about, for telling it once: the node, or a group
	// of nodes.
	Subject string    `json:"subject"`
	Since   time.Time `json:"since"`
	// Usual and Now are values of the metric. Shift is the difference as a share
	// (worse: negative), with its 95 % interval where there is one.
	Usual float64  `json:"usual"`
	Now   float64  `json:"now"`
	Shift float64  `json:"shift"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	// Reports are those that it rests on, the newest last.
	Reports []string `json:"reports"`
	Text    string   `json:"text"` // all of it in a sentence
}

// Subjects of findings about the node itself and about a group.
func nodeSubject(node string) string { return "node " + node }

// Look is what is known when a report of a node has come.
type Look struct {
	Node string
	// History is the node's, by metric, the new report included.
	History map[string][]Point
	// Peers are others of the same GPU and model, by metric.
	Peers map[string][]Peer
	// Traits are the node's own.
	Traits map[string]string
}

// Findings are what the newest report shows for the first time, or still shows. A
// change and an episode are told with the report that completes them; an outlier and
// a batch with every report, so that the caller tells them once in a while.
func Findings(l Look, o Options) []Finding {
	var out []Finding
	for _, metric := range Metrics() {
		series := Latest(l.History[metric])
		if len(series) == 0 {
			continue
		}
		if f, ok := ofFlap(metric, series, o); ok {
			out = append(out, f)
		} else if f, ok := ofChange(metric, series, o); ok {
			out = append(out, f)
		}
		if f, ok := ofPeers(metric, series, l.Peers[metric], o); ok {
			out = append(out, f)
		}
		for i := range out {
			if out[i].Subject == "" {
				out[i].Subject = nodeSubject(l.Node)
			}
		}
		out = append(out, ofBatches(metric, series, l, o)...)
	}
	return out
}

func ofChange(metric string, series []Point, o Options) (Finding, bool) {
	v := Changes(metric, series, o)
	if len(v.Changes) == 0 {
		return Finding{}, false
	}
	c := v.Changes[len(v.Changes)-1]
	if c.Index != len(series)-1 || c.Loss < o.MinLoss {
		return Finding{}, false
	}
	f := Finding{
		Kind: KindDrop, Metric: metric, Since: c.At, Usual: c.Before, Now: c.After, Shift: c.Shift, Low: number(c.Low), High: number(c.High), Reports: c.Reports,
	}
	f.Text = fmt.Sprintf("%s is %s since %s: %s, and %s before (95 %% interval of the change %s to %s; %d reports in this configuration)",
		metric, worse(c.Shift), c.At.UTC().Format(time.RFC3339), figure(c.After), figure(c.Before), percent(c.Low), percent(c.High), len(series))
	if c.Drift {
		f.Kind = KindDrift
		f.Text = fmt.Sprintf("%s gets worse bit by bit: %s now, %s in the weeks before, %s less than when this configuration began (95 %% interval of the change %s to %s; %d reports)",
			metric, figure(c.After), figure(c.Before), percent(c.Loss), percent(c.Low), percent(c.High), len(series))
	}
	return f, true
}

func ofFlap(metric string, series []Point, o Options) (Finding, bool) {
	c, ok := Flapping(metric, series, o)
	if !ok {
		return Finding{}, false
	}
	f := Finding{Kind: KindFlap, Metric: metric, Since: c.Downs[0], Usual: c.Usual, Now: c.Low, Shift: -c.Loss, Reports: c.Reports[max(0, len(c.Reports)-maxReports):]}
	f.Text = fmt.Sprintf("%s went down %d times since %s and came back: %s while down, %s usually", metric, len(c.Downs), c.Downs[0].UTC().Format(time.RFC3339), figure(c.Low), figure(c.Usual))
	return f, true
}

func ofPeers(metric string, series []Point, peers []Peer, o Options) (Finding, bool) {
	newest := series[max(0, len(series)-o.Recent):]
	own := make([]float64, len(newest))
	for i, p := range newest {
		own[i] = p.Value
	}
	a := AgainstPeers(metric, own, peers, o)
	if a.Unknown != "" || !a.Outlier {
		return Finding{}, false
	}
	f := Finding{Kind: KindOutlier, Metric: metric, Since: newest[0].At, Usual: a.Median, Now: a.Value, Shift: a.Shift}
	for _, p := range newest {
		f.Reports = append(f.Reports, p.Report)
	}
	f.Text = fmt.Sprintf("%s is %s than the median of %d peers of the same GPU and model: %s, and %s there (%.1f robust standard deviations)",
		metric, worse(a.Shift), a.Peers, figure(a.Value), figure(a.Median), max(a.Score, -999))
	return f, true
}

func ofBatches(metric string, series []Point, l Look, o Options) (out []Finding) {
	last := series[len(series)-1]
	nodes := append(slices.Clone(l.Peers[metric]), Peer{Node: l.Node, Value: last.Value, Report: last.Report, Traits: l.Traits})
	for _, b := range Batches(metric, nodes, o) {
		if l.Traits[b.Trait] != b.Value {
			continue // it is told with a report of one of them
		}
		f := Finding{
			Kind: KindBatch, Metric: metric, Subject: fmt.Sprintf("%s %s", b.Trait, b.Value), Since: last.At, Now: last.Value, Shift: b.Shift,
			Low: number(b.Low), High: number(b.High), Reports: b.Reports[max(0, len(b.Reports)-maxReports):],
		}
		f.Usual = last.Value
		f.Text = fmt.Sprintf("%d nodes with the %s %s are %s in %s than %d others of the same GPU and model (95 %% interval %s to %s, p = %.1e): %s",
			len(b.Nodes), b.Trait, b.Value, worse(b.Shift), metric, b.Rest, percent(b.Low), percent(b.High), b.P, strings.Join(b.Nodes[:min(len(b.Nodes), maxReports)], " "))
		out = append(out, f)
	}
	return out
}

// number is a value that may be missing.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func worse(shift float64) string { return fmt.Sprintf("%.1f %% worse", -100*shift) }

func percent(v float64) string { return fmt.Sprintf("%+.1f %%", 100*v) }

func figure(v float64) string { return fmt.Sprintf("%.4g", v) }

func lacks(has, needs int, what string) string {
	return fmt.Sprintf("there are %d %s, and %d are needed", has, what, needs)
}
