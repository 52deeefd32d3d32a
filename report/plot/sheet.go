package plot

import (
	"image"
	"image/color"
	"math"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
)

// baseDPI is the resolution at which a unit is a pixel.
const baseDPI = 96

// sheet is a canvas in units of 1/96 inch with y growing downwards, as text is
// laid out.
type sheet struct {
	canvas          *vgimg.Canvas
	width, height   float64
	scale           float64 // pixels a unit
	font, titleFont font.Face
}

func newSheet(o Options) *sheet {
	scale := float64(o.DPI) / baseDPI
	fonts := font.NewCache(liberation.Collection())
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	bold := sans
	bold.Weight = xfont.WeightBold
	return &sheet{
		canvas: vgimg.NewWith(vgimg.UseImage(image.NewRGBA(image.Rect(0, 0, o.Width, o.Height))), vgimg.UseDPI(o.DPI)),
		width:  float64(o.Width) / scale, height: float64(o.Height) / scale, scale: scale,
		font: fonts.Lookup(sans, length(12)), titleFont: fonts.Lookup(bold, length(15)),
	}
}

func length(units float64) vg.Length { return vg.Length(units) * vg.Inch / baseDPI }

func (s *sheet) image() image.Image { return s.canvas.Image() }

type point struct{ x, y float64 }

// at is a place on the canvas. No path may leave the sheet by far: the
// rasterizer walks every pixel of it, seen or not, and one wrong value would
// keep it busy for hours.
func (s *sheet) at(p point) vg.Point {
	return vg.Point{X: length(near(p.x, s.width)), Y: length(s.height - near(p.y, s.height))}
}

func near(v, size float64) float64 {
	if math.IsNaN(v) {
		return -size
	}
	return min(max(v, -size), 2*size)
}

// crisp moves a thin straight line onto the middle of its pixels.
func (s *sheet) crisp(v float64) float64 { return (math.Floor(v*s.scale) + 0.5) / s.scale }

func (s *sheet) path(points []point) vg.Path {
	var p vg.Path
	for i, q := range points {
		if i == 0 {
			p.Move(s.at(q))
		} else {
			p.Line(s.at(q))
		}
	}
	return p
}

type stroke struct {
	colour color.Color
	width  float64
	dash   []float64
}

func (s *sheet) stroke(points []point, look stroke) {
	if len(points) < 2 {
		return
	}
	dash := make([]vg.Length, len(look.dash))
	for i, d := range look.dash {
		dash[i] = length(d)
	}
	s.canvas.SetColor(look.colour)
	s.canvas.SetLineWidth(length(look.width))
	s.canvas.SetLineDash(dash, 0)
	s.canvas.Stroke(s.path(points))
}

// thin draws one straight line of one unit, along an axis.
func (s *sheet) thin(x0, y0, x1, y1 float64, colour color.Color) {
	s.stroke([]point{{s.crisp(x0), s.crisp(y0)}, {s.crisp(x1), s.crisp(y1)}}, stroke{colour: colour, width: 1})
}

func (s *sheet) fill(points []point, colour color.Color) {
	if len(points) < 3 {
		return
	}
	p := s.path(points)
	p.Close()
	s.canvas.SetColor(colour)
	s.canvas.Fill(p)
}

func (s *sheet) rect(x, y, w, h float64, colour color.Color) {
	s.fill([]point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}, colour)
}

func (s *sheet) dot(x, y, r float64, colour color.Color) {
	var p vg.Path
	centre := s.at(point{x, y})
	p.Move(vg.Point{X: centre.X + length(r), Y: centre.Y})
	p.Arc(centre, length(r), 0, 2*math.Pi)
	p.Close()
	s.canvas.SetColor(colour)
	s.canvas.Fill(p)
}

// hatch draws slanted lines into a rectangle, so that shading survives a
// printer without colour.
func (s *sheet) hatch(x, y, w, h, step float64, colour color.Color) {
	for d := -h; d < w; d += step {
		// From (x+d, y+h) up to (x+d+h, y), as far as it is within the rectangle.
		a, b := max(0, -d), min(h, w-d)
		if a < b {
			s.stroke([]point{{x + d + a, y + h - a}, {x + d + b, y + h - b}}, stroke{colour: colour, width: 1})
		}
	}
}

type align float64

const (
	left   align = 0
	middle align = 0.5
	right  align = 1
)

// text writes one line with its base at y.
func (s *sheet) text(line string, face font.Face, colour color.Color, x, y float64, a align) {
	if line == "" {
		return
	}
	s.canvas.SetColor(colour)
	s.canvas.FillString(face, s.at(point{x - float64(a)*s.measure(line, face), y}), line)
}

// slanted writes one line that ends at x, y, rising to it.
func (s *sheet) slanted(line string, face font.Face, colour color.Color, x, y, angle float64) {
	s.canvas.Push()
	defer s.canvas.Pop()
	s.canvas.Translate(s.at(point{x, y}))
	s.canvas.Rotate(angle)
	s.canvas.SetColor(colour)
	s.canvas.FillString(face, vg.Point{X: -length(s.measure(line, face))}, line)
}

func (s *sheet) measure(line string, face font.Face) float64 {
	return float64(face.Width(line) / vg.Inch * baseDPI)
}

// cut shortens a line to a width. Text from outside may be long: what cannot
// fit is not measured.
func (s *sheet) cut(line string, face font.Face, width float64) string {
	runes := []rune(line)
	if most := int(width) + 1; len(runes) > most {
		runes = append(runes[:max(most, 1)], '…')
	}
	if s.measure(string(runes), face) <= width {
		return string(runes)
	}
	low, high := 0, len(runes) // runes that fit; that do not
	for high-low > 1 {
		n := (low + high) / 2
		if s.measure(string(runes[:n])+"…", face) <= width {
			low = n
		} else {
			high = n
		}
	}
	return strings.TrimRight(string(runes[:low]), " ") + "…"
}

// squeeze shortens a name in its middle: versions and sizes stand at its end,
// and tell one engine from another.
func (s *sheet) squeeze(name string, face font.Face, width float64) string {
	if runes := []rune(name); len(runes) > 512 {
		name = string(runes[:256]) + string(runes[len(runes)-256:])
	}
	if s.measure(name, face) <= width {
		return name
	}
	runes := []rune(name)
	for keep := len(runes) - 1; keep > 1; keep-- {
		head := (keep + 1) / 2
		if short := string(runes[:head]) + "…" + string(runes[len(runes)-keep+head:]); s.measure(short, face) <= width {
			return short
		}
	}
	return "…"
}

// fold breaks text between words into lines of at most a width; a longer word
// is cut.
func (s *sheet) fold(text string, face font.Face, width float64) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		word = s.cut(word, face, width)
		switch longer := line + " " + word; {
		case line == "":
			line = word
		case s.measure(longer, face) <= width:
			line = longer
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
