package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
)

const smiFixtures = "testdata/nvidia-smi"

// patience is how long a test waits for what must come. It is never the result.
const patience = 2 * time.Minute

// firstRead reads a source until it gives something.
func firstRead(t *testing.T, s Source) []assay.Reading {
	t.Helper()
	var got []assay.Reading
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		err := s.Read(t.Context(), func(r assay.Reading) { got = append(got, r) })
		if err != nil {
			t.Fatalf("reading %s: %v", s.Name(), err)
		}
		if len(got) > 0 {
			return got
		}
	}
	t.Fatalf("%s said nothing", s.Name())
	return nil
}

// settled waits until there is an answer of each card.
func settled(t *testing.T, s *SMI) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		n := len(s.rows)
		s.mu.Unlock()
		if n == len(s.gpus) {
			return
		}
	}
	t.Fatalf("no answer of all %d cards; the source says: %v", len(s.gpus), s.err)
}

// Every card and driver, through a process, against what was made of it before.
func TestSMIFixtures(t *testing.T) {
	files, err := filepath.Glob(smiFixtures + "/*.csv")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".csv")
		t.Run(name, func(t *testing.T) {
			s, err := NewSMI(t.Context(), SMIOptions{Path: fakeSMI(t, name), Interval: 20 * time.Millisecond, Deadline: patience})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			settled(t, s)
			got := firstRead(t, s)
			b, err := json.MarshalIndent(s.GPUs(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, smiFixtures+"/"+name+".golden", string(b)+"\n"+lines(got))
		})
	}
}

// What the golden files must hold, said once more by hand.
func TestSMIRows(t *testing.T) {
	type want map[string]float64
	absent := -1.
	tests := []struct {
		fixture string
		gpu     int
		want    want
	}{
		{"rtx-4090-535", 0, want{assay.GPUPower: 438.90, assay.GPUPowerInstant: 1, assay.GPUMemoryUsed: 22718 << 20, assay.GPUSMClock: 2715e6, assay.GPUUtilization: 0.98,
			assay.GPUThrottledPowerCap: 1, assay.GPUThrottledHWThermal: 0, assay.GPUFanSpeed: 0.45, assay.GPUMemoryTemperature: absent, assay.GPUECCCorrected: absent}},
		{"rtx-4090-535", 1, want{assay.GPUPCIeLinkWidth: 8, assay.GPUPCIeLinkWidthMax: 16}},
		{"gtx-1080-390", 0, want{assay.GPUPower: 171.42, assay.GPUPowerInstant: 0, assay.GPUThrottledPowerCap: 1, assay.GPUECCUncorrected: absent, assay.GPUFabricReady: absent}},
		{"tesla-v100-sxm2-418", 1, want{assay.GPURetiredPages: 3, assay.GPUECCCorrected: 3, assay.GPUFanSpeed: absent, assay.GPUThrottledPowerCap: 0}},
		{"tesla-t4-440", 0, want{assay.GPUThrottledSWThermal: 1, assay.GPUThrottledPowerCap: 1, assay.GPUThrottledHWThermal: 0}},
		{"h100-sxm-550", 1, want{assay.GPUThrottledHWThermal: 1, assay.GPUThrottledHWSlowdown: 1, assay.GPUThrottledPowerBrake: 0, assay.GPUFabricReady: 1, assay.GPURetiredPages: absent}},
		{"gb200-570", 0, want{assay.GPUFabricReady: 0, assay.GPURowRemapPending: 1, assay.GPURowRemapFailed: 0, assay.GPUPowerCapSeconds: 912, assay.GPUSWThermalSeconds: 4.4, assay.GPURecoveryAction: 0}},
		{"h200-580", 0, want{assay.GPURecoveryAction: 1, assay.GPURowRemapFailed: 1, assay.GPUTemperature: absent, assay.GPUPower: absent, assay.GPUECCUncorrected: 1}},
		{"a10-525", 0, want{assay.GPUPower: absent, assay.GPUPowerInstant: absent, assay.GPUECCUncorrected: 2, assay.GPUFanSpeed: 0}},
		{"rtx-3090-525", 0, want{assay.GPUFanSpeed: absent, assay.GPUPower: 348.61}},
		{"rtx-4060-laptop-545", 0, want{assay.GPUPower: 88.42, assay.GPUPowerInstant: 0, assay.GPUPowerLimit: absent}},
		{"a100-sxm4-mig-510", 0, want{assay.GPUUtilization: absent, assay.GPUMemoryUsed: 38 << 20}},
		{"vgpu-guest-535", 0, want{assay.GPUUtilization: 0.37, assay.GPUTemperature: absent, assay.GPUThrottledIdle: absent, assay.GPUPCIeLinkWidthMax: absent, assay.GPUFanSpeed: absent}},
		{"lost-550", 0, want{assay.GPULost: 0, assay.GPUPower: 291.30}},
		{"lost-550", 1, want{assay.GPULost: 1, assay.GPUPower: absent, assay.GPUMemoryTotal: absent}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s/%d", tt.fixture, tt.gpu), func(t *testing.T) {
			s, err := NewSMI(t.Context(), SMIOptions{Path: fakeSMI(t, tt.fixture), Interval: 20 * time.Millisecond, Deadline: patience})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			settled(t, s)
			id, got := s.GPUs()[tt.gpu].UUID, want{}
			for _, r := range firstRead(t, s) {
				if r.Device == id {
					got[r.Name] = *r.Value
				}
			}
			for name, v := range tt.want {
				have, ok := got[name]
				switch {
				case v == absent && ok:
					t.Errorf("%s is %v, should be absent", name, have)
				case v != absent && (!ok || !(have >= v-1e-9*v && have <= v+1e-9*v)):
					t.Errorf("%s is %v (%v), want %v", name, have, ok, v)
				}
			}
		})
	}
}

