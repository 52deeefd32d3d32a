// Package foreign handles text and bytes that somebody else wrote: a node, an
// engine, a driver, a child process, a broker, a file in a run directory.
//
// It promises that what it returns can be printed on a terminal, written to a
// log or put into an error as it is. The text is valid UTF-8, has at most as
// many bytes as the caller allows, and holds no C0 or C1 control, no character
// that turns the direction of writing or that nobody sees, and no half of a
// character. What had to go leaves a U+FFFD, one for a run of such characters,
// so that a reader sees that something was there.
//
// It refuses to be reversible: two names may become the same text. What is
// compared, hashed or sent on stays as it came; what a person reads goes through
// this package. JSON, which a machine reads and a person may look at, has a
// function of its own that loses nothing.
package foreign

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is what the functions take.
type Text interface{ ~string | ~[]byte }

const (
	replacement = string(utf8.RuneError)
	ellipsis    = "…"
)

// Line makes one line of s, of at most limit bytes. Line breaks and tabs become
// spaces, and spaces at either end go. A text that was cut ends in an ellipsis,
// which the limit includes.
func Line[T Text](s T, limit int) string {
	return clean(strings.TrimSpace(string(s)), limit, false)
}

// Clip makes a text of at most limit bytes that keeps its line breaks and tabs.
// White space at either end goes; a lone carriage return is a line break. It is
// for what is shown as a block: a line of it can look like one of ours.
func Clip[T Text](s T, limit int) string {
	return clean(strings.TrimSpace(string(s)), limit, true)
}

// Tail is Clip of the end of s: what does not fit is missing at the beginning.
func Tail[T Text](s T, limit int) string {
	t := strings.TrimSpace(string(s))
	whole := len(t) <= limit
	if !whole {
		t = t[len(t)-max(limit, 0):]
		t = strings.TrimLeftFunc(t, func(r rune) bool { return r == utf8.RuneError }) // half a character
	}
	t = clean(t, 3*len(t), true) // a replacement has three bytes
	switch {
	case whole && len(t) <= limit:
		return t
	case limit < len(ellipsis):
		return ""
	}
	from := max(0, len(t)-(limit-len(ellipsis)))
	for from < len(t) && !utf8.RuneStart(t[from]) {
		from++
	}
	return ellipsis + t[from:]
}

// Native makes a line of what a native library left in a buffer: up to the
// first zero byte, or all of it where that was forgotten.
func Native(b []byte, limit int) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return Line(b, limit)
}

// Cut bounds s without cutting a character in two, and changes nothing else: it
// is for text that is sent on, never for text that is shown.
func Cut(s string, limit int) string {
	limit = max(limit, 0)
	if len(s) <= limit {
		return s
	}
	for n := limit; n >= 0 && n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return s[:n]
		}
	}
	return s[:limit] // it was no UTF-8 in the first place
}

// Plain reports whether s is a line that can be shown as it is. It is for names
// that are refused rather than mended.
func Plain(s string) bool { return plain(s, false) }

// JSON escapes what a terminal would obey and JSON lets through: C1 controls,
// DEL, and what Line replaces otherwise. The document means the same as before.
func JSON(document []byte) []byte {
	if plain(string(document), true) {
		return document
	}
	out := make([]byte, 0, len(document)+len(document)/8)
	for _, r := range string(document) {
		switch {
		case r < 0x7f || r != utf8.RuneError && unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// clean is what Line and Clip have in common.
func clean(s string, limit int, lines bool) string {
	if len(s) <= limit && plain(s, lines) {
		return s
	}
	var b strings.Builder
	bad := false
	for i, r := range s {
		if b.Len() > limit {
			break
		}
		was := bad
		bad = false
		switch {
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"): // the line feed stands for both
		case lines && (r == '\n' || r == '\r'):
			b.WriteByte('\n')
		case lines && r == '\t':
			b.WriteByte('\t')
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case r != utf8.RuneError && unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			if bad = true; !was {
				b.WriteString(replacement)
			}
		}
	}
	t := b.String()
	switch {
	case len(t) <= limit:
		return t
	case limit < len(ellipsis):
		return ""
	}
	return Cut(t, limit-len(ellipsis)) + ellipsis
}

// plain reports whether clean changes at most the length.
func plain(s string, lines bool) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return plainRunes(s[i:], lines)
		}
	}
	return true
}

func plainRunes(s string, lines bool) bool {
	was := false
	for i, r := range s {
		is := r == utf8.RuneError
		switch {
		case is && (was || !strings.HasPrefix(s[i:], replacement)):
			return false // the second of a run, or no UTF-8
		case lines && (r == '\n' || r == '\t'):
		case !unicode.IsPrint(r):
			return false
		}
		was = is
	}
	return true
}
