package summary_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestCertificate(t *testing.T) {
	late := func(share int, by int64) func(*made) {
		return func(m *made) {
			for i := range m.requests {
				if i%100 < share {
					m.requests[i].Sent += by
				}
			}
		}
	}
	lags := func(us int64) func(*made) {
		return func(m *made) {
			m.manifest.Clock = assay.ClockUser
			m.readings = append(m.readings, assay.Reading{At: start, Source: "client", Name: "client_lag_us", Counts: []int64{20, 900, us, 100}})
		}
	}
	merged := func(n int) func(*made) {
		return func(m *made) {
			for i := range m.requests {
				m.requests[i].Reads = 100
				m.requests[i].MergedReads = n
			}
		}
	}
	counters := func(cpu, delay, suspended float64) func(*made) {
		return func(m *made) {
			for s := range int64(11) {
				m.read(start+s*second, "client_cpu_seconds_total", cpu*2*float64(s))
				m.read(start+s*second, "client_run_delay_seconds_total", delay*float64(s))
				m.read(start+s*second, "client_suspended_seconds_total", suspended*float64(s))
			}
		}
	}
	both := func(fs ...func(*made)) func(*made) {
		return func(m *made) {
			for _, f := range fs {
				f(m)
			}
		}
	}
	drop := func(n int, limit string) func(*made) {
		return func(m *made) {
			for i := range n {
				m.requests[i] = assay.Request{ID: fmt.Sprint("d", i), Stage: "c", Scheduled: start, Error: assay.FailNeverSent, Detail: "limit: " + limit}
			}
		}
	}
	for _, c := range []struct {
		name  string
		alter func(*made)
		want  assay.Certificate
		cause string
		bar   float64
	}{
		{"clean", func(*made) {}, assay.Certified, "", 0},
		{"few are late", late(1, 50*ms), assay.Certified, "", 0},
		{"2 % are 5 ms late", late(2, 5*ms), assay.DegradedBy, "", 5000},
		{"2 % are 5 ms late, starved", both(late(2, 5*ms), counters(0.2, 0.5, 0)), assay.DegradedBy, "cpu", 5000},
		{"2 % are 11 ms late", late(2, 11*ms), assay.Invalid, "cpu", 11000},
		{"throttled", both(late(50, 80*ms), counters(0.05, 0.1, 0.9)), assay.Invalid, "cpu", 80000},
		{"user clock, in time", lags(900), assay.Certified, "", 900},
		{"user clock, late", lags(5000), assay.DegradedBy, "", 5000},
		{"user clock, very late", lags(50_000), assay.Invalid, "cpu", 50000},
		{"user clock, not measured", func(m *made) { m.manifest.Clock = assay.ClockUser }, assay.DegradedBy, "", 0},
		{"kernel clock, late reads are only reported", both(lags(50_000), func(m *made) { m.manifest.Clock = assay.ClockKernel }), assay.Certified, "", 0},
		{"1 % of reads merged", merged(1), assay.Certified, "", 0},
		{"5 % of reads merged", merged(5), assay.DegradedBy, "", 0},
		{"20 % of reads merged", merged(20), assay.Invalid, "cpu", 0},
		{"one slot dropped", drop(1, "file_descriptors"), assay.DegradedBy, "file_descriptors", 0},
		{"many slots dropped", drop(100, "ports"), assay.Invalid, "ports", 0},
		{"never sent for the cap's sake", func(m *made) {
			for i := range 100 {
				m.requests[i] = assay.Request{ID: fmt.Sprint("d", i), Stage: "c", Scheduled: start, Error: assay.FailNeverSent, Detail: "the stage ended"}
			}
		}, assay.Certified, "", 0},
		{"a limit event", func(m *made) {
			m.events = append(m.events, assay.Event{At: start, Kind: assay.EventLimit, Data: map[string]float64{"memory": 1}})
		}, assay.DegradedBy, "memory", 0},
		{"a limit event for many requests", func(m *made) {
			m.events = append(m.events, assay.Event{At: start, Kind: assay.EventLimit, Data: map[string]float64{"file_descriptors": 400, "ports": 2}})
		}, assay.Invalid, "file_descriptors", 0},
	} {
		m := newMade()
		m.closed("c", 4, start, 50*second, second, 50*ms, 10*ms, 16)
		c.alter(m)
		got := of(t, m).Client
		if got.Certificate != c.want || got.Cause != c.cause || got.ErrorBarUS != c.bar {
			t.Errorf("%s: %s by %q, error bar %v; want %s by %q, %v; why %q", c.name, got.Certificate, got.Cause, got.ErrorBarUS, c.want, c.cause, c.bar, got.Why)
		}
		if (got.Certificate == assay.Certified) != (len(got.Why) == 0) {
			t.Errorf("%s: why %q", c.name, got.Why)
		}
	}
}

// A slow engine allows the client more: 1 % of its median TTFT.
func TestAllowedLagFollowsTTFT(t *testing.T) {
	m := newMade()
	m.closed("c", 4, start, 100*second, second, second/2, 10*ms, 2)
	for i := range m.requests {
		m.requests[i].Sent += 3 * ms
		m.requests[i].First += 3 * ms
	}
	got := of(t, m).Client
	if got.AllowedLagUS != 5000 || got.Certificate != assay.Certified {
		t.Errorf("allowed %v, %s", got.AllowedLagUS, got.Certificate)
	}
}

func TestClientReadings(t *testing.T) {
	m := newMade()
	m.closed("c", 4, start, 10*second, second, 50*ms, 10*ms, 16)
	for s, v := range []float64{3, 4, 5, 1, 2} { // a new process after the third
		m.read(start+int64(s)*second, "client_cpu_seconds_total", v)
		m.read(start+int64(s)*second, "client_resident_memory_bytes", 100-v)
	}
	got := of(t, m).Client
	if got.CPUSeconds == nil || *got.CPUSeconds != 4 || got.PeakRSSBytes == nil || *got.PeakRSSBytes != 99 || got.RunDelay != nil {
		t.Errorf("%+v", got)
	}
	near(t, "share of two cores", *got.CPUShare, 3.0/3/2, 1e-9)

	if got := of(t, newMade()).Client; got.Certificate != assay.NoClient || !strings.Contains(strings.Join(got.Why, ""), "nothing") {
		t.Errorf("a run that sent nothing: %+v", got)
	}
}
