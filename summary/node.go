package summary

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

const (
	// seriesMost, sourcesMost and xidsMost bound what readings can make us keep;
	// what lies beyond is passed over, with a warning.
	seriesMost  = 1 << 14
	sourcesMost = 64
	xidsMost    = 64
	// coverageTold is the share of loaded time below which a warning says how
	// much of it the energy is of.
	coverageTold = 0.9

	readingSampling = "sampling_cpu_seconds_total"
	throttledPrefix = "gpu_throttled_"
	secondsSuffix   = "_seconds_total"
)

// node gathers what readings say of GPUs, host and engine.
type node struct {
	periods
	firstLoad int64 // 0: no stage began

	all     map[seriesKey]*series
	hosts   []seriesKey
	engines []seriesKey
	gpus    []*gpu
	byUUID  map[string]*gpu
	alias   map[string]string // of a GPU's other names, in small letters, to its UUID
	wanted  []string          // the GPUs of the manifest, in its order
	sources []string
	cpu     counter
	latest  int64 // of any reading
	beyond  int   // readings of series that were too many
}

type seriesKey struct{ name, device string }

func newNode(m *assay.Manifest, p periods) *node {
	n := &node{periods: p, all: map[seriesKey]*series{}, byUUID: map[string]*gpu{}, alias: map[string]string{}}
	for _, g := range m.Node.GPUs {
		n.wanted = append(n.wanted, g.UUID)
		if g.PCIBusID != "" { // the kernel's log knows no other name
			n.alias[strings.ToLower(g.PCIBusID)] = g.UUID
		}
	}
	if len(n.wanted) == 1 {
		n.alias[""] = n.wanted[0]
	}
	if len(p.loaded) > 0 {
		n.firstLoad = p.loaded[0].from
	}
	return n
}

// reading takes one that is not the client's.
func (n *node) reading(r *assay.Reading) {
	v, ok := value(r)
	if !ok {
		return
	}
	key := seriesKey{r.Name, r.Device}
	s := n.all[key]
	if s == nil {
		if s = n.newSeries(r); s == nil {
			return
		}
		n.all[key] = s
	}
	n.latest = max(n.latest, r.At)
	g := s.gpu
	if g == nil {
		s.add(&n.periods, r, v)
		return
	}
	switch r.Name {
	case assay.GPUXID:
		g.xid(v)
		return
	case assay.GPULost:
		g.lost = g.lost || v == 1
	}
	if r.At > g.any.at {
		g.any.add(&n.periods, &assay.Reading{At: r.At}, 1)
	}
	from, was, follows := s.add(&n.periods, r, v)
	switch r.Name {
	case assay.GPUPower, assay.GPUEnergy:
		if follows {
			g.energy.reading(&n.periods, r.Name, from, was, r.At, v)
		}
		if r.Name == assay.GPUPower && (n.firstLoad == 0 || r.At < n.firstLoad) {
			g.energy.idle(v)
		}
	}
}

// newSeries begins one; nil: it is of no interest, or one too many.
func (n *node) newSeries(r *assay.Reading) *series {
	kind, _, _ := strings.Cut(r.Name, "_")
	if kind != "gpu" && kind != "host" && kind != "engine" {
		return nil
	}
	if len(n.all) >= seriesMost {
		n.beyond++
		return nil
	}
	if !slices.Contains(n.sources, r.Source) && len(n.sources) < sourcesMost {
		n.sources = append(n.sources, r.Source)
	}
	s := &series{}
	if n.watched.to > n.watched.from && watchedForTrend(r.Name) {
		s.trend = &slots[average]{anchor: n.watched.anchor, width: n.width, merge: mergeAverage}
	}
	switch kind {
	case "host":
		n.hosts = append(n.hosts, seriesKey{r.Name, r.Device})
	case "engine":
		n.engines = append(n.engines, seriesKey{r.Name, r.Device})
	case "gpu":
		s.gpu = n.gpuOf(r)
		if old := s.gpu.series[r.Name]; old != nil {
			return old // the same GPU by another of its names
		}
		s.gpu.series[r.Name] = s
		s.gpu.names = append(s.gpu.names, r.Name)
	}
	return s
}

// finish lets the last readings stand for as long as they may.
func (n *node) finish() {
	for _, s := range n.all {
		if s.seen {
			s.hold(&n.periods, n.latest)
			s.at = max(s.at, n.latest) // an aliased series is held once
		}
	}
	for _, g := range n.gpus {
		if g.any.seen {
			g.any.hold(&n.periods, n.latest)
		}
	}
	slices.SortStableFunc(n.gpus, func(a, b *gpu) int { return n.rank(a) - n.rank(b) })
}

// rank puts GPUs into the manifest's order, others behind it.
func (n *node) rank(g *gpu) int {
	if i := slices.Index(n.wanted, g.uuid); i >= 0 {
		return i
	}
	return len(n.wanted)
}

