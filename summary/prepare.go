package summary

import (
	"slices"

	"github.com/assay-bench/assay"
)

// prepare lays out the windows of the stages, when all events are known: how
// wide they are and where they begin. A stage without an end is taken to last
// until nobody recorded any more.
func (o *reduction) prepare(run Source) {
	end := o.last
	if e, ok := run.(Ending); ok {
		if c, err := e.Checkpoint(); err == nil {
			end = max(end, c.At)
		}
	}
	width := o.width(end)
	for _, s := range o.stages {
		if whole := (span{s.begun, open(s.ended)}); sane(s.started) && sane(s.begun) && whole.to > s.begun {
			s.course = newCourse(whole, width)
		}
	}
	o.periods.width = width
}

// settle finds the steady windows, when all requests are known, and so the time
// that readings are looked at in: under load, in each steady window, and in the
// stage that is watched for trends.
func (o *reduction) settle() {
	p := &o.periods
	p.resumed = slices.DeleteFunc(o.resumed, func(t int64) bool { return !sane(t) })
	longest := int64(0)
	o.watched = -1
	for i, s := range o.stages {
		s.settle()
		if !sane(s.started) || !sane(s.begun) {
			continue
		}
		p.loaded = p.loaded.union(span{s.started, open(s.ended)})
		if s.noWindow != "" || s.course == nil {
			continue
		}
		p.steady = append(p.steady, steadySpan{s.steady, s.course.anchor, i})
		if length := s.steady.to - s.steady.from; length > longest && !s.plan.Probe {
			longest, o.watched, p.watched = length, i, steadySpan{s.steady, s.course.anchor, i}
		}
	}
	o.node = newNode(&o.manifest, *p)
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

// fit ends the courses, and widens windows until the stages together have no more
// than slotsMost of them. Requests of a stage whose end was not recorded may lie
// behind everything that width knows of.
func (o *reduction) fit(stages []assay.StageSummary) {
	for {
		count, least := int64(0), latestTime
		for i, s := range o.stages {
			if s.course != nil {
				count += s.course.end(stages[i].Ended)
				least = min(least, s.course.width)
			}
		}
		if count <= slotsMost+2*int64(len(o.stages)) {
			return
		}
		for _, s := range o.stages {
			if s.course != nil && s.course.width == least {
				s.course.double()
			}
		}
	}
}

// vary fills what a stage's windows say of it.
func (o *reduction) vary(i int, c *course, s *assay.StageSummary) {
	window := span{s.SteadyFrom, s.SteadyTo}
	if !s.Windowed() {
		return
	}
	first, windows := c.steady(window)
	total, joules := o.node.stageJoules(i, window, c.width, first, len(windows))
	s.Joules = total
	s.WindowCV = windowCV(windows, c.width, s)
	s.Replicates = replicate(windows, c.width, joules, o.manifest.Seed, s.Name)
}
