package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// serve gives a page's address; the page can be changed.
func serve(t testing.TB, file string) (string, *atomic.Pointer[string]) {
	t.Helper()
	b, err := os.ReadFile("testdata/metrics/" + file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	var page atomic.Pointer[string]
	page.Store(&text)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(*page.Load()))
	}))
	t.Cleanup(srv.Close)
	return srv.URL, &page
}

func TestEngines(t *testing.T) {
	tests := map[string]struct{ kind, want string }{
		"vllm.txt": {"vllm", `- engine_generation_tokens_total 500000
- engine_kv_cache_usage_ratio 0.9375
- engine_preemptions_total 4
- engine_prompt_tokens_total 2750000
- engine_requests_running 64
- engine_requests_waiting 7
- engine_resident_memory_bytes 1079730176
- engine_start_time_seconds 1763190042
`},
		"vllm-old.txt": {"vllm", `- engine_kv_cache_usage_ratio 0.05
- engine_requests_running 2
- engine_requests_waiting 0
`},
		"sglang.txt": {"sglang", `- engine_generation_tokens_total 7557572
- engine_kv_cache_usage_ratio 0.28
- engine_preemptions_total 3
- engine_prompt_tokens_total 8128902
- engine_requests_running 162
- engine_requests_waiting 2826
`},
		"tgi.txt": {"tgi", `- engine_generation_tokens_total 9120
- engine_prompt_tokens_total 20480
- engine_requests_running 24
- engine_requests_waiting 5
`},
		"llamacpp.txt": {"llama.cpp", `- engine_generation_tokens_total 8
- engine_prompt_tokens_total 7
- engine_requests_running 0
- engine_requests_waiting 0
`},
	}
	for file, tt := range tests {
		t.Run(file, func(t *testing.T) {
			url, _ := serve(t, file)
			for _, suffix := range []string{"", "/", "/v1", "/v1/"} {
				e, err := NewEngine(t.Context(), EngineOptions{URL: url + suffix})
				if err != nil {
					t.Fatal(err)
				}
				if got := lines(collect(t, e)); got != tt.want || e.Kind() != tt.kind {
					t.Errorf("%s: %s\n%s\nwant %s\n%s", suffix, e.Kind(), got, tt.kind, tt.want)
				}
				if again := collect(t, e); len(again) > 0 {
					t.Errorf("asked twice within a second: %v", lines(again))
				}
				e.Close()
			}
		})
	}
}

func TestEngineWithoutMetrics(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/plain/metrics":
			fmt.Fprint(w, "process_resident_memory_bytes 1\ngo_goroutines 7\n")
		case "/html/metrics":
			fmt.Fprint(w, "<html>not here</html>")
		case "/away/metrics":
			http.Redirect(w, r, "/good/metrics", http.StatusFound)
		case "/good/metrics":
			fmt.Fprint(w, "vllm:num_requests_running 1\n")
		case "/hang/metrics":
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	}))
	defer other.Close()
	for _, path := range []string{"", "/plain", "/html", "/away", "/hang"} {
		began := time.Now()
		if _, err := NewEngine(t.Context(), EngineOptions{URL: other.URL + path, Timeout: 100 * time.Millisecond}); !errors.Is(err, ErrNoMetrics) || time.Since(began) > 5*time.Second {
			t.Errorf("%q after %v: %v", path, time.Since(began), err)
		}
	}
	if _, err := NewEngine(t.Context(), EngineOptions{URL: "file:///etc/passwd"}); err == nil {
		t.Error("a file was read")
	}
}

