package claims

import (
	"fmt"
	"path"
	"time"
)

// Plan is how long one probe is measured, where the file says it. Zero fields
// are not said: what [Options] say holds then.
type Plan struct {
	Duration   time.Duration
	Samples    int
	Iterations int
	Warmup     time.Duration // negative: none
}

// planLine is a line of the file's "probes".
type planLine struct {
	Probe      string `yaml:"probe"` // a name, or a pattern with *
	Duration   span   `yaml:"duration"`
	Samples    int    `yaml:"samples"`
	Iterations int    `yaml:"iterations"`
	Warmup     span   `yaml:"warmup"`
}

// plans gives each probe of the suite what the file says of it; a later line
// replaces an earlier one. A line that no probe of the suite has a use for is a
// fault: it was meant for one.
func (r *reading) plans(all []planLine) {
	if len(all) > maxClaims {
		r.fault("probes", 0, fmt.Sprintf("%d lines; %d are the most", len(all), maxClaims))
		return
	}
	for i, line := range all {
		place := fmt.Sprintf("probes[%d]", i)
		switch {
		case line.Probe == "":
			r.fault(place, 0, "say which probe this is for: probe is a name, or a pattern with *")
			continue
		case line.Duration < 0:
			r.fault(place+".duration", 0, "a duration cannot be negative")
			continue
		case line.Samples < 0:
			r.fault(place+".samples", 0, "a number of samples cannot be negative")
			continue
		case line.Iterations < 0:
			r.fault(place+".iterations", 0, "a number of iterations cannot be negative")
			continue
		case line.Duration == 0 && line.Samples == 0 && line.Iterations == 0 && line.Warmup == 0:
			r.fault(place, 0, "says nothing: give duration, samples, iterations or warmup")
			continue
		}
		found := false
		for _, p := range r.suite.Probes {
			if ok, err := path.Match(line.Probe, p.Name); err != nil || !ok {
				continue
			}
			found = true
			if r.suite.Plans == nil {
				r.suite.Plans = map[string]Plan{}
			}
			r.suite.Plans[p.Name] = Plan{
				Duration: time.Duration(line.Duration), Samples: line.Samples,
				Iterations: line.Iterations, Warmup: time.Duration(line.Warmup),
			}
		}
		if !found {
			r.fault(place+".probe", 0, r.noPlan(line.Probe))
		}
	}
}

func (r *reading) noPlan(pattern string) string {
	for _, p := range r.known {
		if ok, err := path.Match(pattern, p.Name); err == nil && ok {
			return fmt.Sprintf("this file does not measure %s: name it in a claim or under measure", p.Name)
		}
	}
	return r.noProbe(pattern)
}

// planned are the options for one probe. Limits that were asked for replace all
// of the file's: who asks for a short run wants a short run.
func (o Options) planned(p Plan) Options {
	if o.Duration <= 0 && o.Samples <= 0 && o.Iterations <= 0 {
		o.Duration, o.Samples, o.Iterations = p.Duration, p.Samples, p.Iterations
	}
	if o.Warmup == 0 {
		o.Warmup = p.Warmup
	}
	if o.Duration <= 0 && o.Samples <= 0 && o.Iterations <= 0 {
		o.Duration = 5 * time.Second
	}
	if o.Warmup == 0 {
		o.Warmup = max(o.Duration, 5*time.Second) / 10
	}
	return o
}
