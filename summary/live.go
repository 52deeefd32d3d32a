package summary

import (
	"sync"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// liveSeconds is how far back the figures of a [Live] go.
const liveSeconds = 10

// Live gives figures of the last ten seconds of a stage under way, for people
// who watch. It is safe for use by many goroutines.
type Live struct {
	mu      sync.Mutex
	since   int64 // when the first request of the stage ended
	seconds [liveSeconds]liveSecond
}

type liveSecond struct {
	at     int64 // Unix seconds
	ok     int
	tokens float64
	ttft   stat.Counts
}

// LiveFigures are what a checkpoint shows.
type LiveFigures struct {
	RequestRate, TokenRate float64
	TTFTp50, TTFTp99       *float64 // ms; nil when no request ended
}

// NewLive starts without any figures.
func NewLive() *Live { return &Live{} }

// Reset forgets what came before: a new stage begins.
func (l *Live) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.seconds = 0, [liveSeconds]liveSecond{}
}

// Add takes a request that is over.
func (l *Live) Add(r *assay.Request) {
	if !r.OK() || r.Last == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == 0 {
		l.since = r.Sent
	}
	at := r.Last / 1e9
	s := &l.seconds[at%liveSeconds]
	if s.at != at {
		*s = liveSecond{at: at}
	}
	s.ok++
	s.tokens += tokensOf(r)
	if ttft, ok := r.TTFT(); ok {
		s.ttft.Add(ttft / 1000)
	}
}

// Figures are those of the ten seconds before now.
func (l *Live) Figures(now int64) LiveFigures {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ok int
	var tokens float64
	var ttft stat.Counts
	for i := range l.seconds {
		s := &l.seconds[i]
		if s.ok == 0 || s.at <= now/1e9-liveSeconds || s.at > now/1e9 {
			continue
		}
		ok += s.ok
		tokens += s.tokens
		ttft.Merge(&s.ttft)
	}
	var f LiveFigures
	span := float64(min(now-l.since, liveSeconds*1e9)) / 1e9
	if ok == 0 || span <= 0 {
		return f
	}
	f.RequestRate, f.TokenRate = float64(ok)/span, tokens/span
	if ttft.N() > 0 {
		p50, p99 := ttft.Quantile(50)/1000, ttft.Quantile(99)/1000
		f.TTFTp50, f.TTFTp99 = &p50, &p99
	}
	return f
}
