package verify

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/verify"
)

// Each way to have no GPU has its own next step.
func TestNoGPUSaysWhatToDo(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	card := func(bus, vendor, class string) fstest.MapFS {
		dir := "sys/bus/pci/devices/" + bus + "/"
		return fstest.MapFS{dir + "vendor": file(vendor + "\n"), dir + "class": file(class + "\n")}
	}
	for name, c := range map[string]struct {
		root fstest.MapFS
		want []string
	}{
		"nothing": {fstest.MapFS{}, []string{"shows no card", "--gpus all"}},
		"driver without libraries": {fstest.MapFS{"proc/driver/nvidia/version": file("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n")},
			[]string{"(550.54.15)", "--gpus all", "libcuda.so.1"}},
		"NVIDIA without a driver": {card("0000:01:00.0", "0x10de", "0x030200"), []string{"NVIDIA card", "0000:01:00.0", "nvidia-driver"}},
		"AMD without a driver":    {card("0000:03:00.0", "0x1002", "0x038000"), []string{"AMD card", "ROCm"}},
		"its sound device":        {card("0000:01:00.1", "0x10de", "0x040300"), []string{"shows no card"}},
	} {
		got := noGPU(c.root)
		for _, want := range append(c.want, "no GPU found: ") {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", name, got, want)
			}
		}
		if strings.Contains(got, "\n") || strings.Count(got, ". ") > 0 {
			t.Errorf("%s: more than one sentence: %q", name, got)
		}
	}
}

// Without -v there is one sentence; the libraries that were tried are for who asks.
func TestNoGPUIsOneSentence(t *testing.T) {
	err := errors.Join(verify.ErrNoDevice, errors.New("CUDA: libcuda.so.1: cannot open shared object file"))
	v := verified{Checks: []assay.Check{{Name: "compute.device", Evidence: err.Error()}}, Notes: []string{"nvidia-smi is not there"}}
	v.judge(err)
	for _, verbose := range []bool{false, true} {
		var out bytes.Buffer
		if err := cli.Show(&out, v.page(err, verbose)); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(strings.Fields(out.String()), " ")
		for _, detail := range []string{"libcuda.so.1: cannot open shared object file", "nvidia-smi is not there"} {
			if strings.Contains(got, detail) != verbose {
				t.Errorf("verbose %v: %q\n%s", verbose, detail, out.String())
			}
		}
		if !strings.Contains(got, "no GPU found") {
			t.Errorf("verbose %v: %s", verbose, out.String())
		}
	}
	if got := v.outcome(err); cli.ExitCode(got) != cli.ExitUnknown || got.Error() != verify.ErrNoDevice.Error() {
		t.Errorf("%v", got)
	}
}
