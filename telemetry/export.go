package telemetry

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/promtext"
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
	readings   map[exported]lastValue
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
	e := &Export{o: o, table: map[string]assay.ReadingName{}, gpu: map[string]assay.GPU{}, readings: map[exported]lastValue{}}
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
		e.readings[key] = lastValue{*r.Value, e.o.Now()}
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
	w.Header().Set("Content-Type", promtext.ContentType)
	_, _ = w.Write(e.page()) // who went away does not need to be told
}

func (e *Export) page() []byte {
	var p promtext.Page
	e.mu.Lock()
	defer e.mu.Unlock()
	stale := e.o.Now().Add(-max(10*e.o.Interval, 5*time.Second))
	maps.DeleteFunc(e.readings, func(_ exported, h lastValue) bool { return h.at.Before(stale) })
	for _, key := range slices.SortedFunc(maps.Keys(e.readings), exported.compare) {
		n, known := e.table[key.name]
		if !known {
			n = assay.ReadingName{Help: "Of the measuring process; docs/formats/run.md has the names.", Counter: strings.HasSuffix(key.name, "_total")}
		}
		kind, v := promtext.Gauge, e.readings[key].value
		if n.Counter {
			kind = promtext.Counter
		}
		p.Family("assay_"+key.name, kind, n.Help).Add(v, e.labels(key)...)
		if e.o.DCGM && n.DCGM != "" {
			if g, ok := e.gpu[key.device]; ok {
				p.Family(n.DCGM, kind, n.Help).Add(v*n.DCGMFactor, e.dcgmLabels(g)...)
			}
		}
	}
	if e.running {
		e.run(&p)
	}
	return p.Bytes()
}

func (k exported) compare(l exported) int {
	return cmp.Or(cmp.Compare(k.name, l.name), cmp.Compare(k.source, l.source), cmp.Compare(k.device, l.device))
}

// labels are pairs of a name and a value.
func (e *Export) labels(key exported) []string {
	out := []string{"source", key.source}
	if key.device != "" {
		out = append(out, "device", key.device)
	}
	if g, ok := e.gpu[key.device]; ok {
		out = append(out, "gpu", strconv.Itoa(g.Index), "UUID", g.UUID, "modelName", g.Name)
		if e.o.Hostname != "" {
			out = append(out, "Hostname", e.o.Hostname)
		}
	}
	return out
}

// dcgmLabels are those of dcgm-exporter, whether there is a value or not.
func (e *Export) dcgmLabels(g assay.GPU) []string {
	i := strconv.Itoa(g.Index)
	return []string{"gpu", i, "UUID", g.UUID, "pci_bus_id", g.PCIBusID, "device", "nvidia" + i, "modelName", g.Name, "Hostname", e.o.Hostname}
}

// run adds the checkpoint.
func (e *Export) run(p *promtext.Page) {
	c := e.checkpoint
	gauge := func(name, help string, v float64, labels ...string) {
		p.Gauge("assay_run_"+name, help, v, labels...)
	}
	gauge("info", "The run's status and stage.", 1, "status", string(c.Status), "stage", c.Stage)
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
	for _, class := range slices.Sorted(maps.Keys(c.Errors)) {
		gauge("requests_failed", "Requests that failed, by class.", float64(c.Errors[class]), "class", string(class))
	}
	gauge("requests_per_second", "Of the last ten seconds of this stage.", c.RequestRate)
	gauge("output_tokens_per_second", "Of the last ten seconds of this stage.", c.TokenRate)
	ttft := func(quantile string, ms *float64) {
		if ms != nil {
			gauge("ttft_seconds", "Time to first token in the last ten seconds of this stage.", *ms/1e3, "quantile", quantile)
		}
	}
	ttft("0.5", c.TTFTp50)
	ttft("0.99", c.TTFTp99)
}
