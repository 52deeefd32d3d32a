package telemetry

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/child"
	"github.com/assay-bench/assay/internal/nvml/nvmltest"
)

// factory makes one kind of source for the suite. Each function gives a new
// one; nil: this kind has no such case.
type factory struct {
	name string
	// well has something behind it that answers.
	well makeSource
	// hangs has something behind it that was well and then stops answering.
	hangs makeSource
	// hostile have something behind them that lies.
	hostile map[string]makeSource
	// absent are names that well must not give, since nothing says them.
	absent []string
	// own: its names are those of docs/formats/run.md, not of the table.
	own bool
}

// makeSource makes a source that waits so long for what is behind it.
type makeSource func(t *testing.T, deadline time.Duration) Source

// impatience is the deadline of what must not answer. It is long enough for the
// making of the source, in which what is behind it does answer.
const impatience = time.Second

func must[S Source](s S, err error) func(*testing.T) Source {
	return func(t *testing.T) Source {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func nvmlOf(scenario string, more ...string) makeSource {
	return func(t *testing.T, deadline time.Duration) Source {
		return newStub(t, nvmltest.Today, nvmltest.Scenario(t, scenario, more...), ChildOptions{Deadline: deadline})
	}
}

func smiOf(query string) makeSource {
	return func(t *testing.T, deadline time.Duration) Source {
		path := fakeSMI(t, "rtx-4090-535")
		if query != "" {
			path = scriptSMI(t, "rtx-4090-535", query)
		}
		gpus, err := DescribeSMI(t.Context(), SMIOptions{Path: path, Deadline: patience})
		if err != nil {
			t.Fatal(err)
		}
		return startSMI(t.Context(), gpus, SMIOptions{Path: path, Interval: 20 * time.Millisecond, Deadline: deadline})
	}
}

func amdOf(archive string, change func(t *testing.T, root string)) makeSource {
	return func(t *testing.T, deadline time.Duration) Source {
		root := tree(t, "testdata/amdgpu/"+archive+".txtar")
		s, err := NewAMDGPU(t.Context(), AMDGPUOptions{SysRoot: root, Deadline: deadline})
		if change != nil {
			change(t, root)
		}
		return must(s, err)(t)
	}
}

func hostOf(change func(t *testing.T, root string)) makeSource {
	return func(t *testing.T, deadline time.Duration) Source {
		root := tree(t, "testdata/host/small.txtar")
		if change != nil {
			change(t, root)
		}
		s, err := NewHost(HostOptions{ProcRoot: root + "/proc", SysRoot: root + "/sys", Deadline: deadline})
		return must(s, err)(t)
	}
}

// hangFile puts a file in place whose opening blocks.
func hangFile(name string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(file, 0o644); err != nil {
			t.Skipf("no file that hangs: %v", err)
		}
		t.Cleanup(func() { // let go what hangs there
			if w, err := os.OpenFile(file, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				w.Close()
			}
		})
	}
}

func overwrite(name, text string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// pageOf serves a fixture first and then what answer says.
func pageOf(file string, answer http.HandlerFunc, source func(t *testing.T, url string, deadline time.Duration) (Source, error)) makeSource {
	return func(t *testing.T, deadline time.Duration) Source {
		b, err := os.ReadFile("testdata/metrics/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int32
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 1 || answer == nil {
				_, _ = w.Write(b)
				return
			}
			answer(w, r)
		}))
		t.Cleanup(srv.Close)
		s, err := source(t, srv.URL, deadline)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func dcgmAt(t *testing.T, url string, deadline time.Duration) (Source, error) {
	return NewDCGM(t.Context(), DCGMOptions{URL: url + "/metrics", Timeout: deadline})
}

func engineAt(t *testing.T, url string, deadline time.Duration) (Source, error) {
	return NewEngine(t.Context(), EngineOptions{URL: url, Timeout: deadline})
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// lies are answers that no page should give, with the names that are looked for.
func lies(series ...string) map[string]http.HandlerFunc {
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s)) }
	}
	out := map[string]http.HandlerFunc{
		"nothing": text(""), "html": text("<html><body>502</body></html>"), "binary": text("\x00\xff\x80{\x01"),
		"503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"goes": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"endless": func(w http.ResponseWriter, r *http.Request) {
			line := []byte(strings.Repeat("x 1\n", 4096))
			for r.Context().Err() == nil {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		},
		"slow": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte("x"))
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		},
	}
	for _, value := range []string{"NaN", "+Inf", "-Inf", "-1", "1e308", "x", "", "9223372036854775794"} {
		var b strings.Builder
		for _, s := range series {
			b.WriteString(s + " " + value + "\n")
		}
		out["value "+value] = text(b.String())
	}
	return out
}

