package child

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// However a stream is cut into reads, and whatever reads fail in between, the
// lines are the same, within the bound, and none is made up.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbc\n\nd"), []byte{1, 0, 2}, 2)
	f.Add(bytes.Repeat([]byte("0123456789\n"), 1000), []byte{255, 7, 0, 0, 1}, 10)
	f.Add(bytes.Repeat([]byte("x"), 20000), []byte{200}, 9000)
	f.Fuzz(func(t *testing.T, stream, cuts []byte, limit int) {
		limit = max(0, min(limit, 1<<14))
		late := errors.New("late")
		rest, i := stream, 0
		l := lines{limit: limit, read: func(b []byte) (int, error) {
			if len(rest) == 0 {
				return 0, io.EOF
			}
			n := 1
			if len(cuts) > 0 {
				n = int(cuts[i%len(cuts)])
			}
			if i++; n == 0 && i%2 == 0 {
				return 0, late
			}
			n = copy(b[:min(len(b), max(n, 1))], rest)
			rest = rest[n:]
			return n, nil
		}}
		for want := range bytes.Lines(stream) {
			got, err := l.next()
			for errors.Is(err, late) {
				got, err = l.next()
			}
			want, whole := bytes.CutSuffix(want, []byte("\n"))
			switch {
			case len(want) > limit:
				if !errors.Is(err, ErrFlood) {
					t.Fatalf("a line of %d bytes, %d allowed: %.40q %v", len(want), limit, got, err)
				}
				return
			case !whole:
				if !errors.Is(err, io.EOF) {
					t.Fatalf("half a line: %.40q %v", got, err)
				}
			case err != nil || !bytes.Equal(got, want):
				t.Fatalf("got %.40q %v, want %.40q", got, err, want)
			}
			if len(l.buf) > limit+(8<<10) {
				t.Fatalf("a buffer of %d bytes for lines of %d", len(l.buf), limit)
			}
		}
	})
}
