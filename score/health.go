package score

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// Input is all that a node is judged by.
type Input struct {
	Manifest assay.Manifest
	Summary  assay.Summary
	Checks   []assay.Check   // of verify; none is no fault
	Baseline *assay.Baseline // nil: no part but stability is scored
	Terms    Terms
}

// Health makes the health report of a run.
func Health(in Input) assay.Health {
	in = inOrder(in)
	h := assay.Health{
		Format: assay.HealthFormat,
		RunID:  in.Summary.RunID, NodeID: in.Manifest.Node.ID,
		Timestamp: endOf(in).UTC().Format(time.RFC3339),
		Findings:  []assay.Finding{},
		GPUs:      []assay.GPUHealth{},
		Hardware:  hardware(in),
	}
	stage, measured := judgedStage(in)
	h.Score = scoreOf(in, stage.Name)
	h.Performance = performance(in, stage, measured)
	h.Cost = cost(in, stage, measured)

	cards := cardsOf(in)
	byDevice := map[string]bool{}
	for _, c := range cards {
		byDevice[c.UUID] = true
	}
	for _, c := range cards {
		var found []assay.Finding
		read := false
		for _, s := range in.Summary.GPUs {
			if s.UUID == c.UUID {
				found = append(found, gpu{s, trendsOf(in.Summary.Trends, c.UUID, byDevice)}.judge()...)
				read = true
			}
		}
		if !read {
			found = append(found, gpu{assay.GPUSummary{UUID: c.UUID}, trendsOf(in.Summary.Trends, c.UUID, byDevice)}.judge()...)
		}
		found = append(found, checkFindings(in.Checks, func(d string) bool { return d == c.UUID })...)
		h.GPUs = append(h.GPUs, gpuHealth(c, found, in.Summary.GPUs))
		h.Findings = append(h.Findings, found...)
	}
	node := nodeFindings(in, h.Score, byDevice)
	h.Findings = append(h.Findings, node...)
	sortFindings(h.Findings)
	sortFindings(node)
	h.Verdict, h.Because = nodeVerdict(in, h.GPUs, node, measured)
	return h
}

// inOrder puts lists into an order of their own, so that the report does not
// depend on how they came.
func inOrder(in Input) Input {
	in.Summary.Stages = slices.Clone(in.Summary.Stages)
	slices.SortFunc(in.Summary.Stages, func(a, b assay.StageSummary) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.Name, b.Name))
	})
	in.Summary.GPUs = slices.Clone(in.Summary.GPUs)
	slices.SortFunc(in.Summary.GPUs, func(a, b assay.GPUSummary) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Source, b.Source))
	})
	in.Summary.Trends = slices.Clone(in.Summary.Trends)
	slices.SortFunc(in.Summary.Trends, func(a, b assay.Trend) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Of, b.Of), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Stage, b.Stage))
	})
	return in
}

func endOf(in Input) time.Time {
	return time.Unix(0, cmp.Or(in.Summary.Ended, in.Manifest.Created))
}

// judgedStage is the stage at the baseline's load; without one, the stage that
// shows what the node can do.
func judgedStage(in Input) (assay.StageSummary, bool) {
	if s := atLoad(candidates(in.Summary.Stages), in.Baseline); len(s) > 0 {
		return s[0], true
	}
	return best(in.Summary.Stages)
}

