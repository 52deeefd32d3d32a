package summary

import (
	"slices"

	"github.com/assay-bench/assay"
)

// prepare lays out the windows of the stages, when all events are known: which
// width they have, which time was under load, and which stage is looked at for
// trends. A stage without an end is taken to last until nobody recorded any
// more.
func (o *reduction) prepare(run Source) {
	end := o.last
	if e, ok := run.(Ending); ok {
		if c, err := e.Checkpoint(); err == nil {
			end = max(end, c.At)
		}
	}
	var p periods
	p.width = o.width(end)
	p.resumed = slices.DeleteFunc(o.resumed, func(t int64) bool { return !sane(t) })
	longest := int64(0)
	o.watched = -1
	for i, s := range o.stages {
		if !sane(s.started) || !sane(s.begun) {
			continue
		}
		whole := span{s.started, open(s.ended)}
		p.loaded = p.loaded.union(whole)
		anchor := s.begun
		if steady := (span{s.steadyFrom, open(s.steadyTo)}); sane(s.steadyFrom) && steady.to > steady.from {
			anchor = s.steadyFrom
			p.steady = append(p.steady, steadySpan{steady, i})
			if length := min(steady.to, max(end, s.steadyFrom+1)) - steady.from; length > longest && !s.plan.Probe {
				longest, o.watched, p.watched = length, i, steady
			}
		}
		if whole.to > s.begun {
			s.course = newCourse(span{s.begun, whole.to}, anchor, p.width)
		}
	}
	o.node = newNode(&o.manifest, p)
}

// open is a time, or the end of time where there is none.
func open(t int64) int64 {
	if !sane(t) {
		return latestTime
	}
	return t
}

// width is the least of 1, 2, 4… seconds in which the stages together have no
// more than slotsMost windows.
func (o *reduction) width(end int64) int64 {
	for width := slotLeast; ; width *= 2 {
		count := int64(0)
		for _, s := range o.stages {
			to := s.ended
			if to == 0 {
				to = end
			}
			if sane(s.begun) && sane(to) && to > s.begun {
				count += (to-s.begun)/width + 2
			}
		}
		if count <= slotsMost+2*int64(len(o.stages)) || width > latestTime/4 {
			return width
		}
	}
}

// vary fills what a stage's windows say of it.
func (o *reduction) vary(i int, c *course, s *assay.StageSummary) {
	window := span{s.SteadyFrom, s.SteadyTo}
	if c.anchor != window.from || window.to <= window.from {
		return
	}
	windows := c.steady(window.to)
	total, joules := o.node.stageJoules(i, window, c.width)
	s.Joules = total
	s.WindowCV = windowCV(windows, c.width, s)
	s.Replicates = replicate(windows, c.width, joules, o.manifest.Seed, s.Name)
}
