package inference

import "errors"

// Errors of a body's framing. Each makes the request a stream_error.
var (
	errChunkSize   = errors.New("broken chunk size")
	errChunkEnd    = errors.New("a chunk does not end where its size says")
	errChunkLine   = errors.New("a chunk's size line is too long")
	errChunkExcess = errors.New("more chunk framing than data")
	errTrailer     = errors.New("trailers too long")
)

const (
	maxChunkLine = 4096     // size, extensions
	maxTrailers  = 16 << 10 // bytes of all trailers
	maxExcess    = 16 << 10 // framing beyond what small chunks explain
)

// chunked decodes chunked framing that is pushed to it in pieces of any size.
type chunked struct {
	state   chunkState
	left    int64 // bytes of data left in this chunk, or the size read so far
	digits  int
	line    int // length of the size line so far
	excess  int
	trailer int  // bytes of trailers so far
	blank   bool // the trailer line is empty so far
}

type chunkState uint8

const (
	chunkSize     chunkState = iota // hexadecimal digits
	chunkPad                        // white space behind the size
	chunkExt                        // an extension, passed over
	chunkSizeLF                     // after the size line's CR
	chunkData                       // left bytes of data
	chunkDataCR                     // after the data
	chunkDataLF                     // after the data's CR
	chunkTrailer                    // within a trailer line
	chunkTrailerL                   // after a trailer line's CR
	chunkDone                       // the end of the body was read
)

// next takes bytes from the front of p until it has data to give, or p is used
// up. It gives the data, which lies in p, and what of p is left.
func (c *chunked) next(p []byte) (data, rest []byte, err error) {
	for len(p) > 0 {
		switch c.state {
		case chunkData:
			if int64(len(p)) >= c.left {
				data, rest = p[:c.left], p[c.left:]
				c.state = chunkDataCR
				return data, rest, nil
			}
			c.left -= int64(len(p))
			return p, nil, nil
		case chunkDone:
			return nil, p, nil
		}
		if err := c.step(p[0]); err != nil {
			return nil, nil, err
		}
		p = p[1:]
	}
	return nil, nil, nil
}

// step takes one byte of framing.
func (c *chunked) step(b byte) error {
	switch c.state {
	case chunkSize, chunkPad, chunkExt:
		if c.line++; c.line > maxChunkLine {
			return errChunkLine
		}
		switch {
		case b == '\r':
			c.state = chunkSizeLF
			if c.digits == 0 {
				return errChunkSize
			}
		case b == '\n':
			return errChunkSize // a bare line feed is how requests are smuggled
		case c.state == chunkExt:
		case b == ' ' || b == '\t':
			c.state = chunkPad
			if c.digits == 0 {
				return errChunkSize
			}
		case c.state == chunkPad:
			return errChunkSize
		case b == ';':
			c.state = chunkExt
		default:
			v := hex1(b)
			if v < 0 || c.digits == 16 || c.left >= 1<<58 {
				return errChunkSize
			}
			c.digits++
			c.left = c.left<<4 | int64(v)
		}
	case chunkSizeLF:
		if b != '\n' {
			return errChunkSize
		}
		// A server that spends its bytes on framing would keep us busy for nothing.
		c.excess = max(0, c.excess+c.line+1-16-int(min(c.left, 1<<20))*2)
		if c.excess > maxExcess {
			return errChunkExcess
		}
		if c.state = chunkData; c.left == 0 {
			c.state, c.blank = chunkTrailer, true
		}
		c.digits, c.line = 0, 0
	case chunkDataCR:
		if b != '\r' {
			return errChunkEnd
		}
		c.state = chunkDataLF
	case chunkDataLF:
		if b != '\n' {
			return errChunkEnd
		}
		c.state, c.left = chunkSize, 0
	case chunkTrailer, chunkTrailerL:
		if c.trailer++; c.trailer > maxTrailers {
			return errTrailer
		}
		switch {
		case b == '\n' && c.blank:
			c.state = chunkDone
		case b == '\n':
			c.state, c.blank = chunkTrailer, true
		case b == '\r' && c.state == chunkTrailer:
			c.state = chunkTrailerL
		default:
			c.state, c.blank = chunkTrailer, false
		}
	}
	return nil
}

func hex1(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
