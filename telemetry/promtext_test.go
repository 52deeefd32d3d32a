package telemetry

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func all(string) bool { return true }

func parse(t *testing.T, text string) ([]sample, error) {
	t.Helper()
	var got []sample
	err := parseText(strings.NewReader(text), all, func(s sample) { got = append(got, s) })
	return got, err
}

func TestParseText(t *testing.T) {
	tests := []struct {
		in, want string
		fails    bool
	}{
		{in: "a 1\n", want: "a[] 1"},
		{in: "  a\t1 1700000000000\n", want: "a[] 1"},
		{in: "a{} 1", want: "a[] 1"},
		{in: `a{b="c"} 1e3`, want: "a[{b c}] 1000"},
		{in: `a{b="c",} 1`, want: "a[{b c}] 1"},
		{in: `a { b = "c" , d = "e" } 1`, want: "a[{b c} {d e}] 1"},
		{in: `a{b="x\"y\\z\n\q,}"} 2`, want: "a[{b x\"y\\z\n\\q,}}] 2"},
		{in: "# HELP a 1\n# TYPE a gauge\n\na +Inf\n", want: "a[] +Inf"},
		{in: "a NaN", want: "a[] NaN"},
		{in: "a", fails: true},
		{in: "a one", fails: true},
		{in: "a 1 2 3", fails: true},
		{in: `a{b="c} 1`, fails: true},
		{in: `a{b=c} 1`, fails: true},
		{in: `a{b="c" d="e"} 1`, fails: true},
		{in: `a{b="c\`, fails: true},
		{in: `a{`, fails: true},
		{in: "a{" + strings.Repeat(`b="c",`, maxLabels+1) + "} 1", fails: true},
		{in: "b 1\na x\nc 2", want: "b[] 1;c[] 2", fails: true}, // the others are good all the same
		{in: strings.Repeat("x", maxPageLine+1), fails: true},
		{in: strings.Repeat("x 1\n", maxSamples+2), fails: true, want: "-"},
		{in: strings.Repeat("#"+strings.Repeat("x", 1022)+"\n", maxPage/1024+1), fails: true},
	}
	for _, tt := range tests {
		got, err := parse(t, tt.in)
		var out []string
		for _, s := range got {
			out = append(out, fmt.Sprint(s.name, s.labels, " ", s.value))
		}
		if text := strings.Join(out, ";"); tt.want != "-" && text != tt.want || (err != nil) != tt.fails {
			t.Errorf("%.60q: %.200q, %v; want %q, an error: %v", tt.in, text, err, tt.want, tt.fails)
		}
	}
}

func FuzzParseText(f *testing.F) {
	files, err := filepath.Glob("testdata/metrics/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add(`a{b="\`)
	f.Fuzz(func(t *testing.T, text string) {
		_ = parseText(strings.NewReader(text), all, func(s sample) {
			if s.name == "" && len(s.labels) == 0 && math.IsNaN(s.value) {
				return
			}
			if len(s.labels) > maxLabels {
				t.Errorf("%d labels", len(s.labels))
			}
		})
	})
}
