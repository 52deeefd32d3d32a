package yamltext

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// laughs is a list of ten lists of ten lists…
func laughs(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	for name, text := range map[string]string{
		"lists of lists by aliases": laughs(11),
		"more than can be counted":  laughs(60),
		"brackets":                  "claims: " + strings.Repeat("[", 200_000),
		"braces":                    "claims: " + strings.Repeat("{a: ", 50_000),
		"entries in one line":       "claims: \n  " + strings.Repeat("- ", 50_000) + "x",
		"keys in one line":          strings.Repeat("? ", 50_000) + "x",
		"aliases of one long list":  "a: &a [" + strings.Repeat("x, ", 1000) + "x]\nb: [" + strings.Repeat("*a, ", 1000) + "*a]\n",
	} {
		if err := Check([]byte(text)); !errors.Is(err, ErrBounds) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"nothing":            "",
		"what is no YAML":    "a: [",
		"an alias":           "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n",
		"an unknown alias":   "a: *b\n",
		"an alias of itself": "a: &a [*a]\n",
		"lists of lists":     laughs(3),
		"many lines":         strings.Repeat("- {a: [1, 2]}\n", 2_000),
	} {
		if err := Check([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
