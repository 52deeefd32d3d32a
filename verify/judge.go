package verify

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/assay-bench/assay"
)

// The rules of speed.
const (
	// MinSpeedup is how many times faster than the CPU a GPU must be.
	MinSpeedup = 2
	// MinPeakShare is the share of the model's peak below which a GPU is
	// suspected. A plain kernel like ours reaches 0.3 to 0.6 of most peaks, and
	// half of that where the peak counts paired operations (MI300).
	MinPeakShare = 0.10
	// MaxPeakShare is the share of the peak that no such model reaches, factory
	// overclocking included.
	MaxPeakShare = 1.25
	// minEventShare is how much of the host's time the device's events must
	// cover: if less, the two clocks do not speak of the same work.
	minEventShare = 0.5
)

const ownersHardware = "Which hardware did it: the node's owner can send the work to another machine of theirs, and can replace the driver."

// result makes the checks from what came in; err is what ended the child.
func (in *intake) result(err error) Result {
	res := Result{Devices: in.devices, Operations: in.ops}
	now := in.o.Now()
	catalog, catErr := ShippedCatalog()
	if catErr != nil {
		catalog = nil // a test reads the shipped file; without it every model is unknown
	}
	ids := append([]Identity(nil), in.o.Identities...)
	for _, d := range in.devices {
		ids = append(ids, d.Identity)
	}
	groups := Group(ids)
	for _, g := range groups {
		res.Checks = append(res.Checks, CheckIdentity(g, catalog, now)...)
	}
	if errors.Is(err, ErrCPUDevice) || errors.Is(err, ErrNoDevice) {
		res.Checks = append(res.Checks, refusedCheck(err, now))
	}
	var cpu float64
	for _, d := range in.devices {
		// Nothing is measured after a deadline: whoever set it wants an answer.
		if len(in.products[d.Index]) > 0 && cpu == 0 && err == nil {
			cpu = cpuRate(in.o.Size)
		}
		group := []Identity{d.Identity}
		if i := find(groups, func(id Identity) bool { return id == d.Identity }); i >= 0 {
			group = groups[i]
		}
		model, known := catalog.model(group)
		if !known {
			model = Model{}
		}
		for _, c := range in.device(d, model, cpu, err) {
			c.At, c.Device = now.UnixNano(), deviceName(group, d.Key())
			res.Checks = append(res.Checks, c)
		}
	}
	for i := range res.Checks {
		res.Checks[i] = res.Checks[i].Settled()
	}
	return res
}

func refusedCheck(err error, now time.Time) assay.Check {
	c := assay.Check{
		At: now.UnixNano(), Name: "compute.device", Evidence: err.Error(),
		Proves:       "The libraries show a GPU on which to compute.",
		DoesNotProve: "That no GPU exists: a container may hide one.",
	}
	if errors.Is(err, ErrCPUDevice) {
		c.Verdict = assay.Fail
		c.Evidence += "; nothing was run on it"
	}
	return c
}

// device judges one device's products and memory.
func (in *intake) device(d DeviceInfo, m Model, cpu float64, err error) []assay.Check {
	var checks []assay.Check
	if !in.o.SkipCompute {
		var golden, challenge *verdictOf
		for i, p := range in.products[d.Index] {
			switch {
			case p.Seed == GoldenSeed && golden == nil:
				golden = &in.products[d.Index][i]
			case p.Seed == in.o.Challenge:
				challenge = &in.products[d.Index][i]
			}
		}
		why := in.why(d.Index, "compute", err)
		checks = append(checks, goldenCheck(golden, in.o.Size, why), challengeCheck(challenge, why), speedCheck(challenge, d, m, cpu, why))
	}
	if in.o.Memory {
		r, ok := in.memories[d.Index]
		checks = append(checks, memoryChecks(r, ok, m, in.why(d.Index, "memory", err))...)
	}
	return checks
}

// why is the reason for which a step has no result.
func (in *intake) why(index int, step string, err error) string {
	for _, f := range in.failures[index] {
		if f.Step == step {
			return f.Text
		}
	}
	if err != nil {
		return err.Error()
	}
	return "the driver's process sent nothing"
}

func goldenCheck(p *verdictOf, n int, why string) assay.Check {
	c := assay.Check{
		Name:         "compute.golden",
		Proves:       "The device computed a known product right to the last bit.",
		DoesNotProve: "That it was computed now: the answer is public. " + ownersHardware,
	}
	if p == nil {
		c.Evidence = "not computed: " + why
		return c
	}
	want, ok := GoldenHash(n)
	if !ok {
		a, b := Inputs(GoldenSeed, n)
		want = Hash(cpuProduct(a, b, n))
	}
	c.Facts = map[string]string{"sha256": p.hash, "expected_sha256": want}
	c.Verdict, c.Evidence = assay.Pass, fmt.Sprintf("%d×%d float32, SHA-256 %.16s… as it must be", n, n, want)
	if p.hash != want {
		c.Verdict, c.Evidence = assay.Fail, fmt.Sprintf("%d×%d float32, SHA-256 %.16s… instead of %.16s…", n, n, p.hash, want)
		if p.wrong != nil {
			c.Evidence += ": " + p.wrong.Error()
		}
	}
	return c
}

