package claims

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay"
)

func drawn(r *rand.Rand, n int, median float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = median * math.Exp(0.1*r.NormFloat64())
	}
	return out
}

func TestChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, c := range []struct {
		name          string
		before, after float64
		medians       []float64
		better        assay.Direction
		want          string
	}{
		{"slower is worse", 1, 1.2, []float64{1}, assay.Lower, "regressed"},
		{"faster is better", 1, 0.8, []float64{1}, assay.Lower, "improved"},
		{"more is better", 1, 1.2, []float64{1}, assay.Higher, "improved"},
		{"less is worse", 1, 0.8, []float64{1}, assay.Higher, "regressed"},
		{"neither way is better", 1, 1.2, []float64{1}, assay.Neither, "changed"},
		{"the same", 1, 1, []float64{1}, assay.Lower, "no change"},
		{"less than anyone asked for", 1, 1.04, []float64{1}, assay.Lower, "no change"},
		{"as far apart as runs are anyway", 1, 1.2, []float64{1.3, 0.9, 1}, assay.Lower, "no change"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := changed(drawn(r, 300, c.before), drawn(r, 300, c.after), c.medians, c.better.String())
			if got.Word != c.want || got.Why == "" {
				t.Errorf("%+v, want %s", got, c.want)
			}
		})
	}
	if got := changed([]float64{1, 2}, []float64{3, 4}, []float64{1}, "lower"); got.Word != "" || got.Why == "" {
		t.Errorf("too few: %+v", got)
	}
	if got := changed(make([]float64, 50), drawn(r, 50, 1), []float64{0}, "lower"); got.Word != "" {
		t.Errorf("zeros: %+v", got)
	}
}

// Two runs of the same are seldom called different, also when samples are
// correlated.
func TestChangedSeldomErrs(t *testing.T) {
	runs := experiments(500)
	wrong := 0
	for i := range runs {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		ar := func() []float64 {
			out, last := make([]float64, 5000), r.NormFloat64()
			for i := range out {
				last = 0.9*last + math.Sqrt(1-0.81)*r.NormFloat64()
				out[i] = math.Exp(0.3 * last)
			}
			return out
		}
		if changed(thinned(ar()), thinned(ar()), []float64{1e9}, "lower").Word != "no change" {
			wrong++
		}
	}
	if wrong > runs/50 {
		t.Errorf("%d of %d pairs of runs of the same were called different", wrong, runs)
	}
}

func TestHistoryRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	o := fixture(t)
	o.History, o.Samples = path, 1000
	file := claimLines("probe: f/x, metric: p50, target: <= 1s")
	for i, c := range []struct {
		value float64
		want  string
	}{{1e-3, ""}, {1e-3, "no change"}, {2e-3, "regressed"}, {1e-3, "no change"}, {0.5e-3, "no change"}, {10e-3, "regressed"}} {
		got := runFile(t, o, file, fake("f/x", around(c.value))).Probes[0].Change
		word := ""
		if got != nil {
			word = got.Word
		}
		if word != c.want {
			t.Errorf("run %d: %+v, want %q", i, got, c.want)
		}
	}
	// Another machine has no past here.
	o.Machine = named("another")
	if c := runFile(t, o, file, fake("f/x", around(1))).Probes[0].Change; c != nil {
		t.Errorf("another machine: %+v", c)
	}
	// Something that is no history is neither read nor overwritten.
	if err := os.WriteFile(path, []byte(`{"precious": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := runFile(t, o, file, fake("f/x", around(1e-3))); len(r.Notes) != 2 || r.Verdict != assay.Pass {
		t.Errorf("%v", r.Notes)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != `{"precious": true}` {
		t.Errorf("%s %v", b, err)
	}
}
