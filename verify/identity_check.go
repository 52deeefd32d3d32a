package verify

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// CheckIdentity judges what several sources say of one GPU: whether they agree
// with each other, whether they agree with the catalogue, and whether the GPU is
// ours alone.
func CheckIdentity(ids []Identity, c Catalog, at time.Time) []assay.Check {
	if len(ids) == 0 {
		return nil
	}
	device, facts, values := describe(ids)
	checks := []assay.Check{sourcesAgree(ids), catalogueAgrees(ids, c), alone(ids)}
	for i := range checks {
		checks[i].At, checks[i].Device = at.UnixNano(), deviceName(ids, device)
	}
	checks[0].Facts, checks[0].Values = facts, values
	return checks
}

// describe gathers each fact from the first source that has it.
func describe(ids []Identity) (device string, facts map[string]string, values map[string]float64) {
	facts, values = map[string]string{}, map[string]float64{}
	word := func(name, v string) {
		if v != "" && facts[name] == "" {
			facts[name] = v
		}
	}
	number := func(name string, v float64) {
		if _, ok := values[name]; v > 0 && !ok {
			values[name] = v
		}
	}
	var sources []string
	for _, id := range ids {
		sources = append(sources, id.Source)
		word("name", id.Name)
		word("uuid", id.UUID)
		word("serial", id.Serial)
		word("vbios", id.VBIOS)
		word("pci_bus_id", id.PCIBusID)
		word("driver", id.Driver)
		word("cuda", id.CUDA)
		word("mig", id.MIG)
		word("vgpu", id.VGPU)
		number("max_sm_hertz", id.MaxSMHz)
		number("max_memory_hertz", id.MaxMemoryHz)
		number("memory_bytes", float64(id.MemoryBytes))
		number("sms", float64(id.SMs))
		number("bus_width_bits", float64(id.BusWidthBits))
		if id.OtherProcesses != nil {
			values["other_processes"] = float64(*id.OtherProcesses)
		}
	}
	facts["sources"] = strings.Join(sources, ", ")
	return DeviceInfo{Identity: Identity{UUID: facts["uuid"], PCIBusID: facts["pci_bus_id"]}}.Key(), facts, values
}

// sliced reports whether the GPU is shown in part, so that its figures are not
// those of the whole.
func sliced(ids []Identity) string {
	for _, id := range ids {
		switch {
		case id.MIG == "on":
			return "MIG is on"
		case id.VGPU == "on":
			return "it is a virtual GPU"
		}
	}
	return ""
}

// compared is one fact on which sources must agree.
type compared struct {
	name string
	get  func(Identity) (shown, canonical string)
}

func word(get func(Identity) string, canonical func(string) string) func(Identity) (string, string) {
	return func(id Identity) (string, string) {
		v := get(id)
		return v, canonical(v)
	}
}

var comparedWords = []compared{
	{"UUID", word(func(i Identity) string { return i.UUID }, canonicalUUID)},
	{"PCI bus id", word(func(i Identity) string { return i.PCIBusID }, canonicalBusID)},
	{"serial number", word(func(i Identity) string { return i.Serial }, strings.TrimSpace)},
	{"VBIOS", word(func(i Identity) string { return i.VBIOS }, strings.ToLower)},
}

// sourcesAgree compares source with source. Names count only where both are
// NVIDIA's (AMD's libraries give the chip's name in one place and the board's in
// another), drivers only within NVIDIA's, and clocks only between NVML and
// nvidia-smi: CUDA gives the rated boost, not the highest clock.
func sourcesAgree(ids []Identity) assay.Check {
	var bad []string
	n := 0
	differ := func(what, a, b string, i, j Identity) {
		bad = append(bad, fmt.Sprintf("%s: %s by %s, %s by %s", what, a, i.Source, b, j.Source))
	}
	// A part has a UUID, processors and memory of its own, and not every source
	// says that it is one.
	slice := sliced(ids) != ""
	for i := range ids {
		for j := i + 1; j < len(ids); j++ {
			a, b := ids[i], ids[j]
			words := comparedWords
			if a.nvidia() && b.nvidia() {
				words = append([]compared{
					{"name", word(func(i Identity) string { return i.Name }, canonicalName)},
					{"driver", word(func(i Identity) string { return i.Driver }, strings.TrimSpace)},
				}, words...)
			}
			for _, w := range words {
				va, ca := w.get(a)
				vb, cb := w.get(b)
				if ca == "" || cb == "" || slice && w.name == "UUID" {
					continue
				}
				if n++; ca != cb {
					differ(w.name, va, vb, a, b)
				}
			}
			for _, f := range []struct {
				what      string
				a, b      float64
				tolerance float64
				skip      bool
			}{
				{"memory", float64(a.MemoryBytes), float64(b.MemoryBytes), 0.08, slice},
				{"SMs", float64(a.SMs), float64(b.SMs), 0, slice},
				{"bus width", float64(a.BusWidthBits), float64(b.BusWidthBits), 0, slice},
				{"highest SM clock", a.MaxSMHz, b.MaxSMHz, 0.02, a.computes() || b.computes()},
				{"highest memory clock", a.MaxMemoryHz, b.MaxMemoryHz, 0.02, a.computes() || b.computes()},
			} {
				if f.skip || f.a <= 0 || f.b <= 0 {
					continue
				}
				if n++; math.Abs(f.a-f.b) > f.tolerance*math.Max(f.a, f.b) {
					differ(f.what, fmt.Sprintf("%.6g", f.a), fmt.Sprintf("%.6g", f.b), a, b)
				}
			}
		}
	}
	check := assay.Check{
		Name:         "identity.sources",
		Proves:       "The programs and libraries that describe this GPU tell the same story.",
		DoesNotProve: "That the story is true: they all ask the driver, and whoever runs the node can replace it.",
	}
	switch {
	case len(bad) > 0:
		check.Verdict, check.Evidence = assay.Fail, strings.Join(bad, "; ")
	case n == 0:
		check.Evidence = "only one source, or nothing that two of them give: nothing to compare"
	default:
		check.Verdict, check.Evidence = assay.Pass, fmt.Sprintf("%d sources agree on %d comparisons", len(ids), n)
	}
	return check
}

