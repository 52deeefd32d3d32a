package claims

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// proposalRoom is what a proposed promise leaves beyond the measured interval:
// the next run is another run, and its interval lies elsewhere.
const proposalRoom = 0.10

// Update is a claims file as a run would have it. It is proposed and never
// applied: a promise is somebody's decision, and a run is what was seen once.
type Update struct {
	Changes []Proposal // in the file's order
	Left    []string   // claims that stay as they are, and why
	Diff    []byte     // unified; empty: nothing changes
}

// Proposal is another target for a claim.
type Proposal struct {
	Claim    string
	Old, New string // the target's text
	Why      string
}

// ErrNoProposal says that nothing can be proposed from a run, or for a file.
var ErrNoProposal = errors.New("no proposal")

// Propose gives the targets that a run would put into its claims file, which is
// passed as it was read before the run. A kept promise is only ever tightened and
// a broken one only ever loosened, both to the worse end of the measured interval
// and a tenth beyond it; what was not decided stays.
func (r *Result) Propose(file []byte, catalog Catalog) (Update, error) {
	if r.Interrupted {
		return Update{}, fmt.Errorf("%w: the run was interrupted", ErrNoProposal)
	}
	suite, err := Read(bytes.NewReader(file), r.File, catalog)
	if err != nil {
		return Update{}, err
	}
	var u Update
	lines := bytes.SplitAfter(file, []byte("\n"))
	for _, c := range suite.Claims {
		i := slices.IndexFunc(r.Claims, func(x ClaimResult) bool { return x.Name == c.Name })
		if i < 0 || r.Claims[i].Target != c.Target {
			return Update{}, fmt.Errorf("%w: the file %s is not the one that was run", ErrNoProposal, r.File)
		}
		text, why := proposed(r.Claims[i])
		if text == "" {
			u.Left = append(u.Left, c.Name+": "+why)
			continue
		}
		if !c.wrote.replace(lines, c.Target.Text, text) {
			u.Left = append(u.Left, fmt.Sprintf("%s: its target does not stand in one piece in the file; write %q there by hand (%s)", c.Name, text, why))
			continue
		}
		u.Changes = append(u.Changes, Proposal{Claim: c.Name, Old: c.Target.Text, New: text, Why: why})
	}
	after := bytes.Join(lines, nil)
	if err := u.holds(suite, after, r.File, catalog); err != nil {
		return Update{}, err
	}
	u.Diff = unified(r.File, file, after)
	return u, nil
}

// holds reads the changed file again: it must be the old one but for what was
// proposed.
func (u Update) holds(old Suite, file []byte, name string, catalog Catalog) error {
	suite, err := Read(bytes.NewReader(file), name, catalog)
	if err != nil {
		return fmt.Errorf("%w: the changed file would be refused: %w", ErrNoProposal, err)
	}
	if len(suite.Claims) != len(old.Claims) {
		return fmt.Errorf("%w: the changed file would have %d claims instead of %d", ErrNoProposal, len(suite.Claims), len(old.Claims))
	}
	for i, c := range suite.Claims {
		want := old.Claims[i].Target.Text
		if k := slices.IndexFunc(u.Changes, func(p Proposal) bool { return p.Claim == c.Name }); k >= 0 {
			want = u.Changes[k].New
		}
		if c.Name != old.Claims[i].Name || c.Probe != old.Claims[i].Probe || c.Metric != old.Claims[i].Metric || c.Target.Text != want {
			return fmt.Errorf("%w: the changed file would say something else than what is proposed for %s", ErrNoProposal, foreign.Line(c.Name, 60))
		}
	}
	return nil
}

