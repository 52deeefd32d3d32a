package claims

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Target is a promise about one figure: an operator and a value. The operator
// says which way is better, and a file in which it says otherwise than the
// metric is refused.
type Target struct {
	Op    string  `json:"op"`    // <= < >= >
	Value float64 `json:"value"` // in Unit
	Unit  string  `json:"unit"`
	Text  string  `json:"text"` // as written
}

// Better is which way the operator points.
func (t Target) Better() assay.Direction {
	if strings.HasPrefix(t.Op, ">") {
		return assay.Higher
	}
	return assay.Lower
}

// Kept says whether a value keeps the promise.
func (t Target) Kept(v float64) bool {
	switch t.Op {
	case "<=":
		return v <= t.Value
	case "<":
		return v < t.Value
	case ">=":
		return v >= t.Value
	case ">":
		return v > t.Value
	}
	return false
}

// Judge compares an interval with the promise: Pass when both ends keep it,
// Fail when both break it, Unknown otherwise and whenever an end is missing. An
// end at infinity is open: the figure may lie anywhere beyond.
//
// With an interval of confidence 95 %, a promise that the truth just meets is
// called kept or broken in at most 1 of 20 runs.
func (t Target) Judge(q assay.Quantity) assay.Verdict {
	switch t.Op {
	case "<=", "<", ">=", ">":
	default:
		return assay.Unknown
	}
	if !q.Known() || math.IsNaN(q.Lo) || math.IsNaN(q.Hi) || q.Lo > q.Hi || math.IsNaN(t.Value) {
		return assay.Unknown
	}
	lo, hi := t.Kept(q.Lo), t.Kept(q.Hi)
	switch {
	case lo && hi:
		return assay.Pass
	case !lo && !hi:
		return assay.Fail
	}
	return assay.Unknown
}

// String is the promise as it was written, where it was.
func (t Target) String() string {
	if t.Text != "" {
		return foreign.Line(strings.TrimSpace(t.Text), 60)
	}
	return t.Op + " " + FormatValue(t.Value, t.Unit)
}

// misplaced is what is wrong with a part of a text, and where in it.
type misplaced struct {
	at   int // bytes into the text
	text string
}

var targetNumber = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?`)

// parseTarget reads a promise about a metric of the given unit and direction.
func parseTarget(text, unit string, better assay.Direction) (Target, *misplaced) {
	t := Target{Text: text, Unit: unit}
	rest := strings.TrimLeft(text, " ")
	at := len(text) - len(rest)
	for _, op := range []struct{ written, op string }{{"<=", "<="}, {"≤", "<="}, {">=", ">="}, {"≥", ">="}, {"<", "<"}, {">", ">"}} {
		if after, ok := strings.CutPrefix(rest, op.written); ok {
			t.Op, rest = op.op, after
			break
		}
	}
	if t.Op == "" {
		return t, &misplaced{at, fmt.Sprintf(`a promise begins with <=, <, >= or >, as in "<= 100us"; this is %q`, foreign.Line(text, 60))}
	}
	if better != assay.Neither && t.Better() != better {
		return t, &misplaced{at, fmt.Sprintf("%s promises that %s is better, but of this metric %s is", t.Op, t.Better(), better)}
	}
	trimmed := strings.TrimLeft(rest, " ")
	at = len(text) - len(trimmed)
	number := targetNumber.FindString(trimmed)
	value, err := strconv.ParseFloat(number, 64)
	if number == "" || err != nil || math.IsInf(value, 0) {
		return t, &misplaced{at, fmt.Sprintf("%q does not begin with a number", foreign.Line(trimmed, 60))}
	}
	after := trimmed[len(number):]
	written := strings.TrimSpace(after)
	at = len(text) - len(strings.TrimLeft(after, " "))
	t.Value, err = convert(value, written, unit)
	if err != nil {
		if written == "" {
			at = len(text)
		}
		return t, &misplaced{at, err.Error()}
	}
	return t, nil
}
