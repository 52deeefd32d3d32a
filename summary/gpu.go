package summary

import (
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
)

// gpu is what readings say of one GPU.
type gpu struct {
	uuid, source string
	names        []string
	series       map[string]*series
	any          series // the time that any reading covers
	xids         map[int]int
	lost         bool
	energy       energy
}

func (n *node) gpuOf(r *assay.Reading) *gpu {
	uuid := r.Device
	if to, ok := n.alias[strings.ToLower(uuid)]; ok {
		uuid = to
	}
	g := n.byUUID[uuid]
	if g == nil {
		g = &gpu{uuid: uuid, series: map[string]*series{}, xids: map[int]int{}}
		g.energy.counter, g.energy.power = newFlow(&n.periods), newFlow(&n.periods)
		n.byUUID[uuid] = g
		n.gpus = append(n.gpus, g)
	}
	if g.source == "" && r.Name != assay.GPUXID {
		g.source = r.Source
	}
	return g
}

func (g *gpu) xid(v float64) {
	code := int(v)
	if v < 1 || v > 1e6 || len(g.xids) >= xidsMost && g.xids[code] == 0 {
		return
	}
	g.xids[code]++
}

func (g *gpu) summary() assay.GPUSummary {
	s := assay.GPUSummary{
		UUID: g.uuid, Source: g.source, Stats: map[string]assay.ReadingStats{}, LoadedSeconds: g.any.held / 1e9,
		Throttled: map[string]float64{}, XIDs: map[string]int{}, Lost: g.lost, Energy: g.energy.summary(),
	}
	for name, r := range g.series {
		if st, ok := r.stats(); ok {
			s.Stats[name] = st
		}
		reason, ok := strings.CutPrefix(name, throttledPrefix)
		if !ok {
			continue
		}
		// The counter is exact; a flag is only what it was when somebody looked.
		if reason, exact := strings.CutSuffix(reason, secondsSuffix); exact {
			if r.over > 0 {
				s.Throttled[reason] = share(r.rise / (r.over / 1e9))
			}
		} else if c := g.series[name+secondsSuffix]; r.held > 0 && (c == nil || c.over == 0) {
			s.Throttled[reason] = share(r.area / r.held)
		}
	}
	for code, k := range g.xids {
		s.XIDs[strconv.Itoa(code)] = k
	}
	if r := g.series[assay.GPUPCIeReplays]; r != nil && r.over > 0 {
		v := r.rise / (r.over / 60e9)
		s.ReplaysPerMinute = &v
	}
	return s
}

func share(v float64) float64 { return min(1, max(0, v)) }

// measured reports whether the GPU had readings besides errors of the driver.
func (g *gpu) measured() bool { return g.any.seen }

// stageJoules is the energy that all GPUs used in a stage's steady window, and
// in each of count windows of so many ns from the first on; nil where that of
// one of them is not known for at least coveredLeast of it.
func (n *node) stageJoules(stage int, window span, width, first int64, count int) (total *float64, windows []float64) {
	i := slices.IndexFunc(n.steady, func(s steadySpan) bool { return s.stage == stage })
	if i < 0 || window.to <= window.from {
		return nil, nil
	}
	windows = make([]float64, count)
	sum, seen := 0.0, 0
	for _, g := range n.gpus {
		if !g.measured() {
			continue
		}
		b := g.energy.best()
		if b == nil || b.stages[i].ns < coveredLeast*float64(window.to-window.from) {
			return nil, nil
		}
		seen++
		st := &b.stages[i]
		sum += st.joules
		st.windows.widen(width)
		for k := range windows {
			if v := st.windows.get(first + int64(k)); v != nil {
				windows[k] += *v
			}
		}
	}
	if seen == 0 || seen < len(n.wanted) {
		return nil, nil
	}
	return &sum, windows
}
