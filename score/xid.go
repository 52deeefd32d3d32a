package score

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/assay-bench/assay"
)

// xidMeaning is what an error of the driver's list says of the GPU.
type xidMeaning struct {
	cause   string
	verdict assay.Verdict // Unknown: recorded, not judged
	hard    bool          // uncorrectable memory errors, and off the bus
	action  string
}

const (
	actReset   = "drain the GPU and reset it; replace it if the error comes back"
	actReplace = "take the GPU out and have it replaced"
	actPower   = "check seating, power and cooling, restart the node; replace the GPU if it happens again"
	actLinks   = "check the NVLink bridges or the baseboard, reset the GPUs"
	actDriver  = "reset the GPU; if it happens again, change the driver's version"
)

// xids follows NVIDIA's list of XID errors. Numbers that are not in it are
// recorded and not judged.
var xids = map[int]xidMeaning{
	48:  {"a double bit error in memory that ECC could not correct", assay.Fail, true, actReset},
	64:  {"a bad page or row of memory could not be recorded for retirement", assay.Fail, false, actReplace},
	74:  {"an error on an NVLink", assay.Fail, false, actLinks},
	79:  {"the GPU has fallen off the bus", assay.Fail, true, actPower},
	92:  {"a high rate of corrected single bit errors", assay.Fail, false, actReplace},
	95:  {"an uncorrectable memory error that could not be contained", assay.Fail, true, actReset},
	119: {"the GPU's system processor did not answer a call in time", assay.Fail, false, actDriver},
	120: {"an error of the GPU's system processor", assay.Fail, false, actDriver},
	140: {"an uncorrectable memory error that was not recovered", assay.Fail, true, actReset},

	63: {"a bad page or row of memory was recorded for retirement", assay.Degraded, false, "reset the GPU at the next chance, so that the row is replaced"},
	94: {"an uncorrectable memory error, contained to one program", assay.Degraded, false, "restart the program; reset the GPU at the next chance"},

	13: {"an exception of the graphics engine, of the program", assay.Unknown, false, ""},
	31: {"a memory page fault, of the program", assay.Unknown, false, ""},
	43: {"a channel was stopped after an error of the program", assay.Unknown, false, ""},
	45: {"channels were cleaned up after a program ended or an earlier error", assay.Unknown, false, ""},
}

// xidRecovery is "recovery action changed": the action itself says how bad.
const xidRecovery = 154

// maxXIDs bounds how many different numbers of one GPU are told.
const maxXIDs = 32

func judgeXIDs(g gpu) []assay.Finding {
	type seen struct{ number, times int }
	var all []seen
	for key, times := range g.XIDs {
		if n, err := strconv.Atoi(key); err == nil && n > 0 && times > 0 {
			all = append(all, seen{n, times})
		}
	}
	rank := func(s seen) int { v, _ := g.xid(s.number); return -int(v.verdict) }
	slices.SortFunc(all, func(a, b seen) int { return cmp.Or(rank(a)-rank(b), a.number-b.number) })
	var out []assay.Finding
	for _, s := range all[:min(len(all), maxXIDs)] {
		m, listed := g.xid(s.number)
		f := assay.Finding{
			Verdict: m.verdict, Hard: m.hard, Action: m.action,
			Text:   "XID " + strconv.Itoa(s.number) + " " + times(s.times) + ": " + m.cause,
			Values: map[string]float64{"xid": float64(s.number), "times": float64(s.times)},
		}
		if !listed {
			f.Text = "XID " + strconv.Itoa(s.number) + " " + times(s.times) + ": not in our list; recorded, not judged"
		} else if m.verdict == assay.Unknown {
			f.Text += "; recorded, not judged"
		}
		out = append(out, f)
	}
	return out
}

// xid looks a number up; 154 takes its verdict from the recovery action.
func (g gpu) xid(n int) (xidMeaning, bool) {
	if n != xidRecovery {
		m, ok := xids[n]
		return m, ok
	}
	a, ok := g.recovery()
	if !ok {
		return xidMeaning{"the driver changed what it asks for to recover, and the action could not be read", assay.Degraded, false, "read it: nvidia-smi -q"}, true
	}
	return xidMeaning{"the driver changed what it asks for to recover: " + a.words, a.verdict, false, a.words}, true
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// recoveryAction is one value of the driver's recovery action.
type recoveryAction struct {
	words   string
	verdict assay.Verdict
}

// recoveryActions are NVML's; a fault that leaves the GPU unusable until
// something is done fails, one that lets running work end degrades.
var recoveryActions = map[int]recoveryAction{
	1: {"reset the GPU", assay.Fail},
	2: {"restart the node", assay.Fail},
	3: {"drain peer to peer traffic", assay.Degraded},
	4: {"drain the GPU and reset it", assay.Degraded},
	5: {"recover the IMEX domain", assay.Degraded},
	6: {"reset the GPU's PCIe bus", assay.Fail},
	7: {"restart the system", assay.Fail},
}

// recovery is the worst action that was asked for under load. The codes are not
// in the order of their weight, so every one that the statistics keep is looked
// at. ok is false where none was read or none was asked for.
func (g gpu) recovery() (worst recoveryAction, ok bool) {
	s, read := g.Stats[assay.GPURecoveryAction]
	if !read || s.N == 0 {
		return worst, false
	}
	for _, v := range []float64{s.First, s.Last, s.Min, s.Max} {
		if !(v >= 1) || v > 1e6 {
			continue
		}
		a, listed := recoveryActions[int(v)]
		if !listed {
			a = recoveryAction{"action " + num(v) + " of a newer driver", assay.Degraded}
		}
		if a.verdict > worst.verdict {
			worst, ok = a, true
		}
	}
	return worst, ok
}
