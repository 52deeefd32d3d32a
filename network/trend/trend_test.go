package trend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// The heights of the table are those that independent values exceed as often as it
// says, whatever their distribution.
func TestRunLengths(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 44))
	const runs = 150
	for _, row := range runLengths[:2] {
		steps := 0
		for range runs {
			var w window
			for range Default().MinPoints {
				w.add(student3(rng))
			}
			for z := 0.0; z <= row.height; steps++ {
				w.add(student3(rng))
				z = w.split()
			}
		}
		if got := float64(steps) / runs; !(math.Abs(got/row.reports-1) <= 0.25) {
			t.Errorf("%g is exceeded after %.0f reports, and the table says %g", row.height, got, row.reports)
		}
	}
	if a, b := threshold(1000), threshold(1e6); !(a > 3.25 && a < 3.5 && b > 5 && b < 5.5) {
		t.Errorf("thresholds %g and %g", a, b)
	}
}

// steady is a history without a fault.
func steady(rng *rand.Rand, n int, config string) []Point {
	var out []Point
	for i := range n {
		out = append(out, Point{At: epoch.Add(time.Duration(i) * 6 * time.Hour), Value: 1000 * math.Exp(0.01*student3(rng)), Report: fmt.Sprint("r", i), Config: config})
	}
	return out
}

func TestUnknownIsAnAnswer(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 44))
	short := steady(rng, 10, "a")
	for i := 5; i < 10; i++ {
		short[i].Value /= 2
	}
	if v := Changes(Throughput, short, Default()); len(v.Changes) != 0 || !strings.Contains(v.Unknown, "24 are needed") {
		t.Errorf("of ten reports: %+v", v)
	}
	if v := Changes(Throughput, nil, Default()); v.Unknown == "" {
		t.Error("of no report there is an answer")
	}
	if a := AgainstPeers(Throughput, []float64{1, 1, 1, 1, 1}, make([]Peer, 7), Default()); a.Unknown == "" || a.Outlier {
		t.Errorf("of peers without values: %+v", a)
	}
	if f := Findings(Look{Node: "n", History: map[string][]Point{Throughput: short}}, Default()); len(f) != 0 {
		t.Errorf("found %+v", f)
	}
}

// A change of configuration begins a new series: half the speed with another engine
// is no change.
func TestAnotherConfigurationIsNoChange(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 44))
	h := steady(rng, 200, "a")
	for i := 100; i < 200; i++ {
		h[i].Value /= 2
	}
	if v := Changes(Throughput, Latest(h), Default()); len(v.Changes) != 1 || !(math.Abs(v.Changes[0].Shift+0.5) <= 0.02) || v.Changes[0].Drift {
		t.Fatalf("the same configuration: %+v", v)
	}
	for i := 100; i < 200; i++ {
		h[i].Config = "b"
	}
	if s := Latest(h); len(s) != 100 || len(Changes(Throughput, s, Default()).Changes) != 0 {
		t.Errorf("%d points of another configuration: %+v", len(s), Changes(Throughput, s, Default()))
	}
}

// A latency that rises is worse, and one that falls is no loss.
func TestDirections(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 44))
	for _, c := range []struct {
		metric string
		factor float64
		loss   bool
	}{{TTFT, 1.1, true}, {TTFT, 0.9, false}, {Throughput, 0.9, true}, {Throughput, 1.1, false}} {
		h := steady(rng, 120, "a")
		for i := 100; i < 120; i++ {
			h[i].Value *= c.factor
		}
		v := Changes(c.metric, h, Default())
		if len(v.Changes) != 1 || v.Changes[0].Loss >= Default().MinLoss != c.loss || v.Changes[0].Shift < 0 != c.loss {
			t.Errorf("%s × %g: %+v", c.metric, c.factor, v.Changes)
		}
		// What is told comes with the report that shows it, and with no other.
		told := 0
		for n := 1; n <= len(h); n++ {
			for _, f := range Findings(Look{Node: "n", History: map[string][]Point{c.metric: h[:n]}}, Default()) {
				told++
				if f.Kind != KindDrop || f.Subject != "node n" || len(f.Reports) < minSide || f.Low == nil || !(f.Shift < 0) || f.Text == "" {
					t.Errorf("finding %+v", f)
				}
			}
		}
		if (told == 1) != c.loss || told > 1 {
			t.Errorf("%s × %g was told %d times", c.metric, c.factor, told)
		}
	}
}

