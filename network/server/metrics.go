package server

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/promtext"
)

// latencies are the bounds of the buckets in which answers are counted, in
// seconds. A heart-beat waits for its batch and a poll for its command: both are
// long on purpose.
var latencies = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// metrics are the server's own counts. Operations and statuses come from the
// document and from us, so nobody can grow them from outside.
type metrics struct {
	mu       sync.Mutex
	answers  map[[2]string]int64 // by operation and status
	times    map[string]*times
	rejected map[string]int64 // by kind, of nobody known
	counts   map[string]int64 // by name
}

type times struct {
	buckets []int64
	sum     float64
	count   int64
}

func newMetrics() *metrics {
	return &metrics{answers: map[[2]string]int64{}, times: map[string]*times{}, rejected: map[string]int64{}, counts: map[string]int64{}}
}

func (m *metrics) answered(op string, status int, took time.Duration) {
	if op == "" {
		op = "none"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers[[2]string{op, label(status)}]++
	t := m.times[op]
	if t == nil {
		t = &times{buckets: make([]int64, len(latencies))}
		m.times[op] = t
	}
	s := took.Seconds()
	t.sum += s
	t.count++
	if i, _ := slices.BinarySearch(latencies, s); i < len(latencies) {
		t.buckets[i]++
	}
}

// add counts something that has a row in the page below.
func (m *metrics) add(name string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[name] += int64(n)
}

// Names of counts, which are those of their metrics.
const (
	countBeats       = "assay_server_heartbeats_total"
	countBeatBatches = "assay_server_heartbeat_batches_total"
	countPollQueries = "assay_server_poll_queries_total"
	countTaken       = "assay_server_statements_taken_total"
	countDuplicate   = "assay_server_statements_duplicate_total"
	countRefused     = "assay_server_statements_refused_total"
	countLogins      = "assay_server_logins_total"
	countEnrolments  = "assay_server_enrolments_total"
	countAuditLost   = "assay_server_audit_failures_total"
)

// countHelp says what each count is.
var countHelp = map[string]string{
	countBeats:       "Heart-beats that were stored.",
	countBeatBatches: "Batches that they were stored in.",
	countPollQueries: "Queries for commands; each serves all polls that wait.",
	countTaken:       "Statements that were taken.",
	countDuplicate:   "Statements that were there already.",
	countRefused:     "Statements that were refused.",
	countLogins:      "Log-ins of nodes.",
	countEnrolments:  "Nodes that were taken in.",
	countAuditLost:   "Audit entries that could not be written.",
}

// page writes all of it.
func (m *metrics) page(p *promtext.Page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(m.answers), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		p.Counter("assay_server_requests_total", "Requests by operation and status.", float64(m.answers[k]), "operation", k[0], "status", k[1])
	}
	family := p.Family("assay_server_request_seconds", promtext.Histogram, "Time to the end of an answer.")
	for _, op := range slices.Sorted(maps.Keys(m.times)) {
		t := m.times[op]
		buckets := make([]promtext.Bucket, len(latencies))
		below := int64(0)
		for i, n := range t.buckets {
			below += n
			buckets[i] = promtext.Bucket{AtMost: latencies[i], Count: below}
		}
		family.Histogram(buckets, t.sum, t.count, "operation", op)
	}
	for _, kind := range slices.Sorted(maps.Keys(m.rejected)) {
		p.Counter("assay_server_rejected_total", "Requests of nobody known that were refused.", float64(m.rejected[kind]), "kind", kind)
	}
	for _, name := range slices.Sorted(maps.Keys(countHelp)) {
		p.Counter(name, countHelp[name], float64(m.counts[name]))
	}
}

// reject counts a request of nobody known.
func (m *metrics) reject(kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected[kind]++
}
