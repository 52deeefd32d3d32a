package telemetry

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func TestHostTree(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the tree is of Linux")
	}
	root := tree(t, "testdata/host/small.txtar")
	h, err := NewHost(HostOptions{ProcRoot: filepath.Join(root, "proc"), SysRoot: filepath.Join(root, "sys")})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	const first = `- host_disk_read_bytes_total 1024000
- host_disk_written_bytes_total 2048000
- host_memory_available_bytes 1.024e+10
- host_memory_used_bytes 6144000000
- host_network_received_bytes_total 5000
- host_network_sent_bytes_total 7000
- host_pressure_cpu_seconds_total 2037.226179
- host_pressure_io_seconds_total 33.87683
cpu0 host_cpu_frequency_hertz 3400000000
`
	if got := lines(collect(t, h)); got != first {
		t.Errorf("got\n%s\nwant\n%s", got, first)
	}
	// Ten times a second, only what is cheap.
	if got, want := lines(collect(t, h)), "- host_pressure_cpu_seconds_total 2037.226179\n- host_pressure_io_seconds_total 33.87683\n"; got != want {
		t.Errorf("the second look gives\n%s", got)
	}
	stat := "cpu  290 0 100 710 100 0 0 0 0 0\ncpu0 190 0 50 310 50 0 0 0 0 0\ncpu1 100 0 50 200 50 0 0 0 0 0\n"
	if err := os.WriteFile(filepath.Join(root, "proc/stat"), []byte(stat), 0o644); err != nil {
		t.Fatal(err)
	}
	h.next = time.Time{}
	got := map[string]float64{}
	for _, r := range collect(t, h) {
		if r.Name == assay.HostCPU {
			got[r.Device] = *r.Value
		}
	}
	// cpu1 went back, and says nothing.
	if len(got) != 2 || !(got[""] >= 0.4499 && got[""] <= 0.4501 && got["cpu0"] >= 0.8999 && got["cpu0"] <= 0.9001) {
		t.Errorf("utilization %v", got)
	}
}

func TestHostWithoutFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the roots are of Linux")
	}
	h, err := NewHost(HostOptions{ProcRoot: t.TempDir(), SysRoot: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	err = h.Read(t.Context(), func(r assay.Reading) { t.Errorf("%s is %v", r.Name, *r.Value) })
	if err == nil {
		t.Error("nothing could be read, and that is no error")
	}
}

func TestPressure(t *testing.T) {
	for _, text := range []string{"", "some", "some total=", "some total=x", "some total=-", "full avg10=0 total=1\n", "total=5"} {
		if v, ok := pressure(text); ok {
			t.Errorf("%q is %v", text, v)
		}
	}
}

func TestHostReal(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	h, err := NewHost(HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	got := map[string]float64{}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		h.next = time.Time{}
		for _, r := range collect(t, h) {
			if r.Device == "" {
				got[r.Name] = *r.Value
			}
		}
		if _, ok := got[assay.HostCPU]; ok {
			break
		}
	}
	if _, ok := got[assay.HostCPU]; !ok || got[assay.HostMemoryAvailable] < 1<<20 {
		t.Errorf("%v", got)
	}
}
