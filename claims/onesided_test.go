package claims

import (
	"math"
	"testing"

	"github.com/assay-bench/assay"
)

// A promise is on one side: samples too few for an interval can still break it,
// by the end that they have, and never keep it.
func TestAPromiseFarBrokenNeedsOneEndOnly(t *testing.T) {
	for _, c := range []struct {
		n     int
		value float64
		want  assay.Verdict
	}{{15, 500, assay.Fail}, {15, 5, assay.Unknown}, {1, 500, assay.Unknown}, {100, 5, assay.Pass}} {
		s := &samples{}
		for i := range c.n {
			s.values = append(s.values, c.value+float64(i*7%5))
		}
		q := estimator{}.percentile(95, s)
		target := Target{Op: "<=", Value: 100}
		if got := target.Judge(q); got != c.want {
			t.Errorf("%d samples of %g: %s, want %s: %+v", c.n, c.value, got, c.want, q)
		}
		if few := c.n < 72; few && (q.Why == "" || !math.IsInf(q.Hi, 1) && !math.IsNaN(q.Hi)) {
			t.Errorf("%d samples have an upper end: %+v", c.n, q)
		}
	}
}
