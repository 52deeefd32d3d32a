package witness

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// The example of the specification, with a checkpoint of our own.
func TestParseRequest(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	r, err := parseRequest([]byte(l.body(7, 13)))
	if err != nil {
		t.Fatal(err)
	}
	if r.old != 7 || r.size != 13 || r.origin != "log.test/a" || len(r.proof) == 0 || r.note.Text != l.text(13) {
		t.Errorf("%+v", r)
	}
}

// A bad signature line of the log's name before the good one does no harm, and
// many do not cost many checks.
func TestSignedBy(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	good := l.checkpoint(9)
	text, sigs, _ := strings.Cut(good, "\n\n")
	bad := func(n int) string {
		var b strings.Builder
		for i := range n {
			raw := make([]byte, 68)
			raw[0], raw[1], raw[2], raw[3] = byte(l.key.KeyHash()>>24), byte(l.key.KeyHash()>>16), byte(l.key.KeyHash()>>8), byte(l.key.KeyHash())
			raw[10] = byte(i)
			fmt.Fprintf(&b, "— log.test/a %s\n", base64.StdEncoding.EncodeToString(raw))
		}
		return b.String()
	}
	for _, c := range []struct {
		bad, want int
	}{{0, 1}, {1, 1}, {maxTries - 1, 1}, {maxTries, 0}, {50, 0}} {
		n, err := parseNote([]byte(text + "\n\n" + bad(c.bad) + sigs))
		if err != nil {
			t.Fatal(err)
		}
		v := &counting{Verifier: l.key}
		if got := len(signedBy(n, v)); got != c.want {
			t.Errorf("%d bad lines: %d good, want %d", c.bad, got, c.want)
		}
		if v.n > maxTries {
			t.Errorf("%d checks", v.n)
		}
	}
}

type counting struct {
	note.Verifier
	n int
}

func (c *counting) Verify(msg, sig []byte) bool { c.n++; return c.Verifier.Verify(msg, sig) }

// What is read has one spelling: written again, it gives the same bytes, up to
// signature lines, whose repetition is dropped.
func FuzzParseRequest(f *testing.F) {
	l := newTestLog(f, "log.test/a").grow(20, "leaf")
	f.Add([]byte(l.body(0, 0)))
	f.Add([]byte(l.body(8, 13)))
	f.Add([]byte(l.body(13, 20)))
	f.Add([]byte("old 0\n\n\n0\n\n\n— a AAAAAAA=\n"))
	f.Add([]byte("old 18446744073709551616\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxBody {
			return
		}
		r, err := parseRequest(b)
		if err != nil {
			return
		}
		if len(r.proof) > maxProof || r.origin == "" || len(r.note.UnverifiedSigs) == 0 {
			t.Fatalf("%+v", r)
		}
		var again bytes.Buffer
		fmt.Fprintf(&again, "old %d\n", r.old)
		for _, h := range r.proof {
			fmt.Fprintln(&again, base64.StdEncoding.EncodeToString(h))
		}
		fmt.Fprintf(&again, "\n%s\n%d\n%s\n", r.origin, r.size, base64.StdEncoding.EncodeToString(r.root[:]))
		if !bytes.HasPrefix(b, again.Bytes()) {
			t.Errorf("read %q\nas   %q", b, again.Bytes())
		}
		// Judging must not fail on anything that can be read.
		_ = state{}.judge(r)
		_ = state{tree: tree{size: r.old}}.judge(r)
		_ = signedBy(r.note, l.key)
	})
}
