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

func TestDecodeIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"lists of lists by aliases": laughs(11),
		"more than can be counted":  laughs(60),
		"brackets":                  "claims: " + strings.Repeat("[", 200_000),
		"braces":                    "claims: " + strings.Repeat("{a: ", 50_000),
		"entries in one line":       "claims: \n  " + strings.Repeat("- ", 50_000) + "x",
		"keys in one line":          strings.Repeat("? ", 50_000) + "x",
		"aliases of one long list":  "a: &a [" + strings.Repeat("x, ", 1000) + "x]\nb: [" + strings.Repeat("*a, ", 1000) + "*a]\n",
	} {
		var into any
		if _, err := Decode([]byte(text), &into); !errors.Is(err, ErrBounds) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"an alias":       "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n",
		"lists of lists": laughs(3),
		"many lines":     strings.Repeat("- {a: [1, 2]}\n", 2_000),
	} {
		var into any
		if tree, err := Decode([]byte(text), &into); err != nil || tree == nil || into == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeSaysWhere(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"what is no YAML":  {"a: [", "[1:4]"},
		"an unknown key":   {"a: 1\nb: 2\n", `[2:1] unknown field "b"`},
		"a wrong kind":     {"a: [1]\n", "[1:4]"},
		"an unknown alias": {"a: *b\n", "[1:5]"},
	} {
		var into struct{ A int }
		_, err := Decode([]byte(c.text), &into)
		if located := (SyntaxError{}); !errors.As(err, &located) || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	var into struct{ A int }
	if tree, err := Decode([]byte("# nothing\n"), &into); err != nil || tree == nil {
		t.Errorf("an empty file: %v, tree %v", err, tree)
	}
	// One that is inside itself must end.
	var loop any
	if _, err := Decode([]byte("a: &a [*a]\n"), &loop); errors.Is(err, ErrBounds) {
		t.Error(err)
	}
}
