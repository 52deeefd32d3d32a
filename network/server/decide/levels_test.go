package decide

import (
	"math"
	"testing"

	"github.com/assay-bench/assay"
)

func TestLevelsAreWhatCanBePlannedBy(t *testing.T) {
	p99 := func(v, lo float64) assay.Dist {
		return assay.Dist{N: 1000, Percentiles: []assay.Percentile{{Level: 99, Value: v, Lo: lo, Hi: v + 1}}}
	}
	good := assay.StageSummary{
		Complete: true, SteadyFrom: 1, SteadyTo: 2, OK: 100, RequestsPerSecond: 10, ErrorRate: 0.01, OutputTokensPerSecond: 500,
		TTFT: p99(300, 290), TPOT: p99(20, math.NaN()), E2E: assay.Dist{N: 1000, Mean: 1500},
	}
	cut, whole, failing, strange := good, good, good, good
	cut.Complete = false
	whole.RatesOf = assay.RatesOfWhole
	failing.ErrorRate = 0.02
	strange.RequestsPerSecond = math.NaN()
	s := assay.Summary{Stages: []assay.StageSummary{cut, whole, good, failing, strange}}
	got := levels(s)
	if len(got) != 1 || got[0].RequestsPerSecond != 9.9 || got[0].OutputTokensPerSecond != 500 || got[0].TtftP99Ms == nil || *got[0].TtftP99Ms != 300 || got[0].TpotP99Ms != nil {
		t.Errorf("%+v", got)
	}
	s.Client.Certificate = assay.Invalid
	if got := levels(s); got != nil {
		t.Errorf("a client that measured itself gives %+v", got)
	}
}
