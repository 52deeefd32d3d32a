package plot

import (
	"image/color"

	"github.com/assay-bench/assay/report"
)

// The colours are those of the page in light, by the names they have in its
// style sheet; a test holds the two together.
var (
	paper = color.NRGBA{0xff, 0xff, 0xff, 0xff}
	ink   = color.NRGBA{0x1b, 0x20, 0x26, 0xff}
	dim   = color.NRGBA{0x5b, 0x65, 0x70, 0xff}
	rule  = color.NRGBA{0xd9, 0xde, 0xe3, 0xff}
	grid  = color.NRGBA{0xe6, 0xea, 0xee, 0xff}
	warn  = color.NRGBA{0xc7, 0x77, 0x00, 0xff}
	bad   = color.NRGBA{0xb4, 0x23, 0x18, 0xff}
	mark  = color.NRGBA{0x7a, 0x1f, 0x5c, 0xff}

	series = [...]color.NRGBA{
		{0x0b, 0x62, 0xa4, 0xff}, {0xc2, 0x41, 0x0c, 0xff}, {0x15, 0x80, 0x3d, 0xff}, {0x7c, 0x3a, 0xed, 0xff},
		{0x92, 0x66, 0x0a, 0xff}, {0x0e, 0x74, 0x90, 0xff}, {0xbe, 0x18, 0x5d, 0xff}, {0x47, 0x55, 0x69, 0xff},
	}
)

func seriesInk(i int) color.NRGBA { return series[i%len(series)] }

// lineInk is the colour of a line at its place.
func lineInk(l report.Line, i int) color.NRGBA { return seriesInk(l.ColourOf(i)) }

// faint is the colour with a share of its weight.
func faint(c color.NRGBA, share float64) color.NRGBA {
	c.A = uint8(share * 255)
	return c
}

// dashOf tells computed lines from measured ones, and the second round of
// colours from the first.
func dashOf(l report.Line, i int) []float64 {
	switch {
	case l.Dashed:
		return []float64{6, 4}
	case i >= len(series):
		return []float64{2, 2}
	}
	return nil
}