// fill puts what readings say into a summary.
func (n *node) fill(out *assay.Summary) {
	n.finish()
	warn := func(kind, format string, args ...any) {
		out.Warnings = append(out.Warnings, assay.Warning{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	if n.beyond > 0 {
		warn("more_readings", "%d readings are of more than %d kinds and devices, and are left out", n.beyond, seriesMost)
	}
	var measured []assay.GPUSummary
	missing := slices.Clone(n.wanted)
	for _, g := range n.gpus {
		s := g.summary()
		out.GPUs = append(out.GPUs, s)
		if !g.measured() {
			continue
		}
		measured = append(measured, s)
		missing = slices.DeleteFunc(missing, func(u string) bool { return u == g.uuid })
		e := s.Energy
		if e == nil {
			continue
		}
		if e.Refused != "" {
			warn("energy_counter_refused", "the energy counter of GPU %s is not used: %s", g.uuid, e.Refused)
		}
		if e.Disagreement != nil && math.Abs(*e.Disagreement) > energyOff {
			warn("energy_disagrees", "energy of GPU %s is %.1f J by its counter and %.1f J by integrated power (%+.1f %%)", g.uuid, *e.Counter, *e.Integrated, *e.Disagreement*100)
		}
		if b := g.energy.best(); b != nil && e.Joules != nil && g.any.held > 0 && b.ns < coverageTold*n.loadedNS() {
			warn("energy_gaps", "energy of GPU %s is that of %.0f %% of the time under load: it was not read in the rest", g.uuid, b.ns/n.loadedNS()*100)
		}
	}
	var why string
	if out.Energy, why = together(measured, missing); why != "" {
		warn("energy_incomplete", "%s", why)
	}
	out.Host = n.host()
	out.Sampling = n.sampling()
	out.Restarts = n.restarts()
}

// loadedNS is the time under load, to the last reading where a stage has no end.
func (n *node) loadedNS() float64 { return float64(n.loaded.overlap(0, n.latest)) }

// host merges what is read of several devices: counters add up, the rest is
// their mean. A reading of the whole is taken where there is one.
func (n *node) host() *assay.HostSummary {
	h := &assay.HostSummary{Stats: map[string]assay.ReadingStats{}}
	parts := map[string]int{}
	for _, key := range n.hosts {
		st, ok := n.all[key].stats()
		if !ok {
			continue
		}
		if _, whole := n.all[seriesKey{key.name, ""}]; whole && key.device != "" {
			continue
		}
		if k := parts[key.name]; k > 0 {
			st = joined(h.Stats[key.name], st, k, strings.HasSuffix(key.name, "_total"))
		}
		h.Stats[key.name] = st
		parts[key.name]++
	}
	if len(h.Stats) == 0 {
		return nil
	}
	return h
}

// joined adds one more device to the stats of k.
func joined(a, b assay.ReadingStats, k int, adds bool) assay.ReadingStats {
	out := assay.ReadingStats{N: a.N + b.N, Min: min(a.Min, b.Min), Max: max(a.Max, b.Max)}
	if adds {
		out.First, out.Last, out.Min, out.Max, out.Mean = a.First+b.First, a.Last+b.Last, a.Min+b.Min, a.Max+b.Max, a.Mean+b.Mean
		return out
	}
	mean := func(x, y float64) float64 { return (x*float64(k) + y) / float64(k+1) }
	out.First, out.Last, out.Mean = mean(a.First, b.First), mean(a.Last, b.Last), mean(a.Mean, b.Mean)
	return out
}

// restarts counts how often the engine began anew: by the start time that it reports
// began, else by its counters, of which several fall together.
func (n *node) restarts() int {
	times := map[string]int{}
	for _, key := range n.engines {
		s := n.all[key]
		switch {
		case key.name == assay.EngineStarted:
			times[key.device] = max(times[key.device], s.rises)
		case strings.HasSuffix(key.name, "_total"):
			times[key.device] = max(times[key.device], s.falls)
		}
	}
	total := 0
	for _, k := range times {
		total += k
	}
	return total
}

// sampling is what the readings cost; nil when nobody but the client read
// anything.
func (n *node) sampling() *assay.Sampling {
	cost := n.cpu.share(1)
	if len(n.sources) == 0 && cost == nil {
		return nil
	}
	s := &assay.Sampling{Sources: slices.Clone(n.sources), CPUShare: cost}
	slices.Sort(s.Sources)
	if s.Sources == nil {
		s.Sources = []string{}
	}
	for _, r := range n.all {
		if gap := r.interval(); gap > 0 && (s.IntervalNS == 0 || gap < s.IntervalNS) {
			s.IntervalNS = gap
		}
	}
	return s
}

// watchedForTrend are the readings whose course over the longest stage is kept.
func watchedForTrend(name string) bool {
	switch name {
	case assay.GPUMemoryUsed, assay.GPUSMClock, assay.EngineResidentMemory, assay.EngineKVCache:
		return true
	}
	return strings.HasPrefix(name, throttledPrefix) && !strings.HasSuffix(name, secondsSuffix)
}
