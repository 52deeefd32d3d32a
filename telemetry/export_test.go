package telemetry

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
)

func exportFixture(dcgm bool) (*Export, *time.Time) {
	now := time.Unix(1_700_000_000, 0)
	e := NewExport(ExportOptions{DCGM: dcgm, Hostname: "node-7", Now: func() time.Time { return now }, GPUs: []assay.GPU{
		{UUID: "GPU-1", Index: 0, Name: `NVIDIA "H100"`, PCIBusID: "00000000:19:00.0"},
	}})
	put := func(source, name, device string, v float64) {
		e.Reading(assay.Reading{Source: source, Name: name, Device: device, Value: &v})
	}
	put("nvml", assay.GPUUtilization, "GPU-1", 0.98)
	put("nvml", assay.GPUMemoryUsed, "GPU-1", 77210<<20)
	put("nvml", assay.GPUEnergy, "GPU-1", 129931554.972)
	put("nvml", assay.GPUSMClock, "GPU-1", 1755e6)
	put("nvml", assay.GPUPowerCapSeconds, "GPU-1", 1.5)
	put("nvml", assay.GPUTemperature, "GPU-2\n\"\\\xff", 50)
	put("host", assay.HostCPU, "", 0.5)
	put("host", assay.HostCPU, "cpu0", 0.75)
	put("client", "client_cpu_seconds_total", "", 12.5)
	put("evil", "no name\n", "", 1)
	put("evil", assay.GPUPower, "GPU-1", math.NaN())
	e.Reading(assay.Reading{Source: "client", Name: "client_lag", Counts: []int64{1, 2}})
	return e, &now
}

func fetchPage(t *testing.T, e *Export) string {
	t.Helper()
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	return w.Body.String()
}

