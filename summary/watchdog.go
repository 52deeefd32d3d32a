package summary

import "github.com/assay-bench/assay"

// What the watchdog goes by.
const (
	watchFirst = int64(60e9) // ns: the stage's first minute is what the rest is compared with
	watchFor   = int64(30e9) // ns: so long it must be slow
	watchShare = 0.5         // of the first minute
	// watchGap is the longest time between two looks, in ns. After a longer one
	// the process was stopped, and what happened meanwhile is not the engine's.
	watchGap = int64(5e9)
	// watchBusy is the least time that requests must have been under way in
	// watchFor, in seconds, for their speed to say something.
	watchBusy = 1.0
)

// Watchdog looks for inference that has become slow, or is stuck, while a stage
// is under way: tokens a second for each request in flight that are below half
// of the stage's first minute for 30 s. It is pure: what it is shown decides, not
// a clock. It speaks from 90 s after a stage's first token on, so there is none
// for shorter stages.
//
// A load whose tokens come in heaps, such that a part of the first minute itself
// lies below half of the whole, is not watched: nothing that it does is unusual.
type Watchdog struct {
	off   bool
	looks []look // those of the last watchFor, and one before
	base  look   // where the first minute begins: a first token has come
	begun bool
	least float64 // the slowest part of the first minute; −1: not seen yet
	first float64 // tokens a second for each request in flight; 0: not known yet
	slow  bool
}

// look is one moment: tokens that came until then, and seconds that requests
// were under way, added up over them.
type look struct {
	at     int64
	tokens int64
	busy   float64
}

// NewWatchdog watches a stage. A step of a search is not watched, and neither is
// a load that changes by design: there is nothing that it should keep to.
func NewWatchdog(s assay.Stage) *Watchdog {
	return &Watchdog{off: s.Probe || !steadyLoad(s), least: -1}
}

// Look takes how many tokens came so far, and how many seconds requests were
// under way so far, added up over them. It is to be called every second or so. It
// reports true once when inference becomes slow, and again only after it
// recovered.
func (w *Watchdog) Look(at, tokens int64, busy float64) (assay.Slowed, bool) {
	now := look{at, tokens, busy}
	if w.off || !w.follow(now) {
		return assay.Slowed{}, false
	}
	if w.first == 0 {
		w.learn(now)
		return assay.Slowed{}, false
	}
	from, ok := w.before(now)
	if !ok || from.at < w.base.at+watchFirst || now.busy-from.busy < watchBusy {
		return assay.Slowed{}, false
	}
	rate := now.rate(from)
	was := w.slow
	w.slow = rate < watchShare*w.first
	return assay.Slowed{At: at, TokensPerSecond: rate, FirstMinute: w.first}, w.slow && !was
}

// follow keeps a look, and reports whether there is one to compare it with.
func (w *Watchdog) follow(now look) bool {
	if n := len(w.looks); n > 0 {
		last := w.looks[n-1]
		if now.at <= last.at {
			return false
		}
		if now.at-last.at > watchGap {
			w.looks = w.looks[:0]
			w.begun = w.begun && w.first > 0 // a first minute with a hole in it begins anew
		}
	}
	w.looks = append(w.looks, now)
	if !w.begun {
		if now.tokens > w.looks[0].tokens {
			w.begun, w.base, w.least = true, now, -1
		}
		w.looks = append(w.looks[:0], now)
		return false
	}
	for len(w.looks) > 2 && now.at-w.looks[1].at >= watchFor {
		w.looks = append(w.looks[:0], w.looks[1:]...)
	}
	return true
}

// learn takes a look of the first minute.
func (w *Watchdog) learn(now look) {
	if from, ok := w.before(now); ok && now.busy-from.busy >= watchBusy {
		if r := now.rate(from); w.least < 0 || r < w.least {
			w.least = r
		}
	}
	if now.at-w.base.at < watchFirst {
		return
	}
	w.first = now.rate(w.base)
	w.off = !(w.first > 0) || w.least < watchShare*w.first
}

// before is the look of watchFor ago.
func (w *Watchdog) before(now look) (look, bool) {
	from := w.looks[0]
	return from, now.at-from.at >= watchFor
}

// rate is tokens a second for each request in flight; 0 when none was.
func (l look) rate(from look) float64 {
	if busy := l.busy - from.busy; busy > 0 {
		return float64(l.tokens-from.tokens) / busy
	}
	return 0
}

// slowedMost bounds what is kept of a stage that is slow again and again.
const slowedMost = 100

// slowedBy reads what the watchdog said in an event.
func slowedBy(e *assay.Event) (assay.Slowed, bool) {
	s := assay.Slowed{At: e.At, TokensPerSecond: e.Data["tokens_per_second"], FirstMinute: e.Data["first_minute"]}
	return s, s.TokensPerSecond >= 0 && s.FirstMinute > 0
}
