package compare

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/assay-bench/assay"
)

// Benchstat writes the judged runs in Go's benchmark format, one line a run, for
// benchstat -col /engine. Metrics keep their names as units, and say which way
// is better. benchstat does not pair rounds, corrects for no family of tests,
// and knows nothing of different work: its answer can differ from ours.
func Benchstat(w io.Writer, e Experiment) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "assay-experiment: %s\n", clipName(e.ID))
	if e.Node.OS != "" {
		fmt.Fprintf(b, "goos: %s\ngoarch: %s\n", clipName(e.Node.OS), clipName(e.Node.Arch))
	}
	if e.Node.CPU != "" {
		fmt.Fprintf(b, "cpu: %s\n", clipName(e.Node.CPU))
	}
	for _, m := range Metrics() {
		if m.Better != assay.Neither {
			fmt.Fprintf(b, "Unit %s better=%s\n", m.Name, m.Better)
		}
	}
	x := newBench(e)
	for _, workload := range e.Workloads {
		for _, engine := range x.engines {
			for _, s := range x.runs[key{engine, workload}] {
				var figures strings.Builder
				for _, m := range Metrics() {
					if v, ok := figure(s, m.Name); ok {
						figures.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + " " + m.Name)
					}
				}
				if figures.Len() > 0 {
					fmt.Fprintf(b, "Benchmark%s/engine=%s %d%s\n", benchName(workload, true), benchName(engine, false), max(1, s.OK), figures.String())
				}
			}
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write benchmark lines: %w", err)
	}
	return nil
}

// benchName makes a name fit for a benchmark line: no blanks, no slash, and no
// "-N" at the end, which would be read as GOMAXPROCS. The first letter of a
// benchmark is upper case.
func benchName(s string, first bool) string {
	s = strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' || r == '=' || r == unicode.ReplacementChar {
			return '_'
		}
		return r
	}, clipName(s))
	if i := strings.LastIndexByte(s, '-'); i >= 0 && i < len(s)-1 && strings.Trim(s[i+1:], "0123456789") == "" {
		s = s[:i] + "_" + s[i+1:]
	}
	if s == "" {
		s = "_"
	}
	if first {
		r := []rune(s)
		r[0] = unicode.ToUpper(r[0])
		s = string(r)
	}
	return s
}
