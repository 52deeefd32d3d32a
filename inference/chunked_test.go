package inference

import (
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
	"testing"
)

// dechunk pushes b in pieces and gives the data and how it ended.
func dechunk(b []byte, pieces func() int) (data, rest []byte, err error) {
	var c chunked
	for len(b) > 0 {
		n := min(len(b), max(1, pieces()))
		p := b[:n]
		b = b[n:]
		for len(p) > 0 {
			var d []byte
			if d, p, err = c.next(p); err != nil {
				return data, nil, err
			}
			data = append(data, d...)
			if c.state == chunkDone {
				return data, append(bytes.Clone(p), b...), nil
			}
		}
	}
	return data, nil, io.ErrUnexpectedEOF
}

func TestChunked(t *testing.T) {
	for _, tt := range []struct {
		name, in, data, rest string
		err                  error
	}{
		{"two", "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", "abc0123456789", "", nil},
		{"garbage behind", "1\r\na\r\n0\r\n\r\nHTTP/1.1", "a", "HTTP/1.1", nil},
		{"trailers", "1\r\na\r\n0\r\nX: y\r\nZ: w\r\n\r\n", "a", "", nil},
		{"short", "5\r\nab", "ab", "", io.ErrUnexpectedEOF},
		{"no size", "\r\n", "", "", errChunkSize},
		{"not hex", "g\r\n", "", "", errChunkSize},
		{"negative", "-1\r\n", "", "", errChunkSize},
		{"huge", "ffffffffffffffff\r\n", "", "", errChunkSize},
		{"bare line feed", "1\na\n", "", "", errChunkSize},
		{"too long", "1\r\nab\r\n", "a", "", errChunkEnd},
		{"endless extension", "1;" + string(bytes.Repeat([]byte("x"), 5000)) + "\r\n", "", "", errChunkLine},
		{"endless trailer", "0\r\n" + string(bytes.Repeat([]byte("x"), 17<<10)), "", "", errTrailer},
		{"only framing", string(bytes.Repeat([]byte("1;"+string(bytes.Repeat([]byte("x"), 3000))+"\r\na\r\n"), 9)), "aaaaa", "", errChunkExcess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 7, 1 << 20} {
				data, rest, err := dechunk([]byte(tt.in), func() int { return n })
				if string(data) != tt.data || string(rest) != tt.rest || !errors.Is(err, tt.err) {
					t.Fatalf("by %d: %q %q %v, want %q %q %v", n, data, rest, err, tt.data, tt.rest, tt.err)
				}
			}
		})
	}
}

func FuzzChunked(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n"), uint8(3))
	f.Add([]byte("1 \r\na\r\n000\r\n\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		whole, _, err := dechunk(b, func() int { return len(b) })
		pieces, _, perr := dechunk(b, func() int { return int(step) })
		if !bytes.Equal(whole, pieces) || !errors.Is(perr, err) {
			t.Fatalf("at once %q %v, in pieces %q %v", whole, err, pieces, perr)
		}
		// net/http's reader leaves the trailers to its caller.
		theirs, terr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(b)))
		if err == nil && (terr != nil || !bytes.Equal(whole, theirs)) {
			t.Fatalf("ours %q, theirs %q %v", whole, theirs, terr)
		}
		if terr == nil && err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errTrailer) {
			t.Fatalf("theirs %q, ours %v", theirs, err)
		}
		if terr == nil && !bytes.Equal(whole, theirs) {
			t.Fatalf("ours %q, theirs %q", whole, theirs)
		}
	})
}