func TestSMINoValueIsNoNumber(t *testing.T) {
	for _, s := range []string{"[N/A]", "N/A", "[Not Supported]", "Not Supported", "[Unknown Error]", "Unknown Error", "ERR!", "[GPU is lost]",
		"[Insufficient Permissions]", "[GPU requires reset]", "No devices were found", "", " ", "nan", "Infinity", "0x10", "1e3", "1_000", "-", ".", "1-2", "12 W",
		"Unable to determine the device handle for GPU 0000:02:00.0: Unknown Error"} {
		if v, ok := decimal(s); ok {
			t.Errorf("%q was read as %v", s, v)
		}
		for _, f := range smiFields {
			if strings.HasPrefix(s, "0x") && strings.HasPrefix(f.name, "clocks_event_reasons.") {
				continue // there it is one
			}
			row := smiRow{[]smiField{f}, []string{s}}
			row.emit(newFilter(), func(r assay.Reading) { t.Errorf("%s %q gave %s %v", f.name, s, r.Name, *r.Value) }, "GPU-1")
		}
	}
}

// The cause of a failure is told, and nothing hangs on it. What never gives a
// reading has a short deadline, which it misses at any speed; what says
// something has one that it cannot miss.
func TestSMITrouble(t *testing.T) {
	const never = 50 * time.Millisecond
	tests := map[string]struct {
		query    string
		deadline time.Duration // 0: long
		says     string
	}{
		"hang":       {`sleep 600`, never, "gave no reading for"},
		"hang child": {`sleep 600 & echo $! >>"$dir/pids"; wait`, never, "gave no reading for"},
		"stops":      {`echo "0, x"; sleep 600`, never, "gave no reading for"},
		"binary":     {`head -c 300000 /dev/urandom; sleep 600`, never, "nvidia-smi"},
		"ends":       {`exit 9`, 0, "exit status 9"},
		"no devices": {`echo "No devices were found"; exit 6`, 0, "No devices were found"},
		"stderr":     {`echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver." >&2; exit 9`, 0, "couldn't communicate"},
		"handle":     {`echo "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error"; exit 255`, 0, "Unknown Error"},
		"huge line":  {`head -c 3000000 /dev/zero | tr '\0' 'x'; sleep 600`, 0, "a line of over"},
		"endless":    {`yes "0, 1, 2"`, 0, "it wrote too much"},
		"no uuid":    {`echo 'Field "uuid" is not a valid field to query.'; exit 2`, 0, "uuid"},
		"not ours":   {`echo 'Field "x.y" is not a valid field to query.'; exit 2`, 0, "x.y"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.deadline == 0 {
				tt.deadline = patience
			}
			path := scriptSMI(t, "rtx-4090-535", tt.query)
			gpus, err := DescribeSMI(t.Context(), SMIOptions{Path: path, Deadline: patience})
			if err != nil {
				t.Fatal(err)
			}
			s := startSMI(t.Context(), gpus, SMIOptions{Path: path, Interval: 20 * time.Millisecond, Deadline: tt.deadline})
			var last error
			for end := time.Now().Add(patience); time.Now().Before(end) && last == nil; time.Sleep(5 * time.Millisecond) {
				last = s.Read(t.Context(), func(r assay.Reading) { t.Errorf("it gave %s %v", r.Name, *r.Value) })
			}
			if last == nil || !strings.Contains(last.Error(), tt.says) {
				t.Errorf("the error is %v, should say %q", last, tt.says)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			gone(t, path)
		})
	}
}

