package assay

import "fmt"

// Verdict is what a judge says. The zero Verdict is Unknown: a judgement that
// was never made is not a pass.
type Verdict uint8

// The verdicts, from no answer to the worst.
const (
	Unknown  Verdict = iota // could not be measured or decided
	Pass                    // measured, and good
	Degraded                // measured, usable with reservations that are named
	Fail                    // measured, and bad
)

var verdictNames = [...]string{"unknown", "pass", "degraded", "fail"}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// MarshalText writes the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a verdict's name; an unknown name is an error, so that a
// verdict of a later version is never taken for one of ours.
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, name := range verdictNames {
		if name == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("unknown verdict %q", b)
}
