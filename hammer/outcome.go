package hammer

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/load"
	"github.com/assay-bench/assay/summary"
)

// outcome is what the plan may know of a stage: the same from a stage that has
// just ended as from one on record, so that a resumed search goes the same way.
func outcome(stage assay.Stage, s *assay.StageSummary) load.Outcome {
	if s.Plan.Kind == stage.Kind && s.Plan.DurationNS > 0 {
		stage.DurationNS, stage.RampUpNS = s.Plan.DurationNS, s.Plan.RampUpNS
	}
	e := summary.EvidenceOf(s)
	o := load.Outcome{
		Stage: stage, Goodput: s.GoodputPerSecond, E2E: e.E2E,
		Trials: e.Trials, Behind: e.Behind, Short: e.Short,
	}
	if !s.Windowed() {
		o.NoWindow = s.WindowWhy
	}
	return o
}

// announce says that a step of a search takes longer than was asked for.
func (r *run) announce(stage assay.Stage) {
	asked := int64(r.cfg.Load.Duration)
	if !stage.Probe || asked <= 0 || stage.DurationNS <= asked {
		return
	}
	r.event(assay.EventNote, stage.Name, fmt.Sprintf("this step takes %s instead of %s, so that enough requests end in it",
		time.Duration(stage.DurationNS), time.Duration(asked)), map[string]float64{"duration_seconds": float64(stage.DurationNS) / 1e9})
}

// tell says when a step of a search did not count.
func (r *run) tell(o load.Outcome) {
	if !o.Stage.Probe {
		return
	}
	if o.Short != "" {
		r.event(assay.EventNote, o.Stage.Name, "this step is repeated, longer: "+o.Short, nil)
		return
	}
	for _, t := range o.Trials {
		if t.Clustered && t.Violations > 0 {
			r.event(assay.EventNote, o.Stage.Name, fmt.Sprintf("all %d violations lie within half of this step: the first such step at a load is set aside and repeated", t.Violations), nil)
			return
		}
	}
}

// measured says when a run that came to its end has nothing to show.
func measured(s assay.Summary) error {
	slowest := 0.0
	for _, st := range s.Stages {
		if st.OK > 0 {
			return nil
		}
		slowest = max(slowest, st.WarmupE2EMS)
	}
	if slowest > 0 {
		takes := time.Duration(slowest * 1e6).Round(10 * time.Millisecond)
		return fmt.Errorf("%w: a request takes about %s, so give --duration %s or more", ErrTooShort, takes, (5*takes).Round(time.Second)+time.Second)
	}
	return ErrNothingMeasured
}
