package verify

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// GPUSample is what was read of one GPU at one moment. A nil was not obtained.
type GPUSample struct {
	UsedBytes   *float64 // VRAM in use
	Utilization *float64 // 0 to 1
	PowerWatts  *float64
	// Processes are the driver's rows of processes; nil is not known. In a
	// container the ids are the host's, or there are no rows.
	Processes []GPUProcess
}

// GPUProcess is one process that the driver shows on the GPU.
type GPUProcess struct {
	PID   int
	Bytes float64
}

// ModelSamples are readings of one GPU around an engine's life.
type ModelSamples struct {
	Device     string
	BeforeLoad []GPUSample // before the engine loads its model
	Idle       []GPUSample // the model is loaded, no request under way
	UnderLoad  []GPUSample // requests under way
	EnginePIDs []int       // as this process sees them
	ModelBytes float64     // of the weights; zero is not known
}

// Thresholds of the model-execution check. Between flat and risen lies what
// says nothing.
const (
	vramRisen  = 64 << 20 // bytes; and half of the weights where they are known
	vramFlat   = 32 << 20
	utilRisen  = 0.10
	utilFlat   = 0.03
	powerRisen = 0.10 // of the idle power, and at least 5 W
	powerFlat  = 0.03 // of the idle power, or 2 W
)

// sign is what one kind of reading says.
type sign int8

const (
	absent  sign = iota // not read
	unclear             // read, between the thresholds
	flat
	risen
)

// modelRan judges whether the model ran on one GPU, from readings alone.
//
// An engine is accused only by readings that are there: memory that did not rise
// when the model was loaded, together with utilization or power that stayed idle
// under load. Process ids that do not match accuse nobody: in a container they
// never do.
func modelRan(s ModelSamples) assay.Check {
	c := assay.Check{
		Device:       s.Device,
		Name:         "model.execution",
		Proves:       "While the engine loaded its model and served, this GPU's memory and activity rose with it.",
		DoesNotProve: "Which process did it, unless the driver shows the engine's own, and which model it was: another program that runs at the same time would look the same.",
		Values:       map[string]float64{},
	}
	vram, vramWords := s.vram(c.Values)
	util, utilWords := s.utilization(c.Values)
	power, powerWords := s.power(c.Values)
	c.Evidence = vramWords + "; " + utilWords + "; " + powerWords

	// One sign of activity that rose outweighs one that is unclear.
	active := max(util, power)
	idle := (util == flat || power == flat) && util != risen && power != risen && util != unclear && power != unclear
	switch {
	case vram == absent && active == absent:
		c.Evidence = "no readings of this GPU"
	case vram == flat && idle:
		c.Verdict = assay.Fail
		c.Evidence = "VRAM did not rise, utilization and power stayed idle under load: " + c.Evidence
	case vram == risen && active == risen:
		c.Verdict = assay.Pass
	case vram == unclear && active == risen:
		c.Verdict = assay.Degraded
		c.Evidence = "only a part of the model seems to be on the GPU: " + c.Evidence
	case vram == risen && idle && util != absent && power != absent:
		c.Verdict = assay.Degraded
		c.Evidence = "memory was taken, but the GPU stayed idle under load: " + c.Evidence
	case vram == absent && util == risen && power == risen:
		c.Verdict = assay.Pass
		c.Evidence = "the GPU worked in step with our load: " + c.Evidence
	default:
		c.Evidence = "the readings do not decide it: " + c.Evidence
	}
	if len(c.Values) == 0 {
		c.Values = nil
	}
	return c
}