func challengeCheck(p *verdictOf, why string) assay.Check {
	c := assay.Check{
		Name:         "compute.challenge",
		Proves:       fmt.Sprintf("The product of fresh inputs is right in every element (Freivalds; a wrong one passes with a probability below %.0e).", 5e-19),
		DoesNotProve: ownersHardware + " Only the last of the repeated products is checked, so a fault that comes and goes can be missed. One GPU that answers for two is not noticed here.",
	}
	if p == nil {
		c.Evidence = "not computed: " + why
		return c
	}
	c.Facts = map[string]string{"seed": fmt.Sprintf("%#x", p.Seed), "sha256": p.hash}
	c.Verdict, c.Evidence = assay.Pass, fmt.Sprintf("seed %#x, after %d repeats, every row is the product's", p.Seed, p.Repeats)
	if p.wrong != nil {
		c.Verdict, c.Evidence = assay.Fail, fmt.Sprintf("seed %#x: %v", p.Seed, p.wrong)
	}
	return c
}

func speedCheck(p *verdictOf, d DeviceInfo, m Model, cpu float64, why string) assay.Check {
	c := assay.Check{
		Name:         "compute.speed",
		Proves:       fmt.Sprintf("The product ran at least %d times faster than on all cores of this machine's CPU, by the device's events after waiting for it.", MinSpeedup),
		DoesNotProve: "How fast a model is served. " + ownersHardware,
	}
	if p == nil || p.DeviceSeconds <= 0 || p.WallSeconds <= 0 || cpu <= 0 {
		c.Evidence = "not measured: " + why
		return c
	}
	work := flop(p.N) * float64(p.Repeats)
	rate := work / p.DeviceSeconds
	c.Values = map[string]float64{
		"device_flops": rate, "wall_flops": work / p.WallSeconds, "best_flops": flop(p.N) / p.BestSeconds,
		"cpu_flops": cpu, "speedup": rate / cpu, "repeats": float64(p.Repeats),
		"device_seconds": p.DeviceSeconds, "wall_seconds": p.WallSeconds,
	}
	c.Facts = map[string]string{"cpu_cores": fmt.Sprint(runtime.GOMAXPROCS(0)), "device_type": d.Type}
	c.Evidence = fmt.Sprintf("%.4g GFLOP/s over %d products in %.2f s, CPU %.4g: %.1f times", rate/1e9, p.Repeats, p.DeviceSeconds, cpu/1e9, rate/cpu)
	share := 0.0
	if m.FP32 > 0 {
		share = rate / m.FP32
		c.Values["peak_share"] = share
		c.Evidence += fmt.Sprintf("; %.0f %% of the model's peak", 100*share)
	}
	events := p.DeviceSeconds / p.WallSeconds
	switch {
	case p.wrong != nil:
		c.Verdict = assay.Unknown
		c.Evidence += "; the product was wrong, so its speed says nothing"
	case events < minEventShare || events > 1.05:
		c.Evidence += fmt.Sprintf("; the device's events cover %.0f %% of the host's time, so one of the clocks is not to be trusted", 100*events)
	case rate < MinSpeedup*cpu:
		c.Verdict = assay.Fail
		c.Evidence += fmt.Sprintf(", %d are needed", MinSpeedup)
	case share > MaxPeakShare:
		c.Verdict = assay.Fail
		c.Evidence += ": faster than this model can be"
	case m.FP32 > 0 && share < MinPeakShare:
		c.Verdict = assay.Degraded
		c.Evidence += fmt.Sprintf(", below %.0f %%: not this model, or something slows it", 100*MinPeakShare)
	default:
		c.Verdict = assay.Pass
	}
	return c
}

// cpuRate is the speed of gonum on all cores: the best of at least two products
// and half a second, which is the strictest for the GPU.
func cpuRate(n int) float64 {
	a, b := Inputs(GoldenSeed, n)
	var best float64
	start := time.Now()
	for i := 0; i < 2 || time.Since(start) < 500*time.Millisecond; i++ {
		t := time.Now()
		cpuProduct(a, b, n)
		best = max(best, flop(n)/time.Since(t).Seconds())
	}
	return best
}
