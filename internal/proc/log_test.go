package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However it is cut into writes, the begin and the end are kept and the count of
// what is missing is right.
func TestBoundedLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	rapid.Check(t, func(t *rapid.T) {
		head, tail := rapid.IntRange(1, 40).Draw(t, "head"), rapid.IntRange(1, 40).Draw(t, "tail")
		l, err := newBoundedLog(head, tail, file)
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for _, s := range rapid.SliceOf(rapid.StringMatching(`[a-z]{0,60}`)).Draw(t, "writes") {
			all = append(all, s...)
			if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
				t.Fatal(n, err)
			}
		}
		want := string(all)
		if missing := len(all) - head - tail; missing > 0 {
			want = fmt.Sprintf("%s\n[%d bytes left out]\n%s", all[:head], missing, all[len(all)-tail:])
		}
		got := string(append(append([]byte{}, l.head...), l.rest()...))
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != want || string(b) != want {
			t.Fatalf("kept %q, in the file %q, want %q", got, b, want)
		}
	})
}

func TestLogTail(t *testing.T) {
	l, _ := newBoundedLog(5000, -1, "")
	fmt.Fprint(l, strings.Repeat("x", 4990), "\x1b[2Jé\xff\tend\n", strings.Repeat("y", 100))
	if got := l.tail(); len(got) > tailInExit || strings.Contains(got, "\x1b") || strings.Contains(got, "\xff") || !strings.Contains(got, "left out]") {
		t.Errorf("%q", got[len(got)-60:])
	}
	l, _ = newBoundedLog(4, 4, "")
	fmt.Fprint(l, "ab")
	if got := l.tail(); got != "ab" {
		t.Errorf("%q", got)
	}
}
