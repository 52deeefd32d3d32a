package profile

import (
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"strings"

	"github.com/assay-bench/assay/internal/foreign"
)

// Measures of the picture, in its own units.
const (
	flameWidth = 1200.0
	flameRow   = 17.0
	flameLeast = 0.3 // narrower than this nothing is seen
	flameChar  = 6.7 // of the font, about
	// maxRects bounds the file: each is some 200 bytes.
	maxRects = 20_000
)

// Flame writes the flame graph as one page that needs nothing else: no script, no
// network, no other file. Its content security policy forbids all of them. Note
// is shown above, for what is not in the profile.
func (s *Stacks) Flame(w io.Writer, title, note string) error {
	p := &picture{total: s.root.total}
	if p.total > 0 {
		p.draw(&frame{name: "all", total: s.root.total, calls: s.root.calls}, 0, 0)
	}
	var b strings.Builder
	fmt.Fprintf(&b, flameHead, html.EscapeString(title), html.EscapeString(title))
	fmt.Fprintf(&b, "<p>%d samples at most %d times a second and processor. A frame is as wide as its share of them, and lies below what called it; frames beside each other are in no order of time. Hold the pointer over one for its name; blue ones are the kernel's.</p>\n", s.root.total, ownHertz)
	if note != "" {
		fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(note))
	}
	if p.total == 0 {
		b.WriteString("<p>No samples: nothing that was looked at used a processor.</p>\n")
	} else {
		height := float64(p.depth+1)*flameRow + 2
		fmt.Fprintf(&b, "<svg viewBox=\"0 0 %g %g\" width=\"100%%\" role=\"img\" aria-label=\"Flame graph\" font-family=\"monospace\" font-size=\"11\">\n%s</svg>\n", flameWidth, height, p.rects.String())
	}
	if p.left > 0 {
		fmt.Fprintf(&b, "<p>%d frames too narrow to be seen are not drawn.</p>\n", p.left)
	}
	s.table(&b)
	b.WriteString("</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

const flameHead = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>%s</title>
<style>body{font:15px/1.5 sans-serif;margin:1.5rem auto;max-width:80rem;padding:0 1rem;color:#222;background:#fff}table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}td.n{text-align:right}code{overflow-wrap:anywhere}rect:hover{stroke:#000}</style>
</head>
<body>
<h1>%s</h1>
`

// picture is the graph under way.
type picture struct {
	rects strings.Builder
	total int64
	depth int // the deepest row that was drawn
	drawn int
	left  int // frames that were not
}

// draw draws a frame and what it called, from left to right by name.
func (p *picture) draw(f *frame, left int64, depth int) {
	x, width := flameWidth*float64(left)/float64(p.total), flameWidth*float64(f.total)/float64(p.total)
	if width < flameLeast || p.drawn >= maxRects {
		p.left++
		return
	}
	p.drawn++
	p.depth = max(p.depth, depth)
	y := float64(depth) * flameRow
	name := html.EscapeString(f.name)
	fmt.Fprintf(&p.rects, "<g><title>%s: %d samples, %.2f %%</title><rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" rx=\"1\" fill=\"%s\"/>",
		name, f.total, 100*float64(f.total)/float64(p.total), x, y, max(width-0.2, 0.1), flameRow-1, colour(f.name))
	if label := fit(f.name, width); label != "" {
		fmt.Fprintf(&p.rects, "<text x=\"%.2f\" y=\"%.1f\">%s</text>", x+2, y+flameRow-5, html.EscapeString(label))
	}
	p.rects.WriteString("</g>\n")
	for _, c := range f.sorted() {
		p.draw(c, left, depth+1)
		left += c.total
	}
}

// fit is as much of a name as there is room for.
func fit(name string, width float64) string {
	n := int((width - 4) / flameChar)
	if n < 3 {
		return ""
	}
	return foreign.Line(name, n)
}

// colour is warm for programs and blue for the kernel, and the same for a name
// wherever it stands.
func colour(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	v := h.Sum32() % 40
	if strings.HasSuffix(name, kernelMark) {
		return fmt.Sprintf("hsl(%d 60%% 78%%)", 200+v/2)
	}
	return fmt.Sprintf("hsl(%d 75%% %d%%)", 15+v, 68+v/4)
}

// table lists the hottest functions below the picture.
func (s *Stacks) table(b *strings.Builder) {
	hot := s.Hot(maxHot)
	if len(hot) == 0 {
		return
	}
	b.WriteString("<h2>Hottest functions</h2>\n<table><thead><tr><th>self</th><th>with what it calls</th><th>program</th><th>function</th><th>the commonest way to it</th></tr></thead><tbody>\n")
	for _, h := range hot {
		fmt.Fprintf(b, "<tr><td class=\"n\">%.1f %%</td><td class=\"n\">%.1f %%</td><td>%s</td><td><code>%s</code></td><td><code>%s</code></td></tr>\n",
			100*h.Self, 100*h.Total, html.EscapeString(h.Process), html.EscapeString(h.Function), html.EscapeString(h.Path))
	}
	b.WriteString("</tbody></table>\n")
}
