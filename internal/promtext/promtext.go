// Package promtext writes a page in the Prometheus text exposition format 0.0.4.
//
// It promises that a page is valid whatever goes into it: a family stands on it
// once, its samples together and none of them twice, label values are escaped
// and made harmless, and a value that is unknown (NaN, infinite) has no sample
// rather than a false one. Families are in the order of their names, samples in
// that in which they came, so the same calls give the same bytes.
//
// It refuses to keep state between pages: counters belong to their owners. The
// node has no client library; this is what it has instead.
package promtext

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/internal/foreign"
)

// ContentType is the page's.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kind is what a family's samples are.
type Kind string

// The kinds.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter" // its name ends in _total
	Summary   Kind = "summary"
	Histogram Kind = "histogram"
)

// maxLabel bounds a label's value, in bytes: a name may come from an engine,
// and an engine may send a megabyte.
const maxLabel = 1024

// Page is a page in the making. Its zero value is empty and ready.
type Page struct{ by map[string]*Family }

// Family is a metric with its samples.
type Family struct {
	name, help string
	kind       Kind
	valid      bool
	lines      []byte
	seen       map[string]bool // a sample twice would make the whole page unreadable
}

// Family finds the family of that name, or begins it. Kind and help are those of
// the first call. A name that the format does not know is not written.
func (p *Page) Family(name string, kind Kind, help string) *Family {
	if f := p.by[name]; f != nil {
		return f
	}
	f := &Family{name: name, help: help, kind: kind, valid: validName(name, true), seen: map[string]bool{}}
	if p.by == nil {
		p.by = map[string]*Family{}
	}
	p.by[name] = f
	return f
}

// Gauge adds a family of one sample, or one more sample to it. Labels are pairs
// of a name and a value, here and below.
func (p *Page) Gauge(name, help string, v float64, labels ...string) {
	p.Family(name, Gauge, help).Add(v, labels...)
}

// Counter adds a family of one sample, or one more sample to it.
func (p *Page) Counter(name, help string, v float64, labels ...string) {
	p.Family(name, Counter, help).Add(v, labels...)
}

// Bytes is the page. A family without samples is left out.
func (p *Page) Bytes() []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(p.by)) {
		f := p.by[name]
		if len(f.lines) == 0 {
			continue
		}
		b = append(b, "# HELP "+f.name+" "+escapeHelp.Replace(f.help)+"\n# TYPE "+f.name+" "+string(f.kind)+"\n"...)
		b = append(b, f.lines...)
	}
	return b
}

// Add writes one sample. The first one with the same labels counts.
func (f *Family) Add(v float64, labels ...string) { f.sample("", v, labels) }

// Level is one quantile of a summary, from 0 to 1.
type Level struct{ Quantile, Value float64 }

// Summary writes the samples of one summary.
func (f *Family) Summary(levels []Level, sum, count float64, labels ...string) {
	for _, l := range levels {
		f.sample("", l.Value, append(labels[:len(labels):len(labels)], "quantile", Number(l.Quantile)))
	}
	f.sample("_sum", sum, labels)
	f.sample("_count", count, labels)
}

// Bucket counts what a histogram has at or below a bound.
type Bucket struct {
	AtMost float64
	Count  int64
}

// Histogram writes the samples of one histogram; the bucket of all is added.
func (f *Family) Histogram(buckets []Bucket, sum float64, count int64, labels ...string) {
	for _, b := range buckets {
		f.sample("_bucket", float64(b.Count), append(labels[:len(labels):len(labels)], "le", Number(b.AtMost)))
	}
	f.sample("_bucket", float64(count), append(labels[:len(labels):len(labels)], "le", "+Inf"))
	f.sample("_sum", sum, labels)
	f.sample("_count", float64(count), labels)
}

func (f *Family) sample(suffix string, v float64, labels []string) {
	if !f.valid || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	b := []byte(f.name + suffix)
	sep := byte('{')
	for i := 0; i+1 < len(labels); i += 2 {
		if !validName(labels[i], false) {
			continue
		}
		b = append(append(b, sep), labels[i]+`="`+escapeLabel.Replace(foreign.Line(labels[i+1], maxLabel))+`"`...)
		sep = ','
	}
	if sep == ',' {
		b = append(b, '}')
	}
	if f.seen[string(b)] {
		return
	}
	f.seen[string(b)] = true
	f.lines = append(append(append(f.lines, b...), ' '), Number(v)+"\n"...)
}

// Number writes a number as the format has it.
func Number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

var (
	escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

// validName reports whether the format knows a metric's or a label's name.
func validName(s string, metric bool) bool {
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', i > 0 && '0' <= c && c <= '9', metric && c == ':':
		default:
			return false
		}
	}
	return s != ""
}
