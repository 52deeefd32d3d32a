package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

// Next says what to try after this run, at most three things, the most useful
// first.
func Next(s assay.Summary) []string {
	var next []string
	say := func(format string, args ...any) {
		if len(next) < 3 {
			next = append(next, fmt.Sprintf(format, args...))
		}
	}
	if s.Status == assay.StatusPartial {
		say("the run was interrupted: assay hammer --resume DIR goes on with it")
	}
	switch s.Client.Certificate {
	case assay.Invalid:
		switch s.Client.Cause {
		case "file_descriptors":
			say("raise the limit of open files (ulimit -n 65536) and run again: this client ran out of them")
		case "ports":
			say("use --connection keep, or a wider net.ipv4.ip_local_port_range: this client ran out of ports")
		default:
			say("give the client more CPU (--priority realtime), or run it on another machine than the engine: these numbers are about the client")
		}
	case assay.DegradedBy:
		say("lower the load or give the client more CPU (--priority realtime) for numbers without an error bar")
	}
	var worst assay.StageSummary
	for _, st := range s.Stages {
		if st.ErrorRate > worst.ErrorRate {
			worst = st
		}
	}
	if worst.ErrorRate > 0.01 {
		say("%s of requests failed at %s: the engine's log around that time says why", percent(worst.ErrorRate), worst.Name)
	}
	for _, st := range s.Stages {
		if p, ok := st.TTFT.P(99); ok && !p.Held() && st.TTFT.N > 0 {
			n, why := st.TTFT.Needed(p), ""
			if n > p.Need+p.Need/10 {
				why = fmt.Sprintf(" (%d independent ones, as %d here are worth %.0f)", p.Need, st.TTFT.N, st.TTFT.Effective)
			}
			say("for a p99 that holds up, about %d requests a stage are needed%s: --duration or --num-prompts", n, why)
			break
		}
	}
	for _, st := range s.Stages {
		if !st.Windowed() && st.Complete && st.OK > 0 && !st.Plan.Probe && strings.Contains(st.WindowWhy, "give ") {
			say("for a throughput without filling and draining: %s", st.WindowWhy[strings.Index(st.WindowWhy, "give "):])
			break
		}
	}
	if sc := s.Scaling; sc != nil && !sc.Cliff.Known() && len(sc.Points) > 1 {
		if searched(s) {
			say("goodput did not fall up to the highest load that was tried: --max-concurrency lets the search go further")
		} else {
			say("assay hammer --saturate goes on until goodput falls, and finds the cliff")
		}
	}
	if s.FindMax == nil && s.Client.Certificate == assay.Certified {
		say("assay hammer --find-max concurrency --slo \"ttft_p99<200ms\" finds the load that keeps a promise")
	}
	return next
}

// searched reports whether each stage was a step of a search.
func searched(s assay.Summary) bool {
	return !slices.ContainsFunc(s.Stages, func(st assay.StageSummary) bool { return !st.Plan.Probe })
}
