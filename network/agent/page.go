package agent

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/promtext"
)

// Handler serves /metrics and /healthz.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		a.export.ServeHTTP(w, r) // the readings and the check under way
		_, _ = w.Write(a.page()) // who went away does not need to be told
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !a.works() {
			http.Error(w, "the agent stands still", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}

// page is what the agent says of itself.
func (a *Agent) page() []byte {
	var p families
	a.contact(&p)
	a.waiting(&p)
	a.checks(&p)
	t := a.lookout.now()
	p.gauge("engine_up", flag(t.Up))
	if t.Known {
		p.gauge("engine_requests", float64(t.Running))
	}
	return p.Bytes()
}

// families is a page of the root's table.
type families struct{ promtext.Page }

const familyPrefix = "assay_agent_"

func (p *families) gauge(name string, v float64, labels ...string) {
	p.Gauge(familyPrefix+name, assay.HelpOf(familyPrefix+name), v, labels...)
}

func (p *families) counter(name string, v float64, labels ...string) {
	p.Counter(familyPrefix+name, assay.HelpOf(familyPrefix+name), v, labels...)
}

func (a *Agent) contact(p *families) {
	node := a.session.node()
	p.gauge("enrolled", flag(node != ""), "node", node)
	seen, failures, _ := a.link.contact()
	if !seen.IsZero() {
		p.gauge("server_seen_timestamp_seconds", seconds(seen))
	}
	p.gauge("server_failures", float64(failures))
	if s := a.link.clock.now(); s.Known {
		p.gauge("clock_skew_seconds", s.Offset.Seconds())
	}
}

func (a *Agent) waiting(p *families) {
	records, size := a.box.Pending()
	p.gauge("outbox_records", float64(records))
	p.gauge("outbox_bytes", float64(size))
	n := a.box.Counts()
	p.counter("records_total", float64(n.Taken), "outcome", "taken")
	p.counter("records_total", float64(n.Duplicate), "outcome", "duplicate")
	p.counter("records_total", float64(n.Refused), "outcome", "refused")
	waiting, refused := a.reports.count()
	p.gauge("runs_waiting", float64(waiting))
	p.gauge("runs_refused", float64(refused))
}

func (a *Agent) checks(p *families) {
	r := a.runner
	p.gauge("next_check_timestamp_seconds", seconds(r.next()))
	r.mu.Lock()
	defer r.mu.Unlock()
	p.gauge("checking", flag(r.name != ""))
	for _, how := range slices.Sorted(maps.Keys(r.counts)) {
		p.counter("checks_total", float64(r.counts[how]), "outcome", how)
	}
	l := r.last
	if l.at.IsZero() {
		return
	}
	p.gauge("last_check_timestamp_seconds", seconds(l.at))
	p.gauge("last_check_seconds", l.took.Seconds())
	p.gauge("verdict", 1, "verdict", strings.ToLower(l.verdict.String()))
	if l.score != nil {
		p.gauge("score", *l.score)
	}
	for _, x := range l.results {
		if x.Value != nil {
			p.gauge("last_result", *x.Value, "stage", x.Stage, "metric", x.Metric, "stat", x.Stat)
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
