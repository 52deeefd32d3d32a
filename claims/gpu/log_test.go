package gpu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/telemetry"
)

// metered is a source whose counter rises by a quarter of a second each second, and
// which falls silent.
type metered struct{ reads int }

func (m *metered) Name() string { return "nvml" }

func (m *metered) Read(_ context.Context, emit func(assay.Reading)) error {
	m.reads++
	if m.reads > 3 {
		return errors.New("fell off the bus")
	}
	for name, v := range map[string]float64{
		assay.GPUPower: 301.4, assay.GPUTemperature: 64, assay.GPUUtilization: 0.97, assay.GPUSMClock: 2.52e9, assay.GPUMemoryUsed: 1 << 30,
		assay.GPUThrottledSWThermal: 0, assay.GPUThrottledHWThermal: 1, assay.GPUPowerCapSeconds: 0.25 * float64(m.reads), assay.GPUECCUncorrected: 0,
	} {
		emit(assay.Reading{Name: name, Device: "GPU-1", Value: &v})
	}
	return nil
}

func (m *metered) Close() error { return nil }

// The log has dmon's columns, a line a second, and a dash where nothing was read.
func TestGPUMetricsLog(t *testing.T) {
	dir := t.TempDir()
	l := &Log{choose: func(context.Context, telemetry.ChooseOptions) ([]telemetry.Source, []assay.GPU, []string, error) {
		return []telemetry.Source{&metered{}}, []assay.GPU{{UUID: "GPU-1", Name: "Example\x1b[2J", Index: 3, Source: "nvml"}}, nil, nil
	}}
	var r claims.Result
	synctest.Test(t, func(t *testing.T) {
		if err := l.Start(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6500 * time.Millisecond)
		l.Stop(&r)
	})
	b, err := os.ReadFile(filepath.Join(dir, LogFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != 3+6 || len(r.Notes) != 0 {
		t.Fatalf("%d lines, notes %q:\n%s", len(lines), r.Notes, b)
	}
	if lines[0] != "# GPU 3: Example\ufffd[2J, read by nvml" || strings.Join(strings.Fields(lines[1]), " ") !=
		"#YYYYMMDD HH:MM:SS gpu pwr gtemp mtemp sm mem enc dec jpg ofa mclk pclk pviol tviol fb bar1 sbecc dbecc pci rxpci txpci" {
		t.Errorf("head:\n%s", b)
	}
	// The first two columns are the date and the time.
	cells := func(i int) string { return strings.Join(strings.Fields(lines[i])[2:], " ") }
	const full = "3 301 64 - 97 - - - - - - 2520 25 1 1024 - - 0 - - -"
	seen := false
	for i := 3; i < len(lines); i++ {
		if len(strings.Fields(lines[i])) != len(strings.Fields(lines[1])) {
			t.Errorf("line %d has other columns than the head", i)
		}
		seen = seen || cells(i) == full
	}
	if !seen {
		t.Errorf("no line is %q:\n%s", full, b)
	}
	if last := cells(len(lines) - 1); last != "3"+strings.Repeat(" -", len(logColumns)) {
		t.Errorf("a source that fell silent still has readings: %s", last)
	}
}

func TestGPUMetricsLogSaysWhyWithoutAGPU(t *testing.T) {
	dir := t.TempDir()
	l := &Log{choose: func(context.Context, telemetry.ChooseOptions) ([]telemetry.Source, []assay.GPU, []string, error) {
		return nil, nil, []string{"nvidia-smi is not installed"}, nil
	}}
	if err := l.Start(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	l.Stop(&claims.Result{})
	b, err := os.ReadFile(filepath.Join(dir, LogFile))
	if err != nil || !strings.HasPrefix(string(b), "# no GPU is read: nvidia-smi is not installed\n") {
		t.Errorf("%q, %v", b, err)
	}
}