func TestDCGM(t *testing.T) {
	url, page := serve(t, "dcgm.txt")
	d, err := NewDCGM(t.Context(), DCGMOptions{URL: url + "/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const a, b = "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52", "GPU-06357e72-c3ee-614b-775f-a89e18e8cc08"
	gpus := d.GPUs()
	if len(gpus) != 2 || gpus[0] != (assay.GPU{UUID: a, Name: "NVIDIA H100 80GB HBM3", Source: "dcgm", PCIBusID: "00000000:19:00.0", Driver: "550.127.05"}) || gpus[1].Index != 1 {
		t.Errorf("%+v", gpus)
	}
	got := map[string]float64{}
	read := func() {
		d.page.next = time.Time{}
		clear(got)
		for _, r := range collect(t, d) {
			got[r.Device[:8]+" "+r.Name] = *r.Value
		}
	}
	read()
	want := map[string]float64{
		"GPU-604a gpu_sm_clock_hertz": 1755e6, "GPU-604a gpu_temperature_celsius": 62, "GPU-604a gpu_power_watts": 655.1,
		"GPU-604a gpu_energy_joules_total": 129931554.972, "GPU-604a gpu_utilization_ratio": 0.98, "GPU-604a gpu_memory_used_bytes": 77210 << 20,
		"GPU-604a gpu_throttled_sw_power_cap": 1, "GPU-604a gpu_throttled_hw_thermal": 0,
		"GPU-0635 gpu_sm_clock_hertz": 345e6, "GPU-0635 gpu_memory_used_bytes": 1500 << 20,
	}
	for name, v := range want {
		if have, ok := got[name]; !ok || !(have >= v*(1-1e-9) && have <= v*(1+1e-9)) {
			t.Errorf("%s is %v (%v), want %v", name, have, ok, v)
		}
	}
	for _, name := range []string{"GPU-0635 gpu_power_watts", "GPU-604a gpu_xid", "GPU-0635 gpu_xid"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %v, should be absent", name, v)
		}
	}
	// An XID that comes is one reading, not one a second.
	text := strings.Replace(*page.Load(), `Hostname="node-7"} 0`+"\n", `Hostname="node-7"} 31`+"\n", 1)
	page.Store(&text)
	read()
	if got["GPU-604a gpu_xid"] != 31 {
		t.Errorf("the XID is %v", got["GPU-604a gpu_xid"])
	}
	read()
	if v, ok := got["GPU-604a gpu_xid"]; ok {
		t.Errorf("the XID came again: %v", v)
	}
}

func TestDCGMBlanks(t *testing.T) {
	for _, v := range []float64{0x7ffffff0, 0x7ffffff3, 9223372036854775792, 9223372036854775794, 140737488355328, 140737488355330} {
		if !blank(v) {
			t.Errorf("%v is no value", v)
		}
	}
	for _, v := range []float64{0, 700, 1e9, 140737488355344, 2147483648} {
		if blank(v) {
			t.Errorf("%v is a value", v)
		}
	}
}

// The engine that is really there, when the environment names one.
func TestEngineRealLlamaCpp(t *testing.T) {
	url := os.Getenv("ASSAY_LLAMACPP_URL")
	if url == "" {
		part(t, errors.New("ASSAY_LLAMACPP_URL is not set"), "a llama.cpp server")
	}
	ask := func() float64 {
		e, err := NewEngine(t.Context(), EngineOptions{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if e.Kind() != "llama.cpp" {
			t.Errorf("it is taken for %s", e.Kind())
		}
		got := map[string]float64{}
		for _, r := range collect(t, e) {
			got[r.Name] = *r.Value
		}
		for _, name := range []string{assay.EngineRunning, assay.EngineWaiting, assay.EnginePromptTokens, assay.EngineOutputTokens} {
			if _, ok := got[name]; !ok {
				t.Errorf("%s is absent", name)
			}
		}
		return got[assay.EngineOutputTokens]
	}
	before := ask()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(url, "/")+"/v1/chat/completions",
		strings.NewReader(`{"messages":[{"role":"user","content":"count"}],"max_tokens":8}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if after := ask(); after > before {
			return
		} else if time.Now().After(end) {
			t.Fatalf("its tokens were %v before and %v after a request", before, after)
		}
	}
}
