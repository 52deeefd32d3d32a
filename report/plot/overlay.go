package plot

import (
	"cmp"
	"image/color"
	"slices"

	"github.com/assay-bench/assay/report"
)

func spanInk(k report.SpanKind) color.NRGBA {
	switch k {
	case report.SpanWarn:
		return warn
	case report.SpanBad:
		return bad
	}
	return dim
}

// within is the part of a span that is in the frame.
func (f frame) within(span report.Span) (from, to float64, ok bool) {
	low, high := max(span.From, f.x.low), min(span.To, f.x.high)
	if !(low <= high) {
		return 0, 0, false
	}
	from, to = f.x.place(low), f.x.place(high)
	return from, min(max(to, from+1), f.right), true
}

// span shades a stretch of the x axis.
func (s *sheet) span(f frame, span report.Span) {
	from, to, ok := f.within(span)
	if !ok {
		return
	}
	colour, height := spanInk(span.Kind), f.bottom-f.top
	if span.Kind == report.SpanNote {
		s.rect(from, f.top, to-from, height, faint(colour, 0.06))
		return
	}
	step := 10.0
	if span.Kind == report.SpanBad {
		step = 6
	}
	s.rect(from, f.top, to-from, height, faint(colour, 0.12))
	s.hatch(from, f.top, to-from, height, step, faint(colour, 0.35))
}

// spanNames writes what the spans are, over everything, as far as there is
// room: what costs first.
func (s *sheet) spanNames(f frame, spans []report.Span) {
	order := slices.Clone(spans)
	slices.SortStableFunc(order, func(a, b report.Span) int { return cmp.Compare(b.Kind, a.Kind) })
	var taken room
	for _, span := range order {
		from, to, ok := f.within(span)
		if !ok || span.Label == "" {
			continue
		}
		name := s.cut(span.Label, s.font, min(220, f.right-f.left-8))
		w := s.measure(name, s.font)
		if w > to-from-8 && span.Kind == report.SpanNote {
			continue
		}
		from = min(from+4, f.right-w-4)
		if !taken.take(from, from+w+8) {
			continue
		}
		s.rect(from-2, f.bottom-17, w+4, 15, faint(paper, 0.85))
		s.text(name, s.font, spanInk(span.Kind), from, f.bottom-6, left)
	}
}

// marks draws lines through the frame and their names above it. Findings are
// named first; a quiet name that finds no room is left out.
func (s *sheet) marks(f frame, marks []report.Mark) {
	order := slices.Clone(marks)
	slices.SortStableFunc(order, func(a, b report.Mark) int { return cmp.Compare(quiet(a), quiet(b)) })
	var taken room
	for _, m := range order {
		if !f.x.holds(m.At) {
			continue
		}
		look := stroke{mark, 1.5, []float64{6, 3}}
		name := mark
		if m.Quiet {
			look, name = stroke{faint(dim, 0.5), 1, []float64{2, 3}}, dim
		}
		at := s.crisp(f.x.place(m.At))
		s.stroke([]point{{at, f.top - 3}, {at, f.bottom}}, look)
		label := s.cut(m.Label, s.font, min(260, f.right-f.left))
		w := s.measure(label, s.font)
		from := min(at-2, f.right-w)
		if taken.take(from, from+w+8) {
			s.text(label, s.font, name, from, f.top-6, left)
		}
	}
}

func quiet(m report.Mark) int {
	if m.Quiet {
		return 1
	}
	return 0
}

// room is what names in one row have taken.
type room [][2]float64

// take reports whether the stretch was free, and takes it.
func (r *room) take(from, to float64) bool {
	for _, t := range *r {
		if from < t[1] && to > t[0] {
			return false
		}
	}
	*r = append(*r, [2]float64{from, to})
	return true
}