func TestExport(t *testing.T) {
	e, now := exportFixture(true)
	p50, p99 := 41.5, 97.25
	e.Checkpoint(assay.Checkpoint{Status: assay.StatusRunning, Stage: "sweep-8", StageN: 2, StageOf: 5, ElapsedNS: 12_500_000_000,
		Sent: 100, Done: 92, InFlight: 8, Errors: map[assay.Failure]int{"timeout": 3}, RequestRate: 4.5, TokenRate: 900, TTFTp50: &p50, TTFTp99: &p99})
	page := fetchPage(t, e)
	golden(t, "testdata/export.golden", page)
	got := map[string]float64{}
	order := map[string]int{}
	last := ""
	err := parseText(strings.NewReader(page), all, func(s sample) {
		if s.name != last {
			order[s.name]++
			last = s.name
		}
		key := s.name
		for _, l := range s.labels {
			key += " " + l.name + "=" + l.value
		}
		if _, twice := got[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		got[key] = s.value
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range order {
		if n > 1 {
			t.Errorf("the lines of %s are not together", name)
		}
	}
	gpu := " gpu=0 UUID=GPU-1 modelName=NVIDIA \"H100\" Hostname=node-7"
	dcgm := " gpu=0 UUID=GPU-1 pci_bus_id=00000000:19:00.0 device=nvidia0 modelName=NVIDIA \"H100\" Hostname=node-7"
	for key, v := range map[string]float64{
		"assay_gpu_utilization_ratio source=nvml device=GPU-1" + gpu:        0.98,
		"assay_gpu_temperature_celsius source=nvml device=GPU-2 \"\\\uFFFD": 50,
		"assay_host_cpu_utilization_ratio source=host":                      0.5,
		"assay_host_cpu_utilization_ratio source=host device=cpu0":          0.75,
		"assay_client_cpu_seconds_total source=client":                      12.5,
		"DCGM_FI_DEV_GPU_UTIL" + dcgm:                                       98,
		"DCGM_FI_DEV_FB_USED" + dcgm:                                        77210,
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" + dcgm:                       129931554972,
		"DCGM_FI_DEV_SM_CLOCK" + dcgm:                                       1755,
		"DCGM_FI_DEV_POWER_VIOLATION" + dcgm:                                1.5e9,
		"assay_run_ttft_seconds quantile=0.99":                              0.09725,
		"assay_run_requests_failed class=timeout":                           3,
		"assay_run_info status=running stage=sweep-8":                       1,
		"assay_run_elapsed_seconds":                                         12.5,
	} {
		if have, ok := got[key]; !ok || !(math.Abs(have-v) <= 1e-9*math.Abs(v)) {
			t.Errorf("%s is %v (%v), want %v", key, have, ok, v)
		}
	}
	if strings.Contains(page, "no name") || strings.Contains(page, "power_watts") {
		t.Error("what is no reading was exported")
	}
	for _, line := range []string{"# TYPE assay_gpu_energy_joules_total counter\n", "# TYPE assay_gpu_utilization_ratio gauge\n", "# HELP assay_gpu_power_watts"} {
		if strings.Contains(page, line) == strings.Contains(line, "power_watts") {
			t.Errorf("about %q", line)
		}
	}
	// Stale is absent; the run's state stays.
	*now = now.Add(4 * time.Second)
	if !strings.Contains(fetchPage(t, e), "assay_gpu_utilization_ratio") {
		t.Error("four seconds are not stale")
	}
	*now = now.Add(2 * time.Second)
	page = fetchPage(t, e)
	if strings.Contains(page, "assay_gpu_") || strings.Contains(page, "DCGM_") || !strings.Contains(page, "assay_run_info") {
		t.Errorf("after six seconds:\n%s", page)
	}
}

func TestExportWithoutDCGMNames(t *testing.T) {
	e, _ := exportFixture(false)
	if page := fetchPage(t, e); strings.Contains(page, "DCGM_") || strings.Contains(page, "assay_run_") {
		t.Errorf("%s", page)
	}
}

// What we export as DCGM names, our own DCGM source reads back.
func TestExportReadsBack(t *testing.T) {
	e, _ := exportFixture(true)
	srv := httptest.NewServer(e)
	defer srv.Close()
	d, err := NewDCGM(t.Context(), DCGMOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const want = `GPU-1 gpu_energy_joules_total 129931555
GPU-1 gpu_memory_used_bytes 8.096055296e+10
GPU-1 gpu_sm_clock_hertz 1755000000
GPU-1 gpu_throttled_sw_power_cap_seconds_total 1.5
GPU-1 gpu_utilization_ratio 0.98
`
	if got := lines(collect(t, d)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestExportRefusesWrites(t *testing.T) {
	e, _ := exportFixture(false)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("%d", w.Code)
	}
}

// Prometheus's own opinion of the page: it reads it, and has nothing to say
// against a name, a type or a help text. That modelName is in camel case is
// DCGM's doing, whose labels these are, so that dashboards find them.
func TestExportPromtool(t *testing.T) {
	tool := os.Getenv("ASSAY_PROMTOOL")
	if tool == "" {
		parttest.Need(t, "ASSAY_PROMTOOL is not set: .ci/parts/promtool prints the path")
	}
	check := func(page string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), tool, "check", "metrics")
		cmd.Stdin = strings.NewReader(page)
		return cmd.CombinedOutput()
	}
	e, _ := exportFixture(false)
	out, err := check(fetchPage(t, e))
	if code := new(exec.ExitError); err != nil && !(errors.As(err, &code) && code.ExitCode() == 3) {
		t.Fatalf("%v:\n%s", err, out) // 3: read, and something to say
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasSuffix(line, "label names should be written in 'snake_case' not 'camelCase'\n") {
			t.Errorf("promtool: %s", line)
		}
	}
	for name, page := range map[string]string{
		"a line that is none":   "assay_up one\n",
		"a metric without help": "# TYPE assay_up gauge\nassay_up 1\n",
	} {
		if out, err := check(page); err == nil {
			t.Errorf("promtool passes %s: this test cannot fail\n%s", name, out)
		}
	}
}
