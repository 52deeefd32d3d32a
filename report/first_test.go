package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/assay-bench/assay"
)

// withHistogram is the sweep with what a first screen draws.
func withHistogram() assay.Summary {
	s := sweep
	s.Stages = append([]assay.StageSummary(nil), s.Stages...)
	s.Stages[1].TTFTHistogram = &assay.Histogram{Edges: []float64{50, 51, 52, 53}, Counts: []int{1200, 380, 3, 7}}
	s.Warnings = []assay.Warning{
		{Kind: "little", Stage: "c1", Text: "the same doubt"}, {Kind: "little", Stage: "c16", Text: "the same doubt"},
		{Kind: "b", Text: "a second"}, {Kind: "c", Text: "a third"}, {Kind: "d", Text: "a fourth"},
	}
	return s
}

func TestFirstScreen(t *testing.T) {
	for name, s := range map[string]assay.Summary{"sweep": withHistogram(), "open": openLoopRun, "whole": atOnce, "empty": {Format: assay.SummaryFormat}} {
		for _, width := range []int{0, 60, 80, 200} {
			var b bytes.Buffer
			h := &assay.Health{Verdict: assay.Unknown, Because: "no GPU was read"}
			if err := (Look{Width: width}).Text(&b, First(s, h, "")); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
					t.Errorf("%s: %d columns on a terminal of %d: %s", name, n, width, line)
				}
			}
			if width == 0 || width == 200 {
				continue
			}
			golden := filepath.Join("testdata", fmt.Sprintf("first-%s-%d.txt", name, width))
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("%s at %d:\n%s\nwant\n%s", name, width, b.String(), want)
			}
		}
	}
}

// Colour changes no letter, and an engine's own escapes never come through.
func TestColourOnlyAdds(t *testing.T) {
	page := First(withHistogram(), &assay.Health{Verdict: assay.Fail, Because: "it burns"}, "")
	var plain, coloured bytes.Buffer
	if err := (Look{Width: 80}).Text(&plain, page); err != nil {
		t.Fatal(err)
	}
	if err := (Look{Width: 80, Colour: true}).Text(&coloured, page); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(plain.String(), '\x1b') {
		t.Error("an escape without colour")
	}
	ours := regexp.MustCompile("\x1b\\[(1;3[123]|0)m")
	if got := ours.ReplaceAllString(coloured.String(), ""); got != plain.String() {
		t.Errorf("without its colours:\n%s\nwant\n%s", got, plain.String())
	}
	for _, want := range []string{"\x1b[1;32mCERTIFIED\x1b[0m", "\x1b[1;31mFAIL:\x1b[0m"} {
		if !strings.Contains(coloured.String(), want) {
			t.Errorf("no %q in %q", want, coloured.String())
		}
	}
}
