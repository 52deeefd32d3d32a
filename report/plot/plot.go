// Package plot draws a [report.Chart] as a PNG picture, for places that show
// pictures and no pages: a mail, a wiki, a pull request.
//
// A picture says what the page's chart says, in the page's light colours: a gap
// stays a gap, an interval is drawn, and whatever was left out or could not be
// drawn is written below it. A chart without data becomes a picture that says
// so, never an empty frame. The same chart gives the same bytes with the same
// build: the typeface comes with the program and no clock is read.
//
// A picture stands alone, so that [report.Chart.Group] is not read.
package plot

import (
	"bufio"
	"fmt"
	"image/png"
	"io"
	"strings"

	"github.com/assay-bench/assay/report"
)

// Options are the size of a picture. The zero value is good.
type Options struct {
	// Width and Height are in pixels; 0 means 900 and 540, or 340 for the
	// height of a small chart, times DPI/96.
	Width, Height int
	// DPI says how many pixels text and lines take; 0 means 96. With 192 and
	// twice the pixels the same picture comes out finer.
	DPI int
}

// The sizes that can be drawn. The least leaves room for axes; the most bounds
// the memory of one picture at 256 MB.
const (
	leastWidth, leastHeight = 240, 160 // at 96 DPI
	mostPixels              = 8192
	leastDPI, mostDPI       = 48, 600
)

func (o Options) resolved(small bool) (Options, error) {
	if o.DPI == 0 {
		o.DPI = baseDPI
	}
	if o.DPI < leastDPI || o.DPI > mostDPI {
		return o, fmt.Errorf("a picture of %d DPI: it must be from %d to %d", o.DPI, leastDPI, mostDPI)
	}
	if o.Width == 0 {
		o.Width = 900 * o.DPI / baseDPI
	}
	if o.Height == 0 {
		o.Height = 540 * o.DPI / baseDPI
		if small {
			o.Height = 340 * o.DPI / baseDPI
		}
	}
	w, h := leastWidth*o.DPI/baseDPI, leastHeight*o.DPI/baseDPI
	if o.Width < w || o.Height < h || o.Width > mostPixels || o.Height > mostPixels {
		return o, fmt.Errorf("a picture of %d×%d pixels at %d DPI: it must be from %d×%d to %d×%d",
			o.Width, o.Height, o.DPI, w, h, mostPixels, mostPixels)
	}
	return o, nil
}

// PNG draws the chart. Any chart can be drawn: an error is of the options or
// of w.
func PNG(w io.Writer, c report.Chart, o Options) error {
	o, err := o.resolved(c.Small)
	if err != nil {
		return err
	}
	s := newSheet(o)
	c, remarks := c.Drawable()
	s.chart(c, remarks)
	b := bufio.NewWriter(w)
	if err := png.Encode(b, s.image()); err != nil {
		return fmt.Errorf("writing the picture: %w", err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("writing the picture: %w", err)
	}
	return nil
}

// Distances of the layout, in units of 1/96 inch.
const (
	margin     = 16.0
	noteLine   = 16.0
	legendLine = 18.0
)

// chart lays the picture out: title, legend and names of marks above the frame,
// axis and notes below.
func (s *sheet) chart(c report.Chart, remarks []string) {
	top := margin + 15
	title := s.cut(c.Title, s.titleFont, s.width-2*margin)
	s.text(title, s.titleFont, ink, margin, top, left)
	about := strings.Trim(c.Y.Label+", "+c.Y.Unit, ", ")
	if about != "" && about != c.Title {
		x := margin
		if title != "" {
			x += s.measure(title, s.titleFont) + 8
		}
		if room := s.width - margin - x; room > 24 {
			s.text(s.cut(about, s.font, room), s.font, dim, x, top, left)
		}
	}
	top += 12

	bottom := s.height - 12
	notes := s.notes(c, remarks)
	for i, line := range notes {
		s.text(line, s.font, dim, margin, bottom-noteLine*float64(len(notes)-1-i), left)
	}
	if len(notes) > 0 {
		bottom -= noteLine*float64(len(notes)) + 6
	}
	if len(c.Lines) == 0 {
		s.text("no data", s.titleFont, dim, s.width/2, (top+bottom)/2, middle)
		return
	}
	top = s.legend(c, top)
	if c.Kind == report.ChartBars {
		s.bars(c, top, bottom)
		return
	}
	s.lines(c, top, bottom)
}

// notes are the lines below the frame; they never take more than a third.
func (s *sheet) notes(c report.Chart, remarks []string) []string {
	most := max(1, min(5, int(s.height/3/noteLine)-1))
	var out []string
	for _, text := range append([]string{c.Note}, strings.Join(remarks, "; ")) {
		if text != "" {
			out = append(out, s.fold(text, s.font, s.width-2*margin)...)
		}
	}
	if len(out) > most {
		out = out[:most]
		out[most-1] = s.cut(out[most-1]+" …", s.font, s.width-2*margin)
	}
	return out
}

// legend names the lines in rows under the title and returns where it ends. One
// line that has the chart's name needs none.
func (s *sheet) legend(c report.Chart, top float64) float64 {
	const swatch, gap, widest = 16.0, 18.0, 240.0
	if len(c.Lines) == 1 && (c.Lines[0].Name == "" || c.Lines[0].Name == c.Title) {
		return top
	}
	rows := max(1, int(s.height/5/legendLine))
	x, y := margin, top+10
	for i, l := range c.Lines {
		name := s.cut(l.Name, s.font, min(widest, s.width-2*margin-swatch-6))
		w := swatch + 6 + s.measure(name, s.font)
		if x > margin && x+w > s.width-margin {
			if rows--; rows == 0 {
				s.text("…", s.font, dim, min(x, s.width-margin-10), y, left)
				break
			}
			x, y = margin, y+legendLine
		}
		s.swatch(c, l, i, x, y-4, swatch)
		s.text(name, s.font, ink, x+swatch+6, y, left)
		x += w + gap
	}
	return y + 6
}

// swatch is a line's own look, in small.
func (s *sheet) swatch(c report.Chart, l report.Line, i int, x, y, w float64) {
	colour := lineInk(l, i)
	switch {
	case c.Kind == report.ChartBars && !c.Y.Log:
		s.rect(x+3, y-5, 10, 10, colour)
	case c.Kind == report.ChartBars, l.Dots, c.Kind == report.ChartScatter && !l.Dashed:
		s.dot(x+w/2, y, 3, colour)
	default:
		s.stroke([]point{{x, y}, {x + w, y}}, stroke{colour, 2, dashOf(l, i)})
	}
}
