package telemetry

import (
	"bytes"
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay"
)

// ExportOptions say what is exported.
type ExportOptions struct {
	// Interval of the readings; 0: 100 ms. What is older than ten of them, and
	// than five seconds, is left out: stale is absent.
	Interval time.Duration
	// DCGM adds the names that dashboards for dcgm-exporter look for.
	DCGM bool
	// Hostname and GPUs are for the labels.
	Hostname string
	GPUs     []assay.GPU
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Export holds what is newest, and serves it as a Prometheus page: the readings
// under their names with assay_ before them, and the run's checkpoint as
// assay_run_*.
type Export struct {
	o     ExportOptions
	table map[string]assay.ReadingName

	mu         sync.Mutex
	gpu        map[string]assay.GPU
	readings   map[exported]heard
	checkpoint assay.Checkpoint
	running    bool // there is a checkpoint
}

type exported struct{ name, source, device string }

// maxExported bounds what is held, whatever the sources say.
const maxExported = 65536

// NewExport makes an empty one.
func NewExport(o ExportOptions) *Export {
	if o.Interval <= 0 {
		o.Interval = 100 * time.Millisecond
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Export{o: o, table: map[string]assay.ReadingName{}, gpu: map[string]assay.GPU{}, readings: map[exported]heard{}}
	for _, n := range assay.ReadingNames() {
		e.table[n.Name] = n
	}
	e.GPUs(o.GPUs)
	return e
}

// GPUs tells which GPUs there are, for the labels, once they are known.
func (e *Export) GPUs(all []assay.GPU) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range all {
		e.gpu[g.UUID] = g
	}
}

// Reading takes a reading. Histograms are not exported.
func (e *Export) Reading(r assay.Reading) {
	if r.Value == nil || math.IsNaN(*r.Value) || math.IsInf(*r.Value, 0) || !goodName(r.Name) {
		return
	}
	key := exported{r.Name, r.Source, r.Device}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.readings[key]; ok || len(e.readings) < maxExported {
		e.readings[key] = heard{*r.Value, e.o.Now()}
	}
}

// Checkpoint takes the run's state.
func (e *Export) Checkpoint(c assay.Checkpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checkpoint, e.running = c, true
}

// ServeHTTP writes the page.
func (e *Export) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(e.page()) // who went away does not need to be told
}

func (e *Export) page() []byte {
	var p families
	e.mu.Lock()
	defer e.mu.Unlock()
	stale := e.o.Now().Add(-max(10*e.o.Interval, 5*time.Second))
	for key, h := range e.readings {
		if h.at.Before(stale) {
			delete(e.readings, key)
			continue
		}
		n, known := e.table[key.name]
		if !known {
			n = assay.ReadingName{Help: "Of the measuring process; docs/formats/run.md has the names.", Counter: strings.HasSuffix(key.name, "_total")}
		}
		p.add("assay_"+key.name, n.Counter, n.Help, h.value, e.labels(key)...)
		if e.o.DCGM && n.DCGM != "" {
			if g, ok := e.gpu[key.device]; ok {
				p.add(n.DCGM, n.Counter, n.Help, h.value*n.DCGMFactor, e.dcgmLabels(g)...)
			}
		}
	}
	if e.running {
		e.run(&p)
	}
	return p.text()
}

func (e *Export) labels(key exported) []label {
	out := []label{{"source", key.source}}
	if key.device != "" {
		out = append(out, label{"device", key.device})
	}
	if g, ok := e.gpu[key.device]; ok {
		out = append(out, label{"gpu", strconv.Itoa(g.Index)}, label{"UUID", g.UUID}, label{"modelName", g.Name})
		if e.o.Hostname != "" {
			out = append(out, label{"Hostname", e.o.Hostname})
		}
	}
	return out
}

// dcgmLabels are those of dcgm-exporter, whether there is a value or not.
func (e *Export) dcgmLabels(g assay.GPU) []label {
	i := strconv.Itoa(g.Index)
	return []label{{"gpu", i}, {"UUID", g.UUID}, {"pci_bus_id", g.PCIBusID}, {"device", "nvidia" + i}, {"modelName", g.Name}, {"Hostname", e.o.Hostname}}
}

// run adds the checkpoint.
func (e *Export) run(p *families) {
	c := e.checkpoint
	gauge := func(name, help string, v float64, l ...label) { p.add("assay_run_"+name, false, help, v, l...) }
	gauge("info", "The run's status and stage.", 1, label{"status", string(c.Status)}, label{"stage", c.Stage})
	gauge("stage_number", "Which stage is under way, from 1.", float64(c.StageN))
	if c.StageOf > 0 {
		gauge("stage_count", "How many stages there will be.", float64(c.StageOf))
	}
	gauge("elapsed_seconds", "Since the run began.", float64(c.ElapsedNS)/1e9)
	if c.LeftNS > 0 {
		gauge("left_seconds", "Until the run's end, by estimate.", float64(c.LeftNS)/1e9)
	}
	gauge("requests_sent", "Requests that were sent.", float64(c.Sent))
	gauge("requests_done", "Requests that ended, well or not.", float64(c.Done))
	gauge("requests_in_flight", "Requests under way.", float64(c.InFlight))
	gauge("requests_waiting", "Requests that are due and held by the cap.", float64(c.Waiting))
	for class, n := range c.Errors {
		gauge("requests_failed", "Requests that failed, by class.", float64(n), label{"class", string(class)})
	}
	gauge("requests_per_second", "Of the last ten seconds of this stage.", c.RequestRate)
	gauge("output_tokens_per_second", "Of the last ten seconds of this stage.", c.TokenRate)
	for q, ms := range map[string]*float64{"0.5": c.TTFTp50, "0.99": c.TTFTp99} {
		if ms != nil {
			gauge("ttft_seconds", "Time to first token in the last ten seconds of this stage.", *ms/1e3, label{"quantile", q})
		}
	}
}

// families collects a page's lines by name: the format wants them together.
type families struct {
	by map[string]*family
}

type family struct {
	kind, help string
	lines      map[string]float64 // by labels; the same labels twice would make the page invalid
}

func (f *families) add(name string, counter bool, help string, v float64, labels ...label) {
	if f.by == nil {
		f.by = map[string]*family{}
	}
	m := f.by[name]
	if m == nil {
		m = &family{kind: "gauge", help: help, lines: map[string]float64{}}
		if counter {
			m.kind = "counter"
		}
		f.by[name] = m
	}
	var b strings.Builder
	for i, l := range labels {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(l.name + `="` + escapeLabel.Replace(strings.ToValidUTF8(l.value, "?")) + `"`)
	}
	if len(labels) > 0 {
		b.WriteByte('}')
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	m.lines[b.String()] = v
}

var (
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

func (f *families) text() []byte {
	var b bytes.Buffer
	for _, name := range sorted(f.by) {
		m := f.by[name]
		if len(m.lines) == 0 {
			continue
		}
		b.WriteString("# HELP " + name + " " + escapeHelp.Replace(m.help) + "\n# TYPE " + name + " " + m.kind + "\n")
		for _, labels := range sorted(m.lines) {
			b.WriteString(name + labels + " ")
			b.Write(strconv.AppendFloat(nil, m.lines[labels], 'g', -1, 64))
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
