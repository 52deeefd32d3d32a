package assay

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestGapMarks(t *testing.T) {
	for _, us := range []int32{0, 1, 10_000, math.MaxInt32} {
		if got, marked := Gap(MarkGap(us)); got != us || !marked {
			t.Errorf("Gap(MarkGap(%d)) = %d, %v", us, got, marked)
		}
		if got, marked := Gap(us); got != us || marked {
			t.Errorf("Gap(%d) = %d, %v", us, got, marked)
		}
	}
}

func TestSendLagLeavesOutWhatIsNotTheClients(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Request
		want int64
	}{
		{"prompt", Request{Scheduled: 100, Eligible: 100, Sent: 107}, 7},
		{"held by the cap", Request{Scheduled: 100, Eligible: 900, Sent: 907}, 7},
		{"waited for a connection", Request{Scheduled: 100, Eligible: 200, Connect: 900, Sent: 907}, 7},
		{"never sent", Request{Scheduled: 100, Eligible: 200}, -1},
		{"clock jitter", Request{Scheduled: 100, Eligible: 100, Sent: 99}, 0},
	} {
		if got := c.r.SendLag(); got != c.want {
			t.Errorf("%s: send lag %d, want %d", c.name, got, c.want)
		}
	}
}

func TestMarksThatDidNotHappen(t *testing.T) {
	r := Request{Scheduled: 5, Sent: 10}
	for name, f := range map[string]func() (int64, bool){
		"ttft": r.TTFT, "ttft_intended": r.TTFTIntended, "ttfo": r.TTFO, "e2e": r.E2E, "e2e_intended": r.E2EIntended,
	} {
		if v, ok := f(); ok {
			t.Errorf("%s of a request without tokens is %d", name, v)
		}
	}
	if _, ok := r.TPOT(); ok {
		t.Error("tpot without tokens")
	}
	one := Request{Sent: 10, First: 20, Last: 20, OutputTokens: 1}
	if _, ok := one.TPOT(); ok {
		t.Error("tpot of a single token")
	}
}

func TestDistJSON(t *testing.T) {
	d := Dist{N: 100, Effective: 80, Mean: 1.5, Stddev: 0.25, Min: 1, Max: 3, Percentiles: []Percentile{
		{Level: 50, Value: 1.4, Lo: 1.3, Hi: 1.5},
		{Level: 99, Value: 2.9, Lo: math.NaN(), Hi: math.NaN(), Need: 368},
		{Level: 99.9, Value: 3, Lo: math.NaN(), Hi: math.NaN(), Need: 3688},
	}}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"n":100,"n_effective":80,"mean":1.5,"stddev":0.25,"min":1,"max":3,"p50":1.4,"p99":2.9,"p99.9":3,"ci95":{"p50":[1.3,1.5],"p99":{"interval":null,"needs_n":368,"why":"80 effective samples of 368 needed"},"p99.9":{"interval":null,"needs_n":3688,"why":"80 effective samples of 3688 needed"}}}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	var back Dist
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	// As it was written before 0.2.
	old := []byte(`{"n":100,"p99":2.9,"ci95":{"p99":{"needs_n":368}}}`)
	if err := json.Unmarshal(old, &back); err != nil || back.Percentiles[0].Held() || back.Percentiles[0].Need != 368 {
		t.Errorf("%+v, %v", back, err)
	}
	if b, _ := json.Marshal(Dist{}); string(b) != `{"n":0}` {
		t.Errorf("empty distribution: %s", b)
	}
}

func TestQuantityUnknownIsNull(t *testing.T) {
	b, err := json.Marshal(UnknownQuantity("no stage reached it"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"n":0,"estimate":null,"low":null,"high":null,"why":"no stage reached it"}`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
	var q Quantity
	if err := json.Unmarshal(b, &q); err != nil || q.Known() {
		t.Errorf("read back as known: %+v, %v", q, err)
	}
}

func TestVerdictZeroIsUnknown(t *testing.T) {
	var v Verdict
	if v != Unknown || v.String() != "unknown" {
		t.Errorf("zero verdict is %v", v)
	}
	if err := v.UnmarshalText([]byte("excellent")); err == nil {
		t.Error("an unknown name was accepted")
	}
}

func TestParseObjective(t *testing.T) {
	for in, want := range map[string]Objective{
		"ttft_p99<200ms":        {"ttft", "p99", 200},
		"tpot_mean <= 0.05s":    {"tpot", "mean", 50},
		"e2e_p99.9<1500":        {"e2e", "p99.9", 1500},
		"ttft_intended_p50<1ms": {"ttft_intended", "p50", 1},
		"error_rate<1%":         {"error_rate", "", 0.01},
		"error_rate<0.02":       {"error_rate", "", 0.02},
	} {
		got, err := ParseObjective(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", in, got, err, want)
			continue
		}
		if again, err := ParseObjective(got.String()); err != nil || again != got {
			t.Errorf("%q does not read back: %+v, %v", got, again, err)
		}
	}
	for _, in := range []string{"", "ttft<200ms", "ttft_p99>200ms", "ttft_p0<1ms", "ttft_p100<1ms", "ttft_p99<0", "ttft_p99<x", "tps_p99<2ms", "error_rate<x%"} {
		if got, err := ParseObjective(in); err == nil {
			t.Errorf("%q was accepted as %+v", in, got)
		}
	}
}

func TestParseLimit(t *testing.T) {
	if l, err := ParseLimit("e2e:1500.5"); err != nil || l != (Limit{"e2el", 1500.5}) {
		t.Errorf("%+v, %v", l, err)
	}
	for _, in := range []string{"", "ttft", "ttft:", "ttft:-1", "ttft:0", "itl:5", "ttft:1.2.3"} {
		if l, err := ParseLimit(in); err == nil {
			t.Errorf("%q was accepted as %+v", in, l)
		}
	}
}

func TestMetricsTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		if m.Name == "" || m.Unit == "" || m.Help == "" {
			t.Errorf("incomplete: %+v", m)
		}
		if seen[m.Name] {
			t.Errorf("%s twice", m.Name)
		}
		seen[m.Name] = true
	}
	for figure, want := range map[string]string{"ttft_ms": "ttft_ms", "ttft_ms_p99": "ttft_ms", "e2e_ms_mean": "e2e_ms", "error_rate": "error_rate", "error": "", "": "", "p99": ""} {
		if m, ok := MetricOf(figure); m.Name != want || ok != (want != "") {
			t.Errorf("%q is a figure of %q, %v; want %q", figure, m.Name, ok, want)
		}
	}
}
