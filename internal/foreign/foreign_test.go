package foreign_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/assay-bench/assay/internal/foreign"
)

const big = 1 << 20

func TestLine(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 10, ""},
		{"Llama 3.1 8B", 20, "Llama 3.1 8B"},
		{"größer 模型 🚀", 30, "größer 模型 🚀"},
		{"  a\tb\r\nc\n", 20, "a b c"},
		{"a\rb\vc\u0085d\u2028e\u00a0f", 20, "a b c d e f"},
		{"\x1b[31mred\x1b[0m", 40, "\uFFFD[31mred\uFFFD[0m"},
		{"\x1b]0;title\x07after", 40, "\uFFFD]0;title\uFFFDafter"},
		{"c1 \u009b31m", 40, "c1 \uFFFD31m"},
		{"raw c1 \x9b31m", 40, "raw c1 \uFFFD31m"},
		{"bidi \u202eevil\u202c \u2066x\u2069 \u200f", 60, "bidi \uFFFDevil\uFFFD \uFFFDx\uFFFD \uFFFD"},
		{"unseen \u200b\ufeff\u00ad\U000e0041", 60, "unseen \uFFFD"},
		{"\x00\x01\x02\xff\xfe\uFFFDend", 40, "\uFFFDend"},
		{"half \xe6\xa8", 40, "half \uFFFD"},
		{"abcdefgh", 8, "abcdefgh"},
		{"abcdefghi", 8, "abcde…"},
		{"模型模型", 9, "模型…"},
		{"模型模型", 11, "模型…"},
		{"abc", 2, ""},
		{"abc", -1, ""},
	} {
		if got := foreign.Line(c.in, c.limit); got != c.want {
			t.Errorf("Line(%q, %d) is %q, want %q", c.in, c.limit, got, c.want)
		}
		if got := foreign.Line([]byte(c.in), c.limit); got != c.want {
			t.Errorf("Line(bytes of %q, %d) is %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestClipKeepsLines(t *testing.T) {
	if got, want := foreign.Clip("\n one\r\n\ttwo\rthree \x1b[2J\n\n", 99), "one\n\ttwo\nthree \uFFFD[2J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := foreign.Clip("one\ntwo", 6), "one…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"all\nof it\n", 20, "all\nof it"},
		{"0123456789", 7, "…6789"},
		{"模型模型", 8, "…型"}, // at most eight bytes, and no half of a character
		{"x\x1b\x1b", 4, "x\uFFFD"},
		{"xyz\x1b", 4, "…"},
		{"abc", 2, ""},
		{"abc", -1, ""},
		{"", 0, ""},
	} {
		if got := foreign.Tail(c.in, c.limit); got != c.want {
			t.Errorf("Tail(%q, %d) is %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestNative(t *testing.T) {
	for in, want := range map[string]string{
		"NVIDIA H100\x00\x00\x00rest": "NVIDIA H100",
		"no end":                      "no end",
		"\x00":                        "",
		"a\x1bb\xff\x00":              "a\uFFFDb\uFFFD",
	} {
		if got := foreign.Native([]byte(in), 64); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"a模型", 3, "a"}, {"a模型", 4, "a模"}, {"模", 2, ""}, {"\x1b[0m\n", 3, "\x1b[0"}, {"x\x80\x80\x80\x80\x80", 5, "x\x80\x80\x80\x80"}, {"abc", -3, ""}, {"", -83, ""}} {
		if got := foreign.Cut(c.in, c.limit); got != c.want {
			t.Errorf("Cut(%q, %d) is %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

// What is escaped must mean the same to whoever reads the document.
func TestJSONMeansTheSame(t *testing.T) {
	hostile := "a\x1b\x7f\u009b31m\u202e\u2028\u200b\U000e0041\U000f0000 模型 🚀 \uFFFD"
	in, err := json.MarshalIndent(map[string]string{hostile: hostile}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	out := foreign.JSON(in)
	if r := loud(string(out), true); r != 0 {
		t.Errorf("%U is left in %q", r, out)
	}
	var back map[string]string
	if err := json.Unmarshal(out, &back); err != nil || back[hostile] != hostile {
		t.Errorf("read back: %v %q", err, back)
	}
}

// loud finds a character that must not reach a terminal.
func loud(s string, lines bool) rune {
	for _, r := range s {
		if lines && (r == '\n' || r == '\t') {
			continue
		}
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs) {
			return r
		}
	}
	return 0
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b[31m\u009b\u202e\xff\xfe模型…", strings.Repeat("\x80", 50), " \n\r\n\t \u2028", "a\rb", "\uFFFD\uFFFD"} {
		f.Add(s, 10)
		f.Add(s, 100)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit %= 1000
		for name, c := range map[string]struct {
			of    func(string, int) string
			lines bool
		}{
			"Line": {foreign.Line[string], false}, "Clip": {foreign.Clip[string], true}, "Tail": {foreign.Tail[string], true},
			"Native": {func(s string, n int) string { return foreign.Native([]byte(s), n) }, false},
			"Head": {func(s string, n int) string {
				h := foreign.Head{Limit: n}
				fmt.Fprint(&h, s)
				return h.Text(n)
			}, true},
		} {
			got := c.of(s, limit)
			if len(got) > max(limit, 0) || !utf8.ValidString(got) || loud(got, c.lines) != 0 {
				t.Fatalf("%s(%q, %d) is %q", name, s, limit, got)
			}
			if again := c.of(got, limit); again != got {
				t.Fatalf("%s(%q, %d) is %q, and of that %q", name, s, limit, got, again)
			}
			if foreign.Plain(s) && s == strings.TrimSpace(s) && len(s) <= limit && got != s {
				t.Fatalf("%s changes %q to %q", name, s, got)
			}
		}
		if line := foreign.Line(s, limit); !foreign.Plain(line) {
			t.Fatalf("Line(%q) is %q, which is not plain", s, line)
		}
		if cut := foreign.Cut(s, limit); len(cut) > max(limit, 0) || !strings.HasPrefix(s, cut) || utf8.ValidString(s) && !utf8.ValidString(cut) {
			t.Fatalf("Cut(%q, %d) is %q", s, limit, cut)
		}
		doc, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want, got string
		if json.Unmarshal(doc, &want) != nil || json.Unmarshal(foreign.JSON(doc), &got) != nil || got != want || loud(string(foreign.JSON(doc)), true) != 0 {
			t.Fatalf("JSON(%q) is %q", doc, foreign.JSON(doc))
		}
	})
}

func TestHeadKeepsTheFirst(t *testing.T) {
	over := 0
	h := foreign.Head{Limit: 5, Over: func() { over++ }}
	for _, p := range []string{"ab", "cd", "", "e", "fgh", "i"} {
		if n, err := h.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("writing %q: %d %v", p, n, err)
		}
		if (over > 0) != (h.Dropped() > 0) {
			t.Errorf("after %q: Over was called %d times, %d bytes dropped", p, over, h.Dropped())
		}
	}
	if got := string(h.Bytes()); got != "abcde" || h.Dropped() != 4 || over != 1 {
		t.Errorf("kept %q, dropped %d, Over called %d times", got, h.Dropped(), over)
	}
	if got := h.Line(99); got != "abcde…" {
		t.Errorf("as a line: %q", got)
	}
	none := foreign.Head{}
	fmt.Fprint(&none, "x")
	if len(none.Bytes()) != 0 || none.Dropped() != 1 {
		t.Errorf("a zero Head kept %q and dropped %d", none.Bytes(), none.Dropped())
	}
}

func TestHeadShowsNoHalfCharacter(t *testing.T) {
	for n, want := range []string{"…", "…", "…", "模…", "模\n…", "模\n…", "模\n…", "模\n型"} {
		h := foreign.Head{Limit: n}
		fmt.Fprint(&h, "模\n型")
		if got := h.Text(99); got != want {
			t.Errorf("%d bytes kept: %q, want %q", n, got, want)
		}
	}
}

func TestHeadHasManyWriters(t *testing.T) {
	h := foreign.Head{Limit: 100}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				fmt.Fprint(&h, "ab")
			}
		})
	}
	all.Wait()
	if len(h.Bytes()) != 100 || h.Dropped() != 1500 {
		t.Errorf("kept %d, dropped %d", len(h.Bytes()), h.Dropped())
	}
}

// Megabytes are looked at only as far as they are shown.
func TestBoundedWork(t *testing.T) {
	s := strings.Repeat("\x1b", big)
	if got := foreign.Line(s+"end", 100); got != "\uFFFDend" {
		t.Errorf("%q", got)
	}
	if n := testing.AllocsPerRun(10, func() { foreign.Line("NVIDIA H100 80GB HBM3", 128) }); n > 0 {
		t.Errorf("a harmless line costs %v allocations", n)
	}
}
