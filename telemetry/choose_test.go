package telemetry

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func names(sources []Source) string {
	var out []string
	for _, s := range sources {
		out = append(out, s.Name())
	}
	return strings.Join(out, " ")
}

func TestChoose(t *testing.T) {
	engine, _ := serve(t, "vllm.txt")
	dcgm, _ := serve(t, "dcgm.txt")
	amd := tree(t, "testdata/amdgpu/mi300x.txtar")
	nothing := t.TempDir()
	missing := filepath.Join(nothing, "nvidia-smi")
	smi := fakeSMI(t, "rtx-4090-535")
	// An exporter on the machine whose cards nvidia-smi reads already.
	same, page := serve(t, "dcgm.txt")
	gpus, err := DescribeSMI(t.Context(), SMIOptions{Path: fakeSMI(t, "h100-sxm-550")})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(*page.Load(), "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52", gpus[0].UUID)
	page.Store(&text)
	tests := []struct {
		name    string
		o       ChooseOptions
		sources string
		gpus    int
		notes   string // a part of one of them; empty: none at all
	}{
		{"nothing", ChooseOptions{NvidiaSMI: missing, SysRoot: nothing, DCGMURL: "http://127.0.0.1:1/metrics"}, "host", 0, "dcgm:"},
		{"smi", ChooseOptions{NvidiaSMI: smi, SysRoot: nothing}, "nvidia-smi host", 2, ""},
		{"smi and engine", ChooseOptions{NvidiaSMI: smi, SysRoot: nothing, EngineURL: engine + "/v1"}, "nvidia-smi host engine", 2, ""},
		{"engine without metrics", ChooseOptions{NvidiaSMI: smi, SysRoot: nothing, EngineURL: dcgm}, "nvidia-smi host", 2, "engine: the engine has no metrics"},
		{"amd", ChooseOptions{NvidiaSMI: missing, SysRoot: amd}, "amdgpu host", 2, "nvidia-smi:"},
		{"both", ChooseOptions{NvidiaSMI: smi, SysRoot: amd}, "nvidia-smi amdgpu host", 4, ""},
		{"dcgm", ChooseOptions{NvidiaSMI: missing, SysRoot: nothing, DCGMURL: dcgm + "/metrics"}, "dcgm host", 2, "nvidia-smi:"},
		{"other cards by dcgm", ChooseOptions{NvidiaSMI: smi, SysRoot: nothing, DCGMURL: dcgm + "/metrics"}, "nvidia-smi dcgm host", 4, ""},
		{"same cards by dcgm", ChooseOptions{NvidiaSMI: fakeSMI(t, "h100-sxm-550"), SysRoot: nothing, DCGMURL: same + "/metrics"}, "nvidia-smi host", 2, "dcgm is not used: nvidia-smi reads"},
		{"child that fails", ChooseOptions{Child: []string{"/bin/sh", "-c", "echo no driver >&2; exit 1"}, NvidiaSMI: smi, SysRoot: nothing}, "nvidia-smi host", 2, "nvml: its process ended"},
		{"child that is not there", ChooseOptions{Child: []string{missing}, NvidiaSMI: smi, SysRoot: nothing}, "nvidia-smi host", 2, "nvml:"},
		{"child that hangs", ChooseOptions{Child: []string{"/bin/sh", "-c", "sleep 600"}, Deadline: time.Second, NvidiaSMI: smi, SysRoot: nothing}, "nvidia-smi host", 2, "nvml:"},
		{"child that has a card", ChooseOptions{Child: []string{"/bin/sh", "-c", `printf 'assay-source\t1\n'; while read q n; do printf 'g\t{"uuid":"GPU-1","name":"x","index":0}\n.\t%s\n' "$n"; done`}, NvidiaSMI: smi, SysRoot: nothing}, "nvml host", 1, ""},
		{"child without a card", ChooseOptions{Child: []string{"/bin/sh", "-c", `printf 'assay-source\t1\n'; while read q n; do printf '.\t%s\n' "$n"; done`}, NvidiaSMI: smi, SysRoot: nothing}, "nvidia-smi host", 2, "nvml: no GPU"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sources, gpus, notes, err := Choose(t.Context(), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range sources {
				defer s.Close()
			}
			all := strings.Join(notes, "\n")
			if names(sources) != tt.sources || len(gpus) != tt.gpus || !strings.Contains(all, tt.notes) || (tt.notes == "" && all != "") {
				t.Errorf("%s, %d GPUs, notes %q; want %s, %d, %q", names(sources), len(gpus), notes, tt.sources, tt.gpus, tt.notes)
			}
			seen := map[string]bool{}
			for _, g := range gpus {
				if seen[g.UUID] {
					t.Errorf("%s is there twice", g.UUID)
				}
				seen[g.UUID] = true
			}
		})
	}
}

func TestChooseIsCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sources, _, _, err := Choose(ctx, ChooseOptions{})
	if !errors.Is(err, context.Canceled) || len(sources) > 0 {
		t.Errorf("%d sources, %v", len(sources), err)
	}
}
