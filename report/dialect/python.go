package dialect

import (
	"bufio"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// object is a JSON object as Python's json.dump writes a dict: keys keep the
// place at which they were first set, ", " and ": " separate, and everything
// that is not ASCII is escaped.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) set(key string, value any) {
	if o.values == nil {
		o.values = map[string]any{}
	}
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

// sequence is a JSON array that is made while it is written.
type sequence struct {
	n  int
	at func(int) any
}

func array[T any](list []T, value func(*T) any) sequence {
	return sequence{len(list), func(i int) any { return value(&list[i]) }}
}

func (o *object) write(b *bufio.Writer) error {
	b.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(pythonString(key))
		b.WriteString(": ")
		if err := writeValue(b, o.values[key]); err != nil {
			return fmt.Errorf("field %s: %w", key, err)
		}
	}
	return b.WriteByte('}') // a bufio.Writer keeps its first error
}

func writeValue(b *bufio.Writer, value any) error {
	switch v := value.(type) {
	case nil:
		b.WriteString("null")
	case string:
		b.WriteString(pythonString(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case float64:
		if math.IsNaN(v) {
			return fmt.Errorf("not a number")
		}
		if math.IsInf(v, 0) { // Python's Infinity is no JSON
			b.WriteString(pythonString(pythonFloat(v)))
			return nil
		}
		b.WriteString(pythonFloat(v))
	case sequence:
		b.WriteByte('[')
		for i := range v.n {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := writeValue(b, v.at(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	default:
		return fmt.Errorf("no way to write a %T", v)
	}
	return nil
}

// pythonFloat is Python's repr: 2 is "2.0".
func pythonFloat(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// pythonString quotes with every rune beyond ASCII escaped.
func pythonString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c >= 0x20 && c < 0x7f:
			b.WriteRune(c)
		case c > 0xffff:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