// gone checks that of the processes that a tests' nvidia-smi wrote down, itself
// and its children, none is left.
func gone(t *testing.T, script string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(script), "pids"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); runs(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("process %d is still there", pid)
				break
			}
		}
	}
}

// runs says whether a process runs; one that only waits to be reaped does not.
func runs(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestSMIComesBack(t *testing.T) {
	// The first query fails, later ones answer.
	path := scriptSMI(t, "rtx-3060-470", `
if [ ! -e "$dir/again" ]; then touch "$dir/again"; echo "Unable to determine the device handle for GPU 0000:0A:00.0: GPU is lost.  Reboot the system to recover this GPU"; exit 15; fi
n=$(echo "$columns" | tr ',' '\n' | wc -l)
while :; do awk -v n="$n" -v id="$(sed -n 's:.*<uuid>\(.*\)</uuid>.*:\1:p' "$xml")" 'BEGIN { printf "0, %s", id; for (i = 3; i <= n; i++) printf ", 7"; print "" }'; sleep 0.02; done`)
	s, err := NewSMI(t.Context(), SMIOptions{Path: path, Interval: 20 * time.Millisecond, Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var lost, failed, back bool
	for end := time.Now().Add(patience); time.Now().Before(end) && !back; time.Sleep(5 * time.Millisecond) {
		err := s.Read(t.Context(), func(r assay.Reading) {
			lost = lost || r.Name == assay.GPULost && *r.Value == 1 && r.Device == s.GPUs()[0].UUID
			back = back || r.Name == assay.GPUTemperature && *r.Value == 7
		})
		failed = failed || err != nil
	}
	if !lost || !failed || !back {
		t.Errorf("said that it was lost: %v, an error: %v, came back: %v", lost, failed, back)
	}
}

// The flags of a driver that does not report which reasons it has are all used.
func TestSMIReasonsWithoutSupported(t *testing.T) {
	row := smiRow{[]smiField{{name: "clocks_event_reasons.active"}}, []string{"0x20"}}
	got := map[string]float64{}
	row.emit(newFilter(), func(r assay.Reading) { got[r.Name] = *r.Value }, "GPU-1")
	if v, ok := got[assay.GPUThrottledHWThermal]; len(got) != len(clockReasons) || !ok || v != 0 || got[assay.GPUThrottledSWThermal] != 1 {
		t.Errorf("%v", got)
	}
}

func TestSMIDropsWhatADriverDoesNotKnow(t *testing.T) {
	fields := append([]smiField(nil), smiFields...)
	n := len(fields)
	fields, ok := without(fields, "clocks_event_reasons.active")
	if !ok || len(fields) != n {
		t.Fatalf("not asked by its old name: %v, %d columns", ok, len(fields))
	}
	row := smiRow{fields, make([]string, n)}
	for i, f := range fields {
		if f.name == "clocks_throttle_reasons.active" {
			row.values[i] = "0x40"
		}
	}
	if v, ok := row.mask("clocks_event_reasons.active"); !ok || v != 0x40 {
		t.Errorf("the old name's value is %x, %v", v, ok)
	}
	if fields, ok = without(fields, "clocks_throttle_reasons.active"); !ok || len(fields) != n-1 {
		t.Errorf("an old name that is refused too must go: %v, %d columns of %d", ok, len(fields), n)
	}
}

// A driver that lists its columns is not asked for others.
func TestSMIAsksForWhatTheDriverHas(t *testing.T) {
	path := scriptSMI(t, "tesla-t4-440", `echo "$columns" >>"$dir/asked"; sleep 600`)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	help := "--help-query-gpu) printf '%s\\n' '\"index\"' '\"uuid\" or \"gpu_uuid\"' '\"utilization.gpu\"' '\"clocks_throttle_reasons.active\"'; exit 0 ;;\n*) exit 2 ;;"
	b = bytes.Replace(b, []byte("*) exit 2 ;;"), []byte(help), 1)
	parttest.Program(t, path, b)
	s, err := NewSMI(t.Context(), SMIOptions{Path: path, Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var asked []byte
	for end := time.Now().Add(patience); len(asked) == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		asked, _ = os.ReadFile(filepath.Join(filepath.Dir(path), "asked"))
	}
	if got, want := strings.TrimSpace(string(asked)), "index,uuid,utilization.gpu,clocks_throttle_reasons.active"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

func TestSMIDescribe(t *testing.T) {
	s, err := os.ReadFile(smiFixtures + "/rtx-4090-535.xml")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("truncated", func(t *testing.T) {
		for n := 0; n < len(s)-len("</nvidia_smi_log>\n"); n += 97 {
			if gpus, err := parseSMILog(bytes.NewReader(s[:n])); err == nil {
				t.Fatalf("%d bytes made %d GPUs", n, len(gpus))
			}
		}
	})
	t.Run("huge", func(t *testing.T) {
		huge := append([]byte("<nvidia_smi_log><gpu><uuid>"), bytes.Repeat([]byte("x"), maxPage)...)
		if _, err := parseSMILog(bytes.NewReader(huge)); err == nil || !strings.Contains(err.Error(), "longer than") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("many", func(t *testing.T) {
		many := "<nvidia_smi_log>" + strings.Repeat("<gpu></gpu>", maxGPUs+1) + "</nvidia_smi_log>"
		if _, err := parseSMILog(strings.NewReader(many)); err == nil {
			t.Error("believed")
		}
	})
	t.Run("words", func(t *testing.T) {
		gpus, err := parseSMILog(strings.NewReader("<nvidia_smi_log><gpu><uuid>GPU-1&#x7f;&#10;</uuid><product_name>" + strings.Repeat("é", 500) + "</product_name><serial>[N/A]</serial></gpu></nvidia_smi_log>"))
		if err != nil || len(gpus) != 1 || gpus[0].UUID != "GPU-1\uFFFD" || len(gpus[0].Name) > 128 || gpus[0].Serial != "" {
			t.Errorf("%+v %v", gpus, err)
		}
	})
	t.Run("no devices", func(t *testing.T) {
		_, err := DescribeSMI(t.Context(), SMIOptions{Path: scriptXML(t, `echo "No devices were found"; exit 6`)})
		if !errors.Is(err, errNoDevices) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no driver", func(t *testing.T) {
		_, err := DescribeSMI(t.Context(), SMIOptions{Path: scriptXML(t, `echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9`)})
		if err == nil || !strings.Contains(err.Error(), "couldn't communicate") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("hang", func(t *testing.T) {
		_, err := DescribeSMI(t.Context(), SMIOptions{Path: scriptXML(t, `sleep 600 & wait`), Deadline: 100 * time.Millisecond})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func scriptXML(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nvidia-smi")
	parttest.Program(t, file, []byte("#!/bin/sh\n"+text+"\n"))
	return file
}

func FuzzSMIRow(f *testing.F) {
	f.Add("0, GPU-1, [N/A], 0x40, Yes, Active")
	f.Add(strings.Repeat(",", len(smiFields)-1))
	f.Fuzz(func(t *testing.T, line string) {
		row, ok := newSMIRow(smiFields, line)
		if !ok {
			_, _ = notAField(line)
			return
		}
		names := newFilter().unit
		row.emit(newFilter(), func(r assay.Reading) {
			if v, ok := plausible(r.Name, names[r.Name], *r.Value); !ok || names[r.Name] == "" {
				t.Errorf("%s %v", r.Name, v)
			}
		}, "GPU-1")
	})
}
