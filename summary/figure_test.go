package summary_test

import (
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/summary"
)

// Any percentile may be asked for afterwards, and is the one that a summary has; too
// few requests have one end of an interval, which can break a limit and keep none.
func TestFiguresOfACollector(t *testing.T) {
	collect := func(n int) *summary.Collector {
		c := summary.NewCollector(assay.Stage{Name: "c1", Kind: assay.LoadClosed, Concurrency: 1}, assay.Judge{})
		for i := range n {
			at := start + int64(i)*second
			c.Add(&assay.Request{Stream: 1, Sent: at, First: at + 20*ms + int64(i*7919%1000)*ms/100, Last: at + 90*ms, End: at + 90*ms, OutputTokens: 8})
		}
		return c
	}
	c := collect(1000)
	s := c.Summary()
	for _, level := range []float64{50, 90, 95, 99} {
		want, _ := s.TTFT.P(level)
		if got := c.Percentile("ttft", level); got.N != 1000 || got.Est != want.Value || got.Lo != want.Lo || got.Hi != want.Hi || got.Why != "" {
			t.Errorf("p%g: %+v, want %+v", level, got, want)
		}
	}
	if got := c.Mean("ttft"); got.Est != s.TTFT.Mean || !(got.Lo < got.Est && got.Est < got.Hi) {
		t.Errorf("mean %+v, want %g", got, s.TTFT.Mean)
	}
	if got := collect(30).Percentile("ttft", 99); !(got.Lo > 20) || !math.IsInf(got.Hi, 1) || !strings.Contains(got.Why, "p99 needs 368") {
		t.Errorf("30 requests: %+v", got)
	}
	if got := collect(30).Percentile("ttft", 1); !math.IsInf(got.Lo, -1) || !(got.Hi > 20) || got.Why == "" {
		t.Errorf("30 requests: %+v", got)
	}
	for name, got := range map[string]assay.Quantity{"no requests": collect(0).Percentile("ttft", 50), "no metric": c.Percentile("nonsense", 50), "no level": c.Percentile("ttft", 100)} {
		if got.Known() || got.Why == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
