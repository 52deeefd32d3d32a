package trust

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
)

// Window is the time between two readings of an engine's counter.
type Window struct {
	Probed   bool
	Received int     // tokens that came back of what was sent within it: at least so many were made
	Counted  int64   // by how much the engine's counter rose
	Seconds  float64 // between the readings
	// Void says why it does not count; empty: it does. Whether it does must not
	// depend on whether it was probed.
	Void string
}

// AddressOptions are the chances of being wrong, and what is known of the engine.
type AddressOptions struct {
	// FalseAlarm is the chance that a session accuses an engine that counts what it
	// serves; zero: DefaultFalseAlarm.
	FalseAlarm float64
	// FalsePass is the chance that a session passes a counter that has nothing to do
	// with what was sent; zero: DefaultFalsePass.
	FalsePass float64
	// Capacity is the output tokens a second that the node has shown in a report;
	// zero: unknown.
	Capacity float64
}

// Defaults of [AddressOptions].
const (
	DefaultFalseAlarm = 1e-5
	DefaultFalsePass  = 1e-4
)

const (
	// leastCounted is the share of what came back that an honest counter rises by at
	// least. It is one where the probes take nothing from others. A loop of callers
	// that wait for their answers loses by a probe about the share of the engine's
	// capacity that is in use, so below maxBusy a half is left; a quarter is asked for.
	leastCounted = 4 // one part of
	maxBusy      = 0.5

	minProbed = 8   // windows that count, of each kind
	minProbe  = 16  // tokens that make a probe one
	minAll    = 256 // tokens of a session
	// maxCounted is more than any engine makes in a window.
	maxCounted = int64(1e12)
)

// Result is what a check says.
type Result struct {
	Verdict assay.Verdict
	Text    string
	Figures map[string]float64
}

func unknown(figures map[string]float64, format string, args ...any) Result {
	return Result{assay.Unknown, fmt.Sprintf(format, args...), figures}
}

// Address says whether the engine whose counter was read is the one that answered.
//
// Two things accuse. An engine makes at least the tokens that came back: a counter
// that rose by less than half of them in more than half of the probed windows is not
// its. And a counter that rises no more in probed windows than in others, though it
// had to by a quarter of what came back, is not its either: the chance of that is the
// exact share of all ways to choose the windows by which it would look like that.
func Address(all []Window, o AddressOptions) Result {
	if o.FalseAlarm == 0 {
		o.FalseAlarm = DefaultFalseAlarm
	}
	if o.FalsePass == 0 {
		o.FalsePass = DefaultFalsePass
	}
	w, void := counting(all)
	s := tally(w)
	figures := map[string]float64{
		"windows": float64(len(w)), "probed": float64(s.probed), "void": float64(len(all) - len(w)), "received_tokens": float64(s.received),
		"counted_when_probed": float64(s.counted), "counted_otherwise": float64(s.others),
	}
	switch {
	case s.probed < minProbed || len(w)-s.probed < minProbed:
		why := ""
		if void != "" {
			why = ": " + void
		}
		return unknown(figures, "only %d of %d windows count%s", len(w), len(all), why)
	case s.received < minAll:
		return unknown(figures, "only %d tokens came back", s.received)
	}
	lack, match := s.chances()
	figures["chance_if_honest"], figures["chance_if_unrelated"] = lack, match
	if s.short*2 > s.probed {
		return Result{assay.Fail, fmt.Sprintf("the serving URL does not lead to this node's engine: %d tokens came back in %d windows, and in %d of these the engine counted less than half of what came", s.received, s.probed, s.short), figures}
	}
	busy := math.Inf(1)
	if o.Capacity > 0 {
		busy = s.rate / o.Capacity
		figures["busy"] = busy
	}
	if lack <= o.FalseAlarm && busy <= maxBusy {
		return Result{assay.Fail, fmt.Sprintf("the engine's counter does not follow what is sent to the serving URL: %d tokens came back in %d windows, and it rose by %d in these and by %d in the %d others (chance %.1g for an engine that counts a quarter of it)", s.received, s.probed, s.counted, s.others, len(w)-s.probed, lack), figures}
	}
	if match <= o.FalsePass && lack > o.FalseAlarm {
		return Result{assay.Pass, fmt.Sprintf("the engine's counter follows what is sent to the serving URL: %d tokens came back in %d windows, and it rose by %d in these and by %d in the %d others (chance %.1g for a counter of anything else)", s.received, s.probed, s.counted, s.others, len(w)-s.probed, match), figures}
	}
	return unknown(figures, "what else the engine does hides the probes: %d tokens came back in %d windows, and its counter rose by %d in these and by %d in the %d others", s.received, s.probed, s.counted, s.others, len(w)-s.probed)
}

// counting are the windows that count, and why the others do not.
func counting(all []Window) (w []Window, void string) {
	for _, one := range all {
		switch {
		case one.Void != "":
			void = one.Void
		case one.Counted < 0 || one.Counted > maxCounted || one.Received < 0 || !(one.Seconds > 0):
			void = "the engine's counter went back or is none"
		case len(w) < maxWindows:
			w = append(w, one)
		}
	}
	return w, void
}

// sessionTally is a session in figures.
type sessionTally struct {
	probed, short, received int
	counted, others         int64 // in probed windows, and in the others
	rate                    float64
	flags                   []bool
	lacking, following      []int64
}

func tally(w []Window) (s sessionTally) {
	seconds := 0.0
	for _, one := range w {
		seconds += one.Seconds
		if one.Probed {
			s.probed++
			s.received += one.Received
			s.counted += one.Counted
			if one.Received >= minProbe && one.Counted*2 < int64(one.Received) {
				s.short++
			}
		} else {
			s.others += one.Counted
		}
		s.flags = append(s.flags, one.Probed)
		s.lacking = append(s.lacking, leastCounted*one.Counted-int64(one.Received))
		s.following = append(s.following, -one.Counted)
	}
	if seconds > 0 {
		s.rate = float64(s.counted+s.others) / seconds
	}
	return s
}

// chances are that of so little under the probes for an engine that counts at least a
// quarter, and that of so much for a counter that has nothing to do with them.
func (s sessionTally) chances() (lack, match float64) {
	return chanceBelow(s.lacking, s.flags), chanceBelow(s.following, s.flags)
}
