package outbox

import (
	"errors"
	"fmt"
	"io"
)

// pieceBytes is how much of a file is read at once. A piece is never used twice:
// records are slices of it, and a sink may hold them longer than its call.
const pieceBytes = 1 << 20

// gap is a range of a segment in which no frame could be read.
type gap struct {
	offset, length int64
	why            string
	tail           bool // it looks like the end of an interrupted write
}

// scanner reads the frames of a part of a segment, and what is between them. It
// trusts nothing: no length is believed before its checksum.
type scanner struct {
	r        io.ReaderAt
	salt     uint32
	off, end int64

	piece []byte
	at    int64 // where the piece begins
}

// next gives a frame's payload, or a gap; io.EOF at the end, and other errors of
// reading. After a gap it goes on behind it. A range that ends before its time is
// a gap to its end.
func (s *scanner) next() (payload []byte, g *gap, err error) {
	if s.off >= s.end {
		return nil, nil, io.EOF
	}
	rest := s.end - s.off
	if rest < frameBytes {
		return nil, s.skip(rest, "it ends within the head of a frame", true), nil
	}
	h, err := s.peek(s.off, frameBytes)
	if errors.Is(err, io.EOF) {
		return nil, s.skip(rest, "the file is shorter than what was accepted into it", false), nil
	}
	if err != nil {
		return nil, nil, err
	}
	n, ok := frameLength(h, s.salt)
	if !ok {
		g, err := s.resync()
		return nil, g, err
	}
	if frameBytes+n > rest {
		return nil, s.skip(rest, "it ends within a frame", true), nil
	}
	f, err := s.peek(s.off, frameBytes+n)
	if errors.Is(err, io.EOF) {
		return nil, s.skip(rest, "the file is shorter than what was accepted into it", false), nil
	}
	if err != nil {
		return nil, nil, err
	}
	if !payloadFits(f, f[frameBytes:], s.salt) {
		return nil, s.skip(frameBytes+n, "a frame's checksum does not fit", false), nil
	}
	s.off += frameBytes + n
	return f[frameBytes:], nil, nil
}

func (s *scanner) skip(n int64, why string, tail bool) *gap {
	g := &gap{offset: s.off, length: n, why: why, tail: tail}
	s.off += n
	return g
}

// resync looks for the next whole frame behind a head that is none.
func (s *scanner) resync() (*gap, error) {
	const why = "a frame's head does not check"
	zeros := true
	for p := s.off; p < s.end; p++ {
		b, err := s.peek(p, 1)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		zeros = zeros && b[0] == 0
		if p == s.off || s.end-p < frameBytes {
			continue
		}
		whole, err := s.wholeAt(p)
		if err != nil {
			return nil, err
		}
		if whole {
			return s.skip(p-s.off, why, false), nil
		}
	}
	return s.skip(s.end-s.off, why, zeros), nil
}

func (s *scanner) wholeAt(p int64) (bool, error) {
	h, err := s.peek(p, frameBytes)
	if err != nil {
		return false, notEOF(err)
	}
	n, ok := frameLength(h, s.salt)
	if !ok || frameBytes+n > s.end-p {
		return false, nil
	}
	f, err := s.peek(p, frameBytes+n)
	if err != nil {
		return false, notEOF(err)
	}
	return payloadFits(f, f[frameBytes:], s.salt), nil
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// peek gives the n bytes at p, which the caller knows to be before the end; io.EOF
// when the file is shorter than that.
func (s *scanner) peek(p, n int64) ([]byte, error) {
	if p < s.at || p+n > s.at+int64(len(s.piece)) {
		piece := make([]byte, min(max(pieceBytes, n), s.end-p))
		got, err := s.r.ReadAt(piece, p)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read: %w", err)
		}
		s.piece, s.at = piece[:got], p
		if int64(got) < n {
			return nil, io.EOF
		}
	}
	return s.piece[p-s.at:][:n:n], nil
}