// proposed is the target's new text, or empty and why it stays.
func proposed(c ClaimResult) (text, why string) {
	worse, direction := c.Measured.Hi, 1.0
	if c.Target.Better() == assay.Higher {
		worse, direction = c.Measured.Lo, -1
	}
	switch {
	case c.Verdict == assay.Unknown:
		return "", "not decided: " + c.Why
	case !c.Measured.Known():
		return "", c.Why // a wrong result is no figure
	case math.IsNaN(worse) || math.IsInf(worse, 0) || !(worse > 0):
		return "", "what was measured has no bound on the side of the promise"
	}
	value := worse * (1 + proposalRoom)
	if direction < 0 {
		value = worse / (1 + proposalRoom)
	}
	text, value, err := c.Target.rewritten(value)
	if err != nil {
		return "", err.Error()
	}
	loosens := direction*(value-c.Target.Value) > 0
	measured := "measured " + FormatInterval(c.Measured, c.Unit)
	switch {
	case c.Verdict == assay.Pass && (loosens || value == c.Target.Value):
		return "", "kept, and as near as a promise should be: " + measured
	case c.Verdict == assay.Pass:
		return text, "kept with room: " + measured
	case !loosens:
		return "", "broken, and what was measured gives no looser promise: " + measured
	}
	return text, "broken: " + measured
}

// rewritten is the promise with another value, rounded to two digits away from
// what is promised, in the unit in which it was written or one that fits.
func (t Target) rewritten(value float64) (text string, rounded float64, err error) {
	rest := strings.TrimLeft(t.Text, " <>=≤≥")
	before := t.Text[:len(t.Text)-len(rest)]
	number := targetNumber.FindString(rest)
	after := rest[len(number):]
	unit := strings.TrimSpace(after)
	of, err := convert(1, unit, t.Unit)
	if err != nil || number == "" {
		return "", 0, fmt.Errorf("the promise %q cannot be written anew", t)
	}
	if x := value / of; x < 0.1 || x >= 10_000 {
		unit, of = fitting(value, t.Unit, unit, of)
		after = strings.Repeat(" ", len(after)-len(strings.TrimLeft(after, " "))) + unit
	}
	digits := twoDigits(value/of, t.Better() == assay.Lower)
	parsed, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return "", 0, err
	}
	return before + digits + after, parsed * of, nil
}

// fitting is the largest unit of the kind of which the value has at least one.
func fitting(value float64, kind, unit string, of float64) (string, float64) {
	switch kind {
	case unitSeconds, unitRate, unitBytes, unitFlow:
	default:
		return unit, of
	}
	known := writtenUnits()
	for _, name := range unitsOf(kind) { // the smallest first
		if u := known[name]; (u.of <= value || name == unitsOf(kind)[0]) && strings.Contains(name, "i") == strings.Contains(unit, "i") {
			unit, of = name, u.of
		}
	}
	return unit, of
}

// twoDigits rounds to two significant digits, up or down, and writes them.
func twoDigits(v float64, up bool) string {
	step := math.Pow(10, math.Floor(math.Log10(v))-1)
	n := math.Floor(v/step + 1e-9)
	if up {
		n = math.Ceil(v/step - 1e-9)
	}
	decimals := 0
	if step < 1 {
		decimals = int(math.Round(-math.Log10(step)))
	}
	text := strconv.FormatFloat(n*step, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// spot is where in the file a text begins: a line and a character of it, from 1.
type spot struct{ line, column int }

func spotOf(t *token.Token) spot {
	s := spot{t.Position.Line, t.Position.Column}
	if t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType {
		s.column++
	}
	return s
}

// replace puts a text in the place of another in its line, where that stands
// there as it is: an alias, or a text with escapes or over several lines, does not.
func (s spot) replace(lines [][]byte, old, text string) bool {
	if s.line < 1 || s.line > len(lines) || old == "" {
		return false
	}
	line, from := lines[s.line-1], 0
	for range s.column - 1 {
		_, n := utf8.DecodeRune(line[from:])
		from += n
	}
	if !bytes.HasPrefix(line[from:], []byte(old)) {
		return false
	}
	lines[s.line-1] = slices.Concat(line[:from], []byte(text), line[from+len(old):])
	return true
}
