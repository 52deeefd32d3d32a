package inference

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// maxDepth bounds the nesting of an event: no engine needs a tenth of it.
const maxDepth = 128

// scanner walks one JSON value in place. It accepts what encoding/json accepts,
// up to maxDepth, and allocates nothing but for names with escapes. After a mistake bad is set and
// everything else gives its zero value.
type scanner struct {
	b     []byte
	i     int
	depth int
	bad   bool
}

// space moves to the next byte that is not white space, and gives it; 0 at the end.
func (s *scanner) space() byte {
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
		s.i++
	}
	return 0
}

func (s *scanner) fail() { s.bad = true; s.i = len(s.b) }

// open enters an object or array and reports whether it has a member.
func (s *scanner) open(closer byte) bool {
	s.i++
	if s.depth++; s.depth > maxDepth {
		s.fail()
		return false
	}
	if s.space() == closer {
		s.i++
		s.depth--
		return false
	}
	return !s.bad
}

// more stands after a member: it reports whether another one follows.
func (s *scanner) more(closer byte) bool {
	switch c := s.space(); {
	case s.bad:
	case c == ',':
		s.i++
		return true
	case c == closer:
		s.i++
		s.depth--
	default:
		s.fail()
	}
	return false
}

// object enters the object that is next and gives its first member's name; what
// is no object is passed over. With member it makes the loop over an object:
//
//	for key, ok := s.object(); ok; key, ok = s.member() {
//
// whose body must read or skip the value. An iterator would read better, and
// costs a tenth of what reading a stream costs.
func (s *scanner) object() (key []byte, ok bool) {
	if s.space() != '{' {
		s.skip()
		return nil, false
	}
	if !s.open('}') {
		return nil, false
	}
	return s.key(), true
}

// member gives the next member's name.
func (s *scanner) member() (key []byte, ok bool) {
	if !s.more('}') {
		return nil, false
	}
	return s.key(), true
}

// key reads a member's name and its colon. The name is raw when it has no
// escapes, which is always.
func (s *scanner) key() []byte {
	if s.space() != '"' {
		s.fail()
		return nil
	}
	raw, escaped := s.str()
	if s.space() != ':' {
		s.fail()
		return nil
	}
	s.i++
	switch {
	case !escaped:
		return raw
	case len(raw) > maxKey:
		return nil
	}
	return appendUnescaped(nil, raw)
}

// maxKey is longer than any name that matters.
const maxKey = 64

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str reads a string whose opening quote is next, and gives what lies between
// the quotes, and whether it holds escapes.
func (s *scanner) str() (raw []byte, escaped bool) {
	from := s.i + 1
	b := s.b
	i := from
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			q := x ^ ones*'"'
			e := x ^ ones*'\\'
			// A byte that is a quote, a backslash or a control character sets
			// its high bit; bits above the first one may be wrong.
			hit := ((q - ones) & ^q) | ((e - ones) & ^e) | ((x - ones*0x20) & ^x)
			if hit &= highs; hit != 0 {
				i += bits.TrailingZeros64(hit) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			s.fail()
			return nil, false
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return b[from:i], escaped
		case c == '\\':
			escaped = true
			n := escapeLen(b[i:])
			if n == 0 {
				s.fail()
				return nil, false
			}
			i += n
		case c < 0x20:
			s.fail()
			return nil, false
		default:
			i++
		}
	}
}

// escapeLen is the length of the escape that b begins with, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && hex4(b[2:6]) >= 0 {
			return 6
		}
	}
	return 0
}

func hex4(b []byte) rune {
	var r rune
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendUnescaped appends what a raw string that str accepted means.
func appendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			i++
			continue
		}
		switch c := raw[i+1]; c {
		case 'u':
			r := hex4(raw[i+2 : i+6])
			i += 6
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(raw) >= i+6 && raw[i] == '\\' && raw[i+1] == 'u' {
					low = hex4(raw[i+2 : i+6])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		default:
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}

// skip passes over one value.
func (s *scanner) skip() {
	switch c := s.space(); c {
	case '"':
		s.str()
	case '{':
		if !s.open('}') {
			return
		}
		for {
			if s.space() != '"' {
				s.fail()
				return
			}
			s.str()
			if s.space() != ':' {
				s.fail()
				return
			}
			s.i++
			s.skip()
			if !s.more('}') {
				return
			}
		}
	case '[':
		if !s.open(']') {
			return
		}
		for {
			s.skip()
			if !s.more(']') {
				return
			}
		}
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.num()
	}
}

func (s *scanner) word(w string) {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		s.fail()
		return
	}
	s.i += len(w)
}

// num reads a number and gives its bytes.
func (s *scanner) num() []byte {
	b, i := s.b, s.i
	digits := func() bool {
		from := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		s.fail()
		return nil
	}
	if i < len(b) && b[i] == '.' {
		if i++; !digits() {
			s.fail()
			return nil
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			s.fail()
			return nil
		}
	}
	out := b[s.i:i]
	s.i = i
	return out
}

// float reads a number; a value of another kind is passed over and not ok.
func (s *scanner) float() (v float64, ok bool) {
	if c := s.space(); c != '-' && (c < '0' || c > '9') {
		s.skip()
		return 0, false
	}
	b := s.num()
	if len(b) == 0 || len(b) > 64 {
		return 0, false
	}
	v, err := strconv.ParseFloat(unsafe.String(&b[0], len(b)), 64)
	return v, err == nil
}

// maxCount bounds every count and duration that an engine tells: what is above
// is a lie, and would overflow sums.
const maxCount = 1 << 53

// whole reads a number that counts something. What is negative, too large or
// not a number is not ok.
func (s *scanner) whole() (v int64, ok bool) {
	c := s.space()
	if '1' <= c && c <= '9' {
		// By far the most common: a few digits and nothing else.
		i := s.i
		for i < len(s.b) && i-s.i < 15 && '0' <= s.b[i] && s.b[i] <= '9' {
			v = v*10 + int64(s.b[i]-'0')
			i++
		}
		if i < len(s.b) && (s.b[i] == ',' || s.b[i] == '}') {
			s.i = i
			return v, true
		}
	}
	f, ok := s.float()
	if !ok || !(f >= 0 && f <= maxCount) {
		return 0, false
	}
	return int64(f), true
}

// flag reads true; anything else is passed over.
func (s *scanner) flag() bool {
	if s.space() == 't' {
		s.word("true")
		return !s.bad
	}
	s.skip()
	return false
}

// text reads a string; a value of another kind is passed over and gives nothing.
func (s *scanner) text() (raw []byte, escaped bool) {
	if s.space() != '"' {
		s.skip()
		return nil, false
	}
	return s.str()
}