// cardsOf is every GPU that the manifest or a reading names, in the order of
// their numbers.
func cardsOf(in Input) []assay.GPU {
	cards := slices.Clone(in.Manifest.Node.GPUs)
	slices.SortFunc(cards, func(a, b assay.GPU) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	next := 0
	seen := map[string]bool{}
	for _, c := range cards {
		seen[c.UUID] = true
		next = max(next, c.Index+1)
	}
	for _, s := range in.Summary.GPUs {
		if !seen[s.UUID] {
			seen[s.UUID] = true
			cards = append(cards, assay.GPU{UUID: s.UUID, Index: next, Source: s.Source})
			next++
		}
	}
	return cards
}

// sortFindings puts the worst first; notes, which change no verdict, come last.
func sortFindings(fs []assay.Finding) {
	slices.SortFunc(fs, func(a, b assay.Finding) int {
		hard := func(f assay.Finding) int {
			if f.Hard {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Verdict, a.Verdict), cmp.Compare(hard(a), hard(b)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Text, b.Text))
	})
}

// gpuHealth is the worst of a GPU's findings. A GPU passes only by readings: a
// reason for low clocks in hardware, temperature and memory, under load.
func gpuHealth(c assay.GPU, found []assay.Finding, all []assay.GPUSummary) assay.GPUHealth {
	sortFindings(found)
	h := assay.GPUHealth{UUID: clip(c.UUID), Name: clip(c.Name), Index: c.Index}
	if len(found) > 0 && found[0].Verdict > assay.Pass {
		h.Verdict, h.Because = found[0].Verdict, found[0].Text
		return h
	}
	clocks, heat, memory, loaded := false, false, false, false
	for _, g := range all {
		if g.UUID != c.UUID {
			continue
		}
		loaded = loaded || g.LoadedSeconds > 0
		for _, key := range []string{"hw_thermal", "hw_slowdown"} {
			if v, ok := g.Throttled[key]; ok && v >= 0 {
				clocks = true
			}
		}
		_, ok := maxOf(g, assay.GPUTemperature)
		heat = heat || ok
		_, ok = maxOf(g, assay.GPUMemoryUsed)
		memory = memory || ok
	}
	var missing []string
	for _, m := range []struct {
		ok    bool
		words string
	}{{loaded, "time under load"}, {clocks, "hardware reasons for low clocks"}, {heat, "temperature"}, {memory, "memory in use"}} {
		if !m.ok {
			missing = append(missing, m.words)
		}
	}
	if len(missing) > 0 {
		h.Because = "not read: " + strings.Join(missing, ", ")
		return h
	}
	h.Verdict, h.Because = assay.Pass, "no sign of bad health under load"
	return h
}

// nodeVerdict is the node's: a bad GPU of several takes its own replicas out
// and degrades the node, all of them bad fail it, and so does a failure of the
// node itself. Where the client was the bottleneck, or no GPU was read, only
// failures stand, and the rest is unknown.
func nodeVerdict(in Input, gpus []assay.GPUHealth, node []assay.Finding, measured bool) (assay.Verdict, string) {
	invalid := in.Summary.Client.Certificate == assay.Invalid
	onlyFailures := invalid || len(in.Summary.GPUs) == 0
	var bad, failed, unread []string
	for _, g := range gpus {
		switch {
		case g.Verdict == assay.Fail:
			failed, bad = append(failed, named(g)), append(bad, named(g)+": "+g.Because)
		case g.Verdict == assay.Degraded && !onlyFailures:
			bad = append(bad, named(g)+": "+g.Because)
		case g.Verdict == assay.Unknown:
			unread = append(unread, named(g)+": "+g.Because)
		}
	}
	if len(node) > 0 && node[0].Verdict == assay.Fail {
		return assay.Fail, node[0].Text
	}
	if len(failed) > 0 && len(failed) == len(gpus) {
		if len(gpus) == 1 {
			return assay.Fail, bad[0]
		}
		return assay.Fail, fmt.Sprintf("all %d GPUs fail: %s", len(gpus), bad[0])
	}
	if len(bad) > 0 {
		if len(gpus) == 1 {
			return assay.Degraded, bad[0]
		}
		return assay.Degraded, fmt.Sprintf("%d of %d GPUs bad, take their replicas out: %s", len(bad), len(gpus), clip(strings.Join(bad, "; ")))
	}
	switch {
	case invalid:
		return assay.Unknown, "the client was the bottleneck, so the numbers are about it and not about the node"
	case onlyFailures:
		return assay.Unknown, "no GPU was read, so nothing is known of the hardware"
	case len(node) > 0 && node[0].Verdict == assay.Degraded:
		return assay.Degraded, node[0].Text
	case len(unread) > 0:
		return assay.Unknown, clip(strings.Join(unread, "; "))
	case !measured:
		return assay.Unknown, "no stage was measured, so nothing is known of the node under load"
	case len(gpus) == 1:
		return assay.Pass, "the GPU and the engine showed no sign of bad health"
	}
	return assay.Pass, fmt.Sprintf("%d GPUs and the engine showed no sign of bad health", len(gpus))
}

func named(g assay.GPUHealth) string { return fmt.Sprintf("GPU %d (%s)", g.Index, g.UUID) }
