package telemetry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Bounds of what a scraped page may hold. A busy engine's page has some
// thousand lines.
const (
	maxPage     = 8 << 20
	maxPageLine = 64 << 10
	maxSamples  = 100_000
	maxLabels   = 64
)

// sample is one line of the Prometheus text format.
type sample struct {
	name   string
	labels []label
	value  float64
}

type label struct{ name, value string }

func (s sample) label(name string) string {
	for _, l := range s.labels {
		if l.name == name {
			return l.value
		}
	}
	return ""
}

// parseText reads the Prometheus text format and gives the samples whose names
// are wanted; the rest is not looked at further, since most of an engine's page
// is histograms that nobody here reads. A wanted line that cannot be read is
// left out and told in the error; the others are good all the same.
//
// It is written here because the usual library brings OpenMetrics, protocol
// buffers and their parsers into a binary that needs to read a name and a
// number.
func parseText(r io.Reader, wanted func(name string) bool, f func(sample)) error {
	in := bufio.NewScanner(io.LimitReader(r, maxPage+1))
	in.Buffer(make([]byte, 0, 4<<10), maxPageLine)
	var bad, read, lines int
	var first error
	for in.Scan() {
		lines++
		read += len(in.Bytes()) + 1
		if read > maxPage {
			return fmt.Errorf("the page is longer than %d bytes", maxPage)
		}
		line := strings.TrimLeft(in.Text(), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name := line
		if i := strings.IndexAny(line, "{ \t"); i >= 0 {
			name = line[:i]
		}
		if !wanted(name) {
			continue
		}
		s, err := parseSample(name, line[len(name):])
		if err != nil {
			if bad++; first == nil {
				first = fmt.Errorf("line %d: %w", lines, err)
			}
			continue
		}
		f(s)
		if lines > maxSamples {
			return fmt.Errorf("the page has more than %d lines", maxSamples)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("line %d: %w", lines+1, err)
	}
	if bad > 0 {
		return fmt.Errorf("%d lines could not be read, the first: %w", bad, first)
	}
	return nil
}

func parseSample(name, rest string) (sample, error) {
	s := sample{name: name}
	rest = strings.TrimLeft(rest, " \t")
	if strings.HasPrefix(rest, "{") {
		var err error
		if s.labels, rest, err = parseLabels(rest[1:]); err != nil {
			return s, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) < 1 || len(fields) > 2 { // a time stamp may follow
		return s, errors.New("not a value and perhaps a time stamp")
	}
	v, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return s, errors.New("the value is not a number")
	}
	s.value = v
	return s, nil
}

var errLabels = errors.New("the labels are not well formed")

func parseLabels(in string) ([]label, string, error) {
	var out []label
	for {
		in = strings.TrimLeft(in, " \t")
		if rest, ok := strings.CutPrefix(in, "}"); ok {
			return out, rest, nil
		}
		name, rest, ok := strings.Cut(in, "=")
		rest = strings.TrimLeft(rest, " \t")
		if !ok || len(rest) == 0 || rest[0] != '"' || len(out) == maxLabels {
			return nil, "", errLabels
		}
		value, rest, ok := unquote(rest[1:])
		if !ok {
			return nil, "", errLabels
		}
		out = append(out, label{strings.TrimSpace(name), value})
		rest = strings.TrimLeft(rest, " \t")
		in = strings.TrimPrefix(rest, ",")
		if in == rest && !strings.HasPrefix(rest, "}") {
			return nil, "", errLabels
		}
	}
}

// unquote reads up to the closing quote; \\, \" and \n are the escapes.
func unquote(in string) (value, rest string, ok bool) {
	i := strings.IndexAny(in, `\"`)
	if i >= 0 && in[i] == '"' { // the common case
		return in[:i], in[i+1:], true
	}
	var b strings.Builder
	for i := 0; i < len(in); i++ {
		switch c := in[i]; c {
		case '"':
			return b.String(), in[i+1:], true
		case '\\':
			if i++; i == len(in) {
				return "", "", false
			}
			switch in[i] {
			case 'n':
				b.WriteByte('\n')
			case '\\', '"':
				b.WriteByte(in[i])
			default:
				b.WriteByte('\\')
				b.WriteByte(in[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
