package verify

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func shipped(t *testing.T) Catalog {
	t.Helper()
	c, err := ShippedCatalog()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCatalogueIsSound(t *testing.T) {
	c := shipped(t)
	if len(c) < 30 {
		t.Errorf("%d models", len(c))
	}
	seen := map[string]bool{}
	for _, m := range c {
		if m.Source == "" || m.Compared == "" || m.Name == "" || m.MemoryBytes == 0 || m.FP32 == 0 || m.Bandwidth == 0 {
			t.Errorf("%s: incomplete", m.Name)
		}
		if m.SMs > 0 {
			if derived := 2 * float64(m.SMs*m.LanesPerSM) * m.BoostHz; !(math.Abs(derived/m.FP32-1) <= 0.02) {
				t.Errorf("%s: peak %.4g TFLOP/s, its processors and clock make %.4g", m.Name, m.FP32/1e12, derived/1e12)
			}
		}
		if m.BusWidthBits > 0 {
			// Bits a second and wire, of the memories of these years.
			if rate := 8 * m.Bandwidth / float64(m.BusWidthBits); !(rate >= 1.7e9 && rate <= 30e9) {
				t.Errorf("%s: %.3g Gbit/s a wire", m.Name, rate/1e9)
			}
		}
		key := m.Name + " " + string(rune(m.SMs)) + string(rune(m.MemoryBytes>>30))
		if seen[key] {
			t.Errorf("%s is there twice", m.Name)
		}
		seen[key] = true
	}
	for _, name := range []string{"NVIDIA GeForce RTX 3090", "GeForce RTX 3090", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA L40S", "NVIDIA B200", "AMD Instinct MI250X", "AMD Instinct MI300X"} {
		if len(c.Find(name)) == 0 {
			t.Errorf("%s is not there", name)
		}
	}
	if n := len(c.Find("NVIDIA GeForce RTX 3080")); n != 2 {
		t.Errorf("%d variants of the 3080", n)
	}
	for _, name := range []string{"", "NVIDIA", "NVIDIA GeForce RTX 4090 Ti", "RTX 4090 Laptop GPU of nobody"} {
		if m := c.Find(name); len(m) != 0 {
			t.Errorf("%q was found as %s", name, m[0].Name)
		}
	}
}

// good is a 4090 as three sources see it.
func good() []Identity {
	zero := 0
	return []Identity{
		{Source: "nvml", Name: "NVIDIA GeForce RTX 4090", UUID: "GPU-00112233-4455-6677-8899-aabbccddeeff", VBIOS: "95.02.3C.00.01", PCIBusID: "00000000:3B:00.0", MaxSMHz: 3.105e9, MaxMemoryHz: 10.501e9, MemoryBytes: 24564 << 20, Driver: "550.54.14", CUDA: "12.4", MIG: "off", OtherProcesses: &zero},
		{Source: "nvidia-smi", Name: "NVIDIA GeForce RTX 4090", UUID: "GPU-00112233-4455-6677-8899-aabbccddeeff", VBIOS: "95.02.3c.00.01", PCIBusID: "00000000:3B:00.0", MaxSMHz: 3.105e9, MemoryBytes: 24564 << 20, Driver: "550.54.14"},
		{Source: "cuda", Name: "NVIDIA GeForce RTX 4090", UUID: "00112233445566778899aabbccddeeff", PCIBusID: "0000:3b:00.0", MaxSMHz: 2.52e9, MemoryBytes: 24217 << 20, CUDA: "12.4", SMs: 128, BusWidthBits: 384},
	}
}

func TestIdentity(t *testing.T) {
	c := shipped(t)
	two := 2
	for _, k := range []struct {
		name                     string
		change                   func([]Identity) []Identity
		sources, catalogue, only assay.Verdict
		says                     string
	}{
		{"as it should be", nil, assay.Pass, assay.Pass, assay.Pass, ""},
		{"a 3090's SMs", func(i []Identity) []Identity { i[2].SMs = 82; return i }, assay.Pass, assay.Fail, assay.Pass, "82 SMs by cuda, the catalogue has 128"},
		{"a narrow bus", func(i []Identity) []Identity { i[2].BusWidthBits = 256; return i }, assay.Pass, assay.Fail, assay.Pass, "256 bits"},
		{"doubled memory", func(i []Identity) []Identity {
			for j := range i {
				i[j].MemoryBytes *= 2
			}
			return i
		}, assay.Pass, assay.Fail, assay.Pass, "GiB of memory"},
		{"another name in one place", func(i []Identity) []Identity { i[1].Name = "NVIDIA GeForce RTX 3090"; return i }, assay.Fail, assay.Fail, assay.Pass, "name: NVIDIA GeForce RTX 4090 by nvml, NVIDIA GeForce RTX 3090 by nvidia-smi"},
		{"another UUID in one place", func(i []Identity) []Identity { i[2].UUID = "ff" + i[2].UUID[2:]; return i }, assay.Fail, assay.Pass, assay.Pass, "UUID"},
		{"another memory in one place", func(i []Identity) []Identity { i[2].MemoryBytes = 12 << 30; return i }, assay.Fail, assay.Fail, assay.Pass, "memory"},
		{"another driver in one place", func(i []Identity) []Identity { i[1].Driver = "535.1"; return i }, assay.Fail, assay.Pass, assay.Pass, "driver: 550.54.14 by nvml, 535.1 by nvidia-smi"},
		{"another VBIOS in one place", func(i []Identity) []Identity { i[1].VBIOS = "1"; return i }, assay.Fail, assay.Pass, assay.Pass, "VBIOS"},
		{"another clock in one place", func(i []Identity) []Identity { i[1].MaxSMHz = 2.1e9; return i }, assay.Fail, assay.Pass, assay.Pass, "highest SM clock"},
		{"a model that is not known", func(i []Identity) []Identity {
			for j := range i {
				i[j].Name = "NVIDIA GeForce RTX 9090"
			}
			return i
		}, assay.Pass, assay.Unknown, assay.Pass, "does not know"},
		{"MIG", func(i []Identity) []Identity {
			i[0].MIG, i[2].SMs, i[2].MemoryBytes, i[2].UUID = "on", 14, 5<<30, "aa"
			return i
		}, assay.Pass, assay.Unknown, assay.Pass, "MIG is on"},
		{"a virtual GPU", func(i []Identity) []Identity { i[0].VGPU, i[2].SMs = "on", 64; return i }, assay.Pass, assay.Unknown, assay.Pass, "virtual"},
		{"one source", func(i []Identity) []Identity { return i[2:] }, assay.Unknown, assay.Pass, assay.Unknown, "only one source"},
		{"a name and nothing else", func([]Identity) []Identity { return []Identity{{Source: "sysfs", Name: "NVIDIA GeForce RTX 4090"}} }, assay.Unknown, assay.Unknown, assay.Unknown, "no source gives"},
		{"others on the GPU", func(i []Identity) []Identity { i[0].OtherProcesses = &two; return i }, assay.Pass, assay.Pass, assay.Degraded, "2 other processes"},
	} {
		t.Run(k.name, func(t *testing.T) {
			ids := good()
			if k.change != nil {
				ids = k.change(ids)
			}
			got := CheckIdentity(ids, c, time.Unix(1, 0))
			var all []string
			for i, want := range []assay.Verdict{k.sources, k.catalogue, k.only} {
				if got[i].Verdict != want {
					t.Errorf("%s is %v (%s), want %v", got[i].Name, got[i].Verdict, got[i].Evidence, want)
				}
				all = append(all, got[i].Evidence)
			}
			if s := strings.Join(all, "\n"); !strings.Contains(s, k.says) {
				t.Errorf("%q is not in\n%s", k.says, s)
			}
		})
	}
}

func TestVariantsOfOneName(t *testing.T) {
	c := shipped(t)
	for _, k := range []struct {
		sms, gib, bus int
		want          assay.Verdict
	}{{68, 10, 320, assay.Pass}, {70, 12, 384, assay.Pass}, {68, 12, 384, assay.Fail}, {0, 12, 0, assay.Pass}} {
		id := Identity{Source: "cuda", Name: "NVIDIA GeForce RTX 3080", SMs: k.sms, MemoryBytes: uint64(k.gib) << 30, BusWidthBits: k.bus}
		if got := catalogueAgrees([]Identity{id}, c); got.Verdict != k.want {
			t.Errorf("%+v: %v (%s)", k, got.Verdict, got.Evidence)
		}
	}
}

func TestGroup(t *testing.T) {
	ids := []Identity{
		{Source: "nvml", UUID: "GPU-aa", PCIBusID: "00000000:01:00.0", Name: "A"},
		{Source: "nvml", UUID: "GPU-bb", PCIBusID: "00000000:02:00.0", Name: "B"},
		{Source: "cuda", UUID: "bb", Name: "B"},
		{Source: "opencl", PCIBusID: "01:00.0", Name: "A"},
		{Source: "sysfs", Name: "NVIDIA B"},
		{Source: "sysfs", Name: "C"},
	}
	var got []string
	for _, g := range Group(ids) {
		var s []string
		for _, id := range g {
			s = append(s, id.Source)
		}
		got = append(got, strings.Join(s, "+"))
	}
	if want := "nvml+opencl nvml+cuda+sysfs sysfs"; strings.Join(got, " ") != want {
		t.Errorf("groups %q, want %q", got, want)
	}
	one := Group([]Identity{{Source: "nvml", UUID: "GPU-aa"}, {Source: "opencl", Name: "x"}, {Source: "cuda", Name: "x"}})
	if len(one) != 1 || len(one[0]) != 3 {
		t.Errorf("one GPU in groups %+v", one)
	}
}
