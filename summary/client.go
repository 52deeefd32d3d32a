package summary

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// The readings by which the client accounts for itself.
const (
	readingInFlight  = "client_in_flight"
	readingLag       = "client_lag_us"
	readingCPU       = "client_cpu_seconds_total"
	readingRunDelay  = "client_run_delay_seconds_total"
	readingSuspended = "client_suspended_seconds_total"
	readingRSS       = "client_resident_memory_bytes"
	readingFDs       = "client_open_fds"
)

const (
	mergedMost  = 0.01 // share of reads that the client may merge
	beyond      = 10   // how many times what is allowed still counts as degraded
	droppedMost = 0.01 // share of schedule slots that may be dropped in a degraded run
)

// ownLimits are the means that a client can run out of, as limit events and the
// details of never-sent requests name them.
var ownLimits = [...]string{"file_descriptors", "ports", "memory", "disk"}

// client gathers what the measuring process did to the measurement.
type client struct {
	clock assay.ClockSource
	cores int

	sent, slots   int
	reads, merged int
	sendLag       sample
	lag           stat.Counts
	ttft          stat.Counts
	dropped       int
	limits        map[string]int
	limitEvents   int // requests that limit events speak of

	cpu, delay, suspended counter
	rss, fds              *float64
}

// counter is a cumulative reading. A value below the last one is a new process,
// which counts from zero again.
type counter struct {
	last  float64
	at    int64
	total float64
	held  float64 // of total, what was counted in wall
	wall  int64   // ns between readings of one process
	n     int
}

func (c *counter) add(at int64, v float64) {
	switch {
	case math.IsNaN(v) || v < 0:
		return
	case c.n == 0:
	case v < c.last:
		c.total += v
	default:
		c.total += v - c.last
		c.held += v - c.last
		c.wall += max(0, at-c.at)
	}
	c.last, c.at = v, at
	c.n++
}

// share is the counted time over wall time; nil with fewer than two readings.
func (c *counter) share(over float64) *float64 {
	if c.wall <= 0 || over <= 0 {
		return nil
	}
	v := c.held / (float64(c.wall) / 1e9) / over
	return &v
}

func (c *client) request(r *assay.Request) {
	c.slots++
	c.reads += r.Reads
	c.merged += r.MergedReads
	if lag := r.SendLag(); plausible(lag) && !r.ClockStep {
		c.sent++
		c.sendLag.addNS(lag)
	}
	if r.Error == assay.FailNeverSent {
		for _, l := range ownLimits {
			if strings.Contains(r.Detail, l) {
				c.dropped++
				c.limit(l, 1)
				break
			}
		}
	}
	if r.OK() && !r.Warmup && !r.ClockStep {
		if ns, ok := r.TTFT(); ok && plausible(ns) {
			c.ttft.Add((ns + 500) / 1000)
		}
	}
}

func (c *client) limit(name string, n int) {
	if c.limits == nil {
		c.limits = map[string]int{}
	}
	c.limits[name] += n
}

func (c *client) event(e *assay.Event) {
	if e.Kind != assay.EventLimit {
		return
	}
	// Data says how many requests the limit held back since the last event.
	n := 0
	for _, l := range ownLimits {
		if v, ok := e.Data[l]; ok {
			k := int(min(1e9, max(1, v)))
			n += k
			c.limit(l, k)
		}
	}
	c.limitEvents += max(1, n)
}

func (c *client) reading(r *assay.Reading) {
	if r.Name == readingLag {
		for i := 0; i+1 < len(r.Counts); i += 2 {
			c.lag.AddN(r.Counts[i], r.Counts[i+1])
		}
		return
	}
	v, ok := value(r)
	if !ok {
		return
	}
	most := func(dst **float64) {
		if *dst == nil || v > **dst {
			*dst = &v
		}
	}
	switch r.Name {
	case readingCPU:
		c.cpu.add(r.At, v)
	case readingRunDelay:
		c.delay.add(r.At, v)
	case readingSuspended:
		c.suspended.add(r.At, v)
	case readingRSS:
		most(&c.rss)
	case readingFDs:
		most(&c.fds)
	}
}

