package hammer

import (
	"fmt"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/summary"
)

// watchSpeed looks whether inference has become slow or is stuck, and records
// it. It never ends the run: what is slow is to be measured too, and an engine
// that is down is judgeLife's.
func (r *run) watchSpeed(now, tokens int64, busy float64) {
	r.mu.Lock()
	stage := r.stage.Name
	var s assay.Slowed
	slow := false
	if r.speed != nil {
		s, slow = r.speed.Look(now, tokens, busy)
	}
	r.mu.Unlock()
	if !slow {
		return
	}
	text := fmt.Sprintf("for 30 s tokens came at %.3g a second for each request in flight, below half of the %.3g of the stage's first minute", s.TokensPerSecond, s.FirstMinute)
	if s.TokensPerSecond == 0 {
		text = fmt.Sprintf("for 30 s no token came, though requests are in flight; in the stage's first minute it were %.3g a second for each", s.FirstMinute)
	}
	r.put(assay.Event{At: now, Kind: assay.EventSlowInference, Stage: stage, Text: text,
		Data: map[string]float64{"tokens_per_second": s.TokensPerSecond, "first_minute": s.FirstMinute}})
}

// watchStage begins to watch a stage; nil ends it: nobody is in flight as before
// when the load has ended.
func (r *run) watchStage(w *summary.Watchdog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.speed = w
}
