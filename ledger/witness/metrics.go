package witness

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/promtext"
)

// counters are what a witness tells of itself, since its start. They have a lock
// of their own in Witness.mu: a log that waits for a disk does not hold them up.
type counters struct {
	cosigned map[string]uint64         // by origin
	refused  map[string]map[int]uint64 // by origin and status; "": of no log that is known here
	found    map[string]map[finding]uint64
	size     map[string]uint64 // of the tree that was signed last
	time     map[string]int64  // when, in Unix seconds
}

func (w *Witness) begin() {
	w.m = counters{map[string]uint64{}, map[string]map[int]uint64{}, map[string]map[finding]uint64{}, map[string]uint64{}, map[string]int64{}}
	for origin, l := range w.logs {
		w.m.cosigned[origin], w.m.refused[origin], w.m.found[origin] = 0, map[int]uint64{}, map[finding]uint64{}
		if l.last.raw != nil {
			w.m.size[origin], w.m.time[origin] = l.last.size, l.last.time
		}
	}
	w.m.refused[""] = map[int]uint64{}
}

// refuse answers a request that is not signed for, and counts it.
func (w *Witness) refuse(rw http.ResponseWriter, origin, words string, status int) {
	w.mu.Lock()
	w.m.refused[origin][status]++
	w.mu.Unlock()
	http.Error(rw, words, status)
}

// done notes how an attempt to sign ended.
func (w *Witness) done(l *log, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.sick[l.origin] = err
		return
	}
	delete(w.sick, l.origin)
	w.m.cosigned[l.origin]++
	w.m.size[l.origin], w.m.time[l.origin] = l.last.size, l.last.time
}

// serveMetrics answers as Prometheus text.
func (w *Witness) serveMetrics(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var p promtext.Page
	origins := slices.Sorted(maps.Keys(w.logs))
	for _, o := range origins {
		counter(&p, "assay_witness_cosigned_total", float64(w.m.cosigned[o]), "log", o)
		for _, f := range []finding{fork, mismatch, shrunk} {
			counter(&p, "assay_witness_found_total", float64(w.m.found[o][f]), "log", o, "found", string(f))
		}
		healthy := 1.0
		if w.sick[o] != nil {
			healthy = 0
		}
		gauge(&p, "assay_witness_healthy", healthy, "log", o)
	}
	for _, o := range append([]string{""}, origins...) {
		for _, status := range slices.Sorted(maps.Keys(w.m.refused[o])) {
			counter(&p, "assay_witness_refused_total", float64(w.m.refused[o][status]), "log", o, "status", strconv.Itoa(status))
		}
	}
	// A log that was never signed for has no size and no time: the lines are left out.
	for _, o := range slices.Sorted(maps.Keys(w.m.size)) {
		gauge(&p, "assay_witness_log_entries", float64(w.m.size[o]), "log", o)
	}
	for _, o := range slices.Sorted(maps.Keys(w.m.time)) {
		gauge(&p, "assay_witness_cosigned_time_seconds", float64(w.m.time[o]), "log", o)
	}
	h := rw.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", promtext.ContentType)
	rw.Write(p.Bytes()) //nolint:errcheck // the client is gone; there is nobody to tell
}

// gauge adds a sample of a family of the root's table.
func gauge(p *promtext.Page, name string, v float64, labels ...string) {
	p.Gauge(name, assay.HelpOf(name), v, labels...)
}

func counter(p *promtext.Page, name string, v float64, labels ...string) {
	p.Counter(name, assay.HelpOf(name), v, labels...)
}