// certify says whether the numbers are about the server.
func (c *client) certify(levels []float64) assay.ClientSummary {
	lag := c.lag.Moments()
	s := assay.ClientSummary{
		Clock: c.clock,
		// Of lags there is only the histogram, no series; each read counts as
		// independent here.
		LagUS:   distOf(&c.lag, &lag, float64(c.lag.N()), levels, 1),
		SendLag: c.sendLag.dist(levels, 1),
		Reads:   c.reads, MergedReads: c.merged,
		Dropped:      max(c.dropped, c.limitEvents),
		PeakRSSBytes: c.rss,
		CPUShare:     c.cpu.share(float64(max(1, c.cores))),
		RunDelay:     c.delay.share(1),
		Suspended:    c.suspended.share(1),
	}
	if c.cpu.n > 0 {
		total := c.cpu.total
		s.CPUSeconds = &total
	}
	if c.reads > 0 {
		s.MergedShare = float64(c.merged) / float64(c.reads)
	}
	s.AllowedLagUS = 1000
	if c.ttft.N() > 0 {
		s.AllowedLagUS = max(1000, c.ttft.Quantile(50)/100)
	}
	if c.sent == 0 && s.Dropped == 0 {
		s.Certificate = assay.NoClient
		s.Why = []string{"nothing was sent"}
		return s
	}
	c.judge(&s)
	return s
}

func (c *client) judge(s *assay.ClientSummary) {
	s.Certificate = assay.Certified
	worse := func(to assay.Certificate, format string, args ...any) {
		if to == assay.Invalid || s.Certificate == assay.Certified {
			s.Certificate = to
		}
		s.Why = append(s.Why, fmt.Sprintf(format, args...))
	}
	degree := func(times float64) assay.Certificate {
		if times > beyond {
			return assay.Invalid
		}
		return assay.DegradedBy
	}
	p99 := func(d assay.Dist) float64 {
		p, ok := d.P(99)
		if !ok {
			return 0
		}
		return p.Value
	}
	send, lag := p99(s.SendLag), p99(s.LagUS)
	s.ErrorBarUS = send
	if times := send / s.AllowedLagUS; times > 1 {
		worse(degree(times), "requests went out late: p99 send lag is %.1f ms, %.1f ms is allowed", send/1e3, s.AllowedLagUS/1e3)
	}
	if c.clock == assay.ClockKernel {
		if times := s.MergedShare / mergedMost; times > 1 {
			s.ErrorBarUS = max(s.ErrorBarUS, lag)
			worse(degree(times), "%.1f %% of the reads held several token chunks because the client was late, %.0f %% is allowed: it could not tell them apart (p99 lag %.1f ms)", s.MergedShare*100, mergedMost*100, lag/1e3)
		}
	} else {
		s.ErrorBarUS = max(s.ErrorBarUS, lag)
		if s.LagUS.N == 0 {
			worse(assay.DegradedBy, "the client's lag was not measured, so by the user clock it cannot be certified")
		} else if times := lag / s.AllowedLagUS; times > 1 {
			worse(degree(times), "answers were read late: p99 client lag is %.1f ms, %.1f ms is allowed", lag/1e3, s.AllowedLagUS/1e3)
		}
	}
	if s.Dropped > 0 {
		to := assay.DegradedBy
		if float64(s.Dropped) > droppedMost*float64(max(1, c.slots)) {
			to = assay.Invalid
		}
		worse(to, "%d of %d scheduled requests could not be sent for want of the client's own means", s.Dropped, c.slots)
	}
	if s.Certificate != assay.Certified {
		c.blame(s)
	}
}

// morePriority names the flag that helps a client that gets too little processor
// time.
const morePriority = "--priority realtime lets it run before an engine on the same machine"

// blame names the limit that the client met. A limit that was met in so many
// words is the cause; otherwise the processor is, with what shows it. A degraded
// run without such a sign has no cause, an invalid one always has.
func (c *client) blame(s *assay.ClientSummary) {
	names := slices.Clone(ownLimits[:])
	slices.SortStableFunc(names, func(a, b string) int { return c.limits[b] - c.limits[a] })
	if n := c.limits[names[0]]; n > 0 {
		s.Cause = names[0]
		why := fmt.Sprintf("the client ran out of %s", strings.ReplaceAll(names[0], "_", " "))
		if names[0] == "file_descriptors" && c.fds != nil {
			why += fmt.Sprintf(" (at most %.0f were open)", *c.fds)
		}
		s.Why = append(s.Why, why)
		return
	}
	var signs []string
	sign := func(v *float64, above float64, format string) {
		if v != nil && *v > above {
			signs = append(signs, fmt.Sprintf(format, *v*100))
		}
	}
	sign(s.CPUShare, 0.8, "it used %.0f %% of the cores that it may use")
	sign(s.RunDelay, 0.1, "its threads waited for a CPU %.0f %% of the time")
	sign(s.Suspended, 0.01, "the whole process was stopped %.0f %% of the time")
	if len(signs) > 0 {
		s.Cause = "cpu"
		s.Why = append(s.Why, "the client was short of processor time: "+strings.Join(signs, "; "), morePriority)
		return
	}
	if s.Certificate == assay.Invalid {
		s.Cause = "cpu"
		s.Why = append(s.Why, "no limit of the client was met in so many words and its processor readings show none, so the processor is taken for the cause: lateness has no other", morePriority)
	}
}