func (id Identity) nvidia() bool {
	switch id.Source {
	case "nvml", "nvidia-smi", "cuda":
		return true
	}
	return strings.Contains(strings.ToLower(id.Name), "nvidia")
}

func (id Identity) computes() bool { return id.Source == "cuda" || id.Source == "opencl" }

// catalogueAgrees compares each source with the models of the name that is
// claimed. One variant must fit all sources.
func catalogueAgrees(ids []Identity, c Catalog) assay.Check {
	check := assay.Check{
		Name:         "identity.catalogue",
		Proves:       "The number of processors, the memory's size and its bus are those of the model that is named.",
		DoesNotProve: "That the model is genuine: a driver that was altered to lie about the name can lie about the figures. Speed and the memory check are harder to fake.",
	}
	var models []Model
	var name string
	for _, id := range ids {
		found := c.Find(id.Name)
		if len(found) == 0 {
			continue
		}
		if models != nil && canonicalName(found[0].Name) != canonicalName(models[0].Name) {
			check.Verdict = assay.Fail
			check.Evidence = fmt.Sprintf("one source names %s, another %s", name, id.Name)
			return check
		}
		models, name = found, id.Name
	}
	if models == nil {
		check.Evidence = fmt.Sprintf("the catalogue does not know %q", ids[0].Name)
		return check
	}
	check.Facts = map[string]string{"model": models[0].Name, "catalogue_source": models[0].Source}
	if why := sliced(ids); why != "" {
		check.Evidence = why + ": a part of a GPU is not comparable with the whole"
		return check
	}
	var least []string
	for i, m := range models {
		var bad []string
		known := 0
		for _, id := range ids {
			b, n := m.disagreements(id)
			bad, known = append(bad, b...), known+n
		}
		if known == 0 {
			check.Evidence = "no source gives the processors, the memory's size or its bus"
			return check
		}
		if len(bad) == 0 {
			check.Verdict = assay.Pass
			check.Evidence = fmt.Sprintf("%d figures are those of %s", known, m.Name)
			check.Facts["catalogue_source"] = m.Source
			check.Values = map[string]float64{"peak_fp32_flops": m.FP32, "peak_bandwidth_bytes_per_second": m.Bandwidth}
			return check
		}
		if i == 0 || len(bad) < len(least) {
			least = bad
		}
	}
	check.Verdict = assay.Fail
	check.Evidence = fmt.Sprintf("not a %s: %s", name, strings.Join(least, "; "))
	return check
}

func alone(ids []Identity) assay.Check {
	check := assay.Check{
		Name:         "identity.alone",
		Proves:       "No other process was on the GPU, as far as the driver shows processes.",
		DoesNotProve: "That there is no other tenant: in a container the driver often shows no processes of others.",
		Evidence:     "no source says which processes are on the GPU",
	}
	for _, id := range ids {
		if id.OtherProcesses == nil {
			continue
		}
		n := *id.OtherProcesses
		check.Values = map[string]float64{"other_processes": float64(n)}
		if n > 0 {
			check.Verdict, check.Evidence = assay.Degraded, fmt.Sprintf("%d other processes by %s: speed and free memory are shared", n, id.Source)
			return check
		}
		check.Verdict, check.Evidence = assay.Pass, "no other process by "+id.Source
	}
	return check
}

// model is the catalogue's entry that fits best, for peaks; false without one.
func (c Catalog) model(ids []Identity) (Model, bool) {
	if sliced(ids) != "" {
		return Model{}, false
	}
	for _, id := range ids {
		for _, m := range c.Find(id.Name) {
			fits := true
			for _, other := range ids {
				bad, _ := m.disagreements(other)
				fits = fits && len(bad) == 0
			}
			if fits {
				return m, true
			}
		}
	}
	return Model{}, false
}
