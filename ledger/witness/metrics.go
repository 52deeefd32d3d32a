package witness

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	var b strings.Builder
	family := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	origins := slices.Sorted(maps.Keys(w.logs))
	family("assay_witness_cosigned_total", "counter", "Checkpoints cosigned since the start.")
	for _, o := range origins {
		fmt.Fprintf(&b, "assay_witness_cosigned_total{log=%q} %d\n", o, w.m.cosigned[o])
	}
	family("assay_witness_refused_total", "counter", "Requests not signed for, by status; without a log: of none that this witness knows.")
	for _, o := range append([]string{""}, origins...) {
		for _, status := range slices.Sorted(maps.Keys(w.m.refused[o])) {
			fmt.Fprintf(&b, "assay_witness_refused_total{log=%q,status=%q} %d\n", o, strconv.Itoa(status), w.m.refused[o][status])
		}
	}
	family("assay_witness_found_total", "counter", "Signed checkpoints that contradict what was cosigned: fork, mismatch of the proof, shrunk.")
	for _, o := range origins {
		for _, f := range []finding{fork, mismatch, shrunk} {
			fmt.Fprintf(&b, "assay_witness_found_total{log=%q,found=%q} %d\n", o, f, w.m.found[o][f])
		}
	}
	family("assay_witness_healthy", "gauge", "1 while the witness can sign for the log, 0 after it could not by its own fault.")
	for _, o := range origins {
		healthy := 1
		if w.sick[o] != nil {
			healthy = 0
		}
		fmt.Fprintf(&b, "assay_witness_healthy{log=%q} %d\n", o, healthy)
	}
	// A log that was never signed for has no size and no time: the lines are left out.
	family("assay_witness_log_entries", "gauge", "Size of the tree that was cosigned last.")
	for _, o := range slices.Sorted(maps.Keys(w.m.size)) {
		fmt.Fprintf(&b, "assay_witness_log_entries{log=%q} %d\n", o, w.m.size[o])
	}
	family("assay_witness_cosigned_time_seconds", "gauge", "Unix time of the last cosignature.")
	for _, o := range slices.Sorted(maps.Keys(w.m.time)) {
		fmt.Fprintf(&b, "assay_witness_cosigned_time_seconds{log=%q} %d\n", o, w.m.time[o])
	}
	h := rw.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	fmt.Fprint(rw, b.String())
}