// vram goes by the engine's own row where the driver shows it, else by the
// change of the whole GPU's memory, else by whether the model could be there at
// all.
func (s ModelSamples) vram(values map[string]float64) (sign, string) {
	need := float64(vramRisen)
	if s.ModelBytes > 0 {
		need = max(need, s.ModelBytes/2)
	}
	if own, ok := s.ownBytes(); ok {
		values["engine_vram_bytes"] = own
		if own >= need {
			return risen, fmt.Sprintf("the engine's own processes hold %.2f GiB of VRAM", own/(1<<30))
		}
	}
	before, okBefore := median(s.BeforeLoad, func(g GPUSample) *float64 { return g.UsedBytes })
	after, okAfter := median(slices.Concat(s.Idle, s.UnderLoad), func(g GPUSample) *float64 { return g.UsedBytes })
	switch {
	case okBefore && okAfter:
		rise := after - before
		values["vram_rise_bytes"] = rise
		words := fmt.Sprintf("VRAM %+.2f GiB when the model was loaded", rise/(1<<30))
		switch {
		case rise >= need:
			return risen, words
		case rise < vramFlat:
			return flat, words
		}
		return unclear, words
	case okAfter && s.ModelBytes > 0 && after < s.ModelBytes/4:
		values["vram_used_bytes"] = after
		return flat, fmt.Sprintf("all VRAM in use is %.2f GiB, the weights alone are %.2f", after/(1<<30), s.ModelBytes/(1<<30))
	case okAfter:
		values["vram_used_bytes"] = after
		return absent, "VRAM before the model was loaded is not known"
	}
	return absent, "VRAM is not known"
}

// ownBytes is the memory of rows whose process ids are the engine's.
func (s ModelSamples) ownBytes() (float64, bool) {
	var most float64
	found := false
	for _, g := range slices.Concat(s.Idle, s.UnderLoad) {
		var sum float64
		for _, p := range g.Processes {
			if slices.Contains(s.EnginePIDs, p.PID) {
				sum += p.Bytes
				found = true
			}
		}
		most = max(most, sum)
	}
	return most, found
}

func (s ModelSamples) utilization(values map[string]float64) (sign, string) {
	get := func(g GPUSample) *float64 { return g.Utilization }
	idle, ok1 := median(s.Idle, get)
	load, ok2 := median(s.UnderLoad, get)
	if !ok1 || !ok2 {
		return absent, "utilization is not known"
	}
	values["utilization_idle"], values["utilization_load"] = idle, load
	is := between(load-idle, utilFlat, utilRisen)
	if is == flat && load >= utilRisen {
		is = unclear // busy before and meanwhile: with what, nobody can tell
	}
	return is, fmt.Sprintf("utilization %.0f %% idle, %.0f %% under load", 100*idle, 100*load)
}

func (s ModelSamples) power(values map[string]float64) (sign, string) {
	get := func(g GPUSample) *float64 { return g.PowerWatts }
	idle, ok1 := median(s.Idle, get)
	load, ok2 := median(s.UnderLoad, get)
	if !ok1 || !ok2 {
		return absent, "power is not known"
	}
	values["power_idle_watts"], values["power_load_watts"] = idle, load
	return between(load-idle, max(2, powerFlat*idle), max(5, powerRisen*idle)), fmt.Sprintf("power %.0f W idle, %.0f W under load", idle, load)
}

func between(rise, low, high float64) sign {
	switch {
	case rise >= high:
		return risen
	case rise < low:
		return flat
	}
	return unclear
}

func median(samples []GPUSample, get func(GPUSample) *float64) (float64, bool) {
	var all []float64
	for _, s := range samples {
		if v := get(s); v != nil && *v == *v && *v >= 0 {
			all = append(all, *v)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2, true
}

// maxFact bounds what a check repeats of a prompt or an answer, in bytes.
const maxFact = 1000

// SameAnswers compares what an engine answered to one prompt at temperature 0.
func SameAnswers(prompt string, answers []string, at time.Time) assay.Check {
	c := assay.Check{
		At:           at.UnixNano(),
		Name:         "model.determinism",
		Proves:       "The engine gave the same answer to the same prompt at temperature 0.",
		DoesNotProve: "Which model answered. Engines do not promise equal answers, so a difference proves nothing either.",
		Facts:        map[string]string{"prompt": foreign.Line(prompt, maxFact)},
	}
	if len(answers) > 0 {
		c.Facts["answer"] = foreign.Line(answers[0], maxFact)
		c.Facts["answer_sha256"] = fmt.Sprintf("%x", sha256.Sum256([]byte(answers[0])))
	}
	switch {
	case len(answers) < 2:
		c.Evidence = "the prompt was not answered twice"
	case slices.ContainsFunc(answers, func(a string) bool { return a != answers[0] }):
		c.Evidence = "the answers differ, as engines that batch may do"
	case answers[0] == "":
		c.Evidence = "the answers are empty"
	default:
		c.Verdict, c.Evidence = assay.Pass, fmt.Sprintf("%d equal answers: %q", len(answers), foreign.Line(answers[0], 80))
	}
	return c.Settled()
}