// batch makes peers with two VBIOS versions, of which the second is slower.
func batch(rng *rand.Rand, nodes, bad int, loss float64) (out []Peer) {
	for i := range nodes {
		p := Peer{Node: fmt.Sprint("n", i), Report: fmt.Sprint("r", i), Value: 1000 * math.Exp(0.015*rng.NormFloat64()+0.015*student3(rng)), Traits: map[string]string{
			"vbios": "a", "driver": fmt.Sprint("d", rng.IntN(3)), "serial": fmt.Sprint("s", rng.IntN(6)), "engine version": "1",
		}}
		if i < bad {
			p.Traits["vbios"] = "b"
			p.Value *= 1 - loss
		}
		out = append(out, p)
	}
	return out
}

// One bad batch among nodes that share other traits is named by what it shares, and
// networks without one have none.
func TestBatches(t *testing.T) {
	t.Parallel()
	looks := 600
	if long() {
		looks = 20_000
	}
	rng := rand.New(rand.NewPCG(7, 44))
	found, wrong, none := 0, 0, 0
	for range looks / 10 {
		list := Batches(Throughput, batch(rng, 60, 8, 0.06), Default())
		if len(list) > 0 && list[0].Trait == "vbios" && list[0].Value == "b" {
			found++
		} else if len(list) > 0 {
			wrong++
		}
	}
	for range looks {
		none += len(Batches(Throughput, batch(rng, 60, 8, 0), Default()))
	}
	t.Logf("seed 7: a batch of 8 among 60 that is 6 %% slower: named in %d of %d looks, another in %d; of %d looks without one, %d named one", found, looks/10, wrong, looks, none)
	if found < looks/10*6/10 || wrong > looks/10/20 || float64(none) > float64(looks)*Default().GroupLevel+3 {
		t.Errorf("named %d of %d, %d others, %d where there was none", found, looks/10, wrong, none)
	}
	if got := Batches(Throughput, batch(rng, 9, 2, 0.5), Default()); len(got) != 0 {
		t.Errorf("two nodes are no batch: %+v", got)
	}
}

// One slow node is an outlier among its peers, and a usual one is not.
func TestOutlier(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 44))
	peers := batch(rng, 20, 0, 0)
	own := []float64{850, 852, 848, 851, 849}
	if a := AgainstPeers(Throughput, own, peers, Default()); !a.Outlier || !(math.Abs(a.Shift+0.15) <= 0.02) {
		t.Errorf("%+v", a)
	}
	if a := AgainstPeers(Throughput, []float64{985, 990, 995, 1000, 1005}, peers, Default()); a.Outlier {
		t.Errorf("%+v", a)
	}
	look := Look{Node: "n", Peers: map[string][]Peer{Throughput: peers}, History: map[string][]Point{}}
	for i, v := range own {
		look.History[Throughput] = append(look.History[Throughput], Point{At: epoch.Add(time.Duration(i) * time.Hour), Value: v, Report: fmt.Sprint(i)})
	}
	if f := Findings(look, Default()); len(f) != 1 || f[0].Kind != KindOutlier || len(f[0].Reports) != 5 {
		t.Errorf("%+v", f)
	}
}

func TestHolds(t *testing.T) {
	level := func(streams, ttft float64) Level {
		return Level{Streams: streams, Tokens: 10 * streams, Values: map[string]float64{"ttft_p99": ttft, "error_rate": 0}}
	}
	slo, err := ParseSLO("ttft_p99<200ms, error_rate<1%")
	if err != nil {
		t.Fatal(err)
	}
	levels := []Level{level(16, 190), level(4, 80), level(32, 400), level(64, 150)}
	if l, ok := Holds(levels, slo); !ok || l.Streams != 16 {
		t.Errorf("beyond a load that broke the limit nothing counts: %+v, %v", l, ok)
	}
	if l, ok := Holds(levels[2:3], slo); !ok || l.Streams != 0 {
		t.Errorf("it holds nothing: %+v, %v", l, ok)
	}
	slo, err = ParseSLO("tpot_p50<20ms")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := Holds(levels, slo); ok {
		t.Error("nobody measured it")
	}
	for _, wrong := range []string{"ttft_p99.9<1ms", "fast", "ttft_p99<200ms,"} {
		if _, err := ParseSLO(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	sum := assay.Summary{Stages: []assay.StageSummary{{Complete: true, SteadyFrom: 1, SteadyTo: 2, OK: 10, RequestsPerSecond: 2, OutputTokensPerSecond: 100, E2E: assay.Dist{Mean: 4000}}, {Complete: false, OK: 1}}}
	if l := LevelsOf(sum); len(l) != 1 || l[0].Streams != 8 {
		t.Errorf("levels %+v", l)
	}
}