func hostilePages(file string, series []string, source func(t *testing.T, url string, deadline time.Duration) (Source, error)) map[string]makeSource {
	out := map[string]makeSource{}
	for name, answer := range lies(series...) {
		out[name] = pageOf(file, answer, source)
	}
	return out
}

func factories() []factory {
	gpu := `{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52"}`
	return []factory{
		{name: "client", own: true, well: func(*testing.T, time.Duration) Source { return NewClient() }},
		{name: "nvml", well: nvmlOf("normal"), hangs: nvmlOf("hang", "scale 10"),
			absent:  []string{assay.GPUXID},
			hostile: map[string]makeSource{"driver": nvmlOf("hostile", "scale 10")}},
		{name: "nvidia-smi", well: smiOf(""), hangs: smiOf("sleep 600"),
			absent: []string{assay.GPUEnergy, assay.GPUXID, assay.GPUECCCorrected, assay.GPUMemoryTemperature},
			hostile: map[string]makeSource{
				"binary":  smiOf("head -c 100000 /dev/urandom; sleep 600"),
				"endless": smiOf("yes"),
				"commas":  smiOf(`yes "$(printf ',%.0s' $(seq 200))"`),
				"numbers": smiOf(`n=$(echo "$columns" | tr ',' '\n' | wc -l); yes "$(awk -v n="$n" -v id="$(sed -n 's:.*<uuid>\(.*\)</uuid>.*:\1:p' "$xml" | head -1)" 'BEGIN { printf "0, %s", id; for (i = 3; i <= n; i++) printf ", -999999999999999999999"; print "" }')"`),
			}},
		{name: "amdgpu", well: amdOf("mi300x", nil), hangs: amdOf("mi300x", hangFile("class/drm/card1/device/gpu_busy_percent")),
			absent: []string{assay.GPUEnergy, assay.GPUThrottledHWThermal, assay.GPUFanSpeed},
			hostile: map[string]makeSource{
				"garbage": amdOf("garbage", nil),
				"huge":    amdOf("igpu", overwrite("class/drm/card0/device/gpu_busy_percent", strings.Repeat("9", 1<<20))),
				"binary":  amdOf("igpu", overwrite("class/drm/card0/device/pp_dpm_sclk", "\x00\xff: \x80Mhz *\n")),
			}},
		{name: "xe", well: xeOf(nil), hangs: xeOf(hangFile("class/drm/card1/device/hwmon/hwmon4/temp2_input")),
			absent: []string{assay.GPUPower, assay.GPUUtilization},
			hostile: map[string]makeSource{
				"huge":   xeOf(overwrite("class/drm/card1/device/hwmon/hwmon4/energy1_input", strings.Repeat("9", 1<<20))),
				"binary": xeOf(overwrite("class/drm/card1/device/tile0/gt0/freq0/act_freq", "\x00\xff\n")),
			}},
		{name: "dcgm", well: pageOf("dcgm.txt", nil, dcgmAt), hangs: pageOf("dcgm.txt", hangs, dcgmAt),
			absent:  []string{assay.GPUXID, assay.GPULost, assay.GPUMemoryTotal},
			hostile: hostilePages("dcgm.txt", []string{"DCGM_FI_DEV_GPU_UTIL" + gpu, "DCGM_FI_DEV_XID_ERRORS" + gpu, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" + gpu, "DCGM_FI_DEV_FB_USED" + gpu}, dcgmAt)},
		{name: "host", well: hostOf(nil), hangs: hostOf(hangFile("proc/stat")),
			absent: []string{assay.HostPressureMemory},
			hostile: map[string]makeSource{
				"stat":   hostOf(overwrite("proc/stat", "cpu\ncpu0 x\n\x00")),
				"memory": hostOf(overwrite("proc/meminfo", "MemTotal: -5 kB\nMemFree: 99999999999999999999 kB\n")),
				"disks":  hostOf(overwrite("proc/diskstats", "259 0 nvme0n1 x\n259 0\n")),
				"net":    hostOf(overwrite("proc/net/dev", "eth0: -1 2\nx\n:\n")),
			}},
		{name: "engine", well: pageOf("vllm.txt", nil, engineAt), hangs: pageOf("vllm.txt", hangs, engineAt),
			hostile: hostilePages("vllm.txt", []string{"vllm:num_requests_running", "vllm:kv_cache_usage_perc", "process_start_time_seconds"}, engineAt)},
	}
}

// Every source keeps the same promises.
func TestSourcesConform(t *testing.T) {
	units := newFilter().unit
	check := func(t *testing.T, f factory) func(assay.Reading) {
		return func(r assay.Reading) {
			if r.Value == nil {
				t.Errorf("%s has no value", r.Name)
				return
			}
			v := *r.Value
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s is %v", r.Name, v)
			}
			if f.own {
				return
			}
			unit, known := units[r.Name]
			if _, ok := plausible(r.Name, unit, v); !known || !ok {
				t.Errorf("%s (in the table: %v) is %v %s", r.Name, known, v, unit)
			}
			if !goodDevice(r.Device) {
				t.Errorf("device %q", r.Device)
			}
		}
	}
	for _, f := range factories() {
		t.Run(f.name, func(t *testing.T) {
			t.Run("well", func(t *testing.T) {
				s := f.well(t, patience)
				defer s.Close()
				if s.Name() != f.name {
					t.Errorf("its name is %q", s.Name())
				}
				n := 0
				seen := map[string]bool{}
				look := check(t, f)
				for end := time.Now().Add(patience); n == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					if err := s.Read(t.Context(), func(r assay.Reading) { n++; seen[r.Name] = true; look(r) }); err != nil {
						t.Fatal(err)
					}
				}
				if n == 0 {
					t.Fatal("it gave nothing")
				}
				for _, name := range f.absent {
					if seen[name] {
						t.Errorf("%s was given; nothing says it", name)
					}
				}
			})
			t.Run("cancelled", func(t *testing.T) {
				s := f.well(t, patience)
				defer s.Close()
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := s.Read(ctx, func(r assay.Reading) { t.Errorf("it gave %s", r.Name) }); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
			t.Run("closed", func(t *testing.T) {
				s := f.well(t, patience)
				for range 2 {
					if err := s.Close(); err != nil {
						t.Errorf("closing: %v", err)
					}
				}
				if err := s.Read(t.Context(), func(r assay.Reading) { t.Errorf("it gave %s", r.Name) }); err == nil {
					t.Error("a closed source was read without an error")
				}
			})
			t.Run("hangs", func(t *testing.T) {
				if f.hangs == nil {
					t.Skip("nothing behind it that could hang")
				}
				s := f.hangs(t, impatience)
				defer s.Close()
				var err error
				for end := time.Now().Add(patience); (err == nil || errors.Is(err, child.ErrStarting)) && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					err = s.Read(t.Context(), check(t, f))
				}
				if err == nil {
					t.Error("it never said so")
				}
			})
			// A caller that gives up gets away, long before the deadline.
			t.Run("given up", func(t *testing.T) {
				if f.hangs == nil {
					t.Skip("nothing behind it that could hang")
				}
				s := f.hangs(t, patience)
				defer s.Close()
				ctx, cancel := context.WithTimeout(t.Context(), impatience)
				defer cancel()
				began := time.Now()
				for ctx.Err() == nil {
					_ = s.Read(ctx, check(t, f))
				}
				if d := time.Since(began); d > patience/2 {
					t.Errorf("a caller that gave up waited %v", d)
				}
			})
			for name, make := range f.hostile {
				t.Run("hostile/"+name, func(t *testing.T) {
					t.Parallel()
					s := make(t, impatience)
					defer s.Close()
					for range 3 {
						began := time.Now()
						_ = s.Read(t.Context(), check(t, f))
						if d := time.Since(began); d > patience/2 {
							t.Errorf("a reading took %v", d)
						}
						time.Sleep(20 * time.Millisecond)
					}
				})
			}
		})
	}
}
