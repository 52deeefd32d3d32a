package report

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/assay-bench/assay"
)

// scraped is a page in the text exposition format 0.0.4, read strictly.
type scraped struct {
	kinds   map[string]string // of families
	samples map[string]sample // by name and sorted labels
}

type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	headLine   = regexp.MustCompile(`^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)$`)
	labelPair  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)`)
)

// scrape checks a page against the format's grammar: each family has its HELP,
// then its TYPE, then its samples without another's between; no family and no
// sample comes twice.
func scrape(page string) (scraped, error) {
	s := scraped{kinds: map[string]string{}, samples: map[string]sample{}}
	if !utf8.ValidString(page) || page != "" && !strings.HasSuffix(page, "\n") {
		return s, fmt.Errorf("not text in lines")
	}
	helped, current := "", ""
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if m := headLine.FindStringSubmatch(line); m != nil {
			switch {
			case m[1] == "HELP" && s.kinds[m[2]] == "":
				helped = m[2]
			case m[1] == "TYPE" && helped == m[2] && slices.Contains([]string{"gauge", "counter", "summary"}, m[3]):
				s.kinds[m[2]], current, helped = m[3], m[2], ""
			default:
				return s, fmt.Errorf("out of place: %s", line)
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			return s, fmt.Errorf("neither head nor sample: %q", line)
		}
		x := sample{name: m[1], labels: map[string]string{}}
		base := m[1]
		if s.kinds[current] == "summary" {
			base = strings.TrimSuffix(strings.TrimSuffix(base, "_sum"), "_count")
		}
		if base != current || helped != "" {
			return s, fmt.Errorf("not of the family %s: %s", current, line)
		}
		key := []string{}
		for rest := m[2]; rest != ""; {
			l := labelPair.FindStringSubmatch(rest)
			if l == nil {
				return s, fmt.Errorf("labels: %s", line)
			}
			if _, twice := x.labels[l[1]]; twice {
				return s, fmt.Errorf("a label twice: %s", line)
			}
			x.labels[l[1]] = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(l[2])
			key = append(key, l[1]+"="+l[2])
			rest = rest[len(l[0]):]
		}
		var err error
		if x.value, err = strconv.ParseFloat(m[3], 64); err != nil {
			return s, fmt.Errorf("value: %s", line)
		}
		slices.Sort(key)
		id := x.name + strings.Join(key, ",")
		if _, twice := s.samples[id]; twice {
			return s, fmt.Errorf("a sample twice: %s", line)
		}
		s.samples[id] = x
	}
	return s, nil
}

func (s scraped) get(name string, labels ...string) (float64, bool) {
	for _, x := range s.samples {
		match := x.name == name
		for i := 0; i < len(labels); i += 2 {
			match = match && x.labels[labels[i]] == labels[i+1]
		}
		if match {
			return x.value, true
		}
	}
	return 0, false
}

func TestPrometheus(t *testing.T) {
	in := sick()
	in.Summary.Engine.Model = "a\"b\\c\nd{}\x00\xff</script>"
	in.Summary.Stages = append(in.Summary.Stages, in.Summary.Stages[0]) // a name twice
	var b bytes.Buffer
	if err := Prometheus(&b, in.Summary, in.Health); err != nil {
		t.Fatal(err)
	}
	s, err := scrape(b.String())
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.kinds {
		if !strings.HasPrefix(name, "assay_") {
			t.Errorf("%s is not a name of ours", name)
		}
	}
	for _, x := range s.samples {
		if math.IsNaN(x.value) || math.IsInf(x.value, 0) {
			t.Errorf("%s%v is %g", x.name, x.labels, x.value)
		}
	}
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"assay_health_verdict", []string{"verdict", "degraded"}, 1},
		{"assay_health_verdict", []string{"verdict", "pass"}, 0},
		{"assay_health_score_ratio", []string{"part", "overall"}, 0.78},
		{"assay_client_certificate", []string{"certificate", "certified"}, 1},
		{"assay_stage_ttft_seconds", []string{"stage", "hold", "quantile", "0.99"}, 0.1044},
		{"assay_stage_ttft_seconds_count", []string{"stage", "hold"}, 2496},
		{"assay_stage_ttft_ci95_seconds", []string{"stage", "hold", "percentile", "0.99", "bound", "low"}, 104.4 * 0.97 / 1000},
		{"assay_knee_streams", nil, 21.3},
		{"assay_cost_per_token", []string{"kind", "energy"}, 2.2e-8},
		{"assay_run_info", []string{"model", "a\"b\\c d{}\uFFFD</script>"}, 1},
	} {
		if got, ok := s.get(c.name, c.labels...); !ok || !(math.Abs(got-c.want) <= 1e-9) {
			t.Errorf("%s%q = %g, %v; want %g", c.name, c.labels, got, ok, c.want)
		}
	}
	// What is not known, and what the samples do not carry, is not there.
	if v, ok := s.get("assay_health_score_ratio", "part", "efficiency"); ok {
		t.Errorf("an unknown score is exported as %g", v)
	}
	if _, ok := s.get("assay_stage_ttft_seconds", "stage", "c1", "quantile", "0.5"); !ok {
		t.Error("c1 has no median")
	}
	if v, ok := s.get("assay_stage_ttft_seconds", "stage", "c1", "quantile", "0.99"); ok {
		t.Errorf("a p99 of 49 requests is exported as %g", v)
	}
}

func TestPrometheusOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := Prometheus(&b, assay.Summary{}, nil); err != nil {
		t.Fatal(err)
	}
	s, err := scrape(b.String())
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.kinds {
		if strings.HasPrefix(name, "assay_health") || strings.HasPrefix(name, "assay_cost") || strings.HasPrefix(name, "assay_gpu") || strings.HasPrefix(name, "assay_stage") {
			t.Errorf("%s of a run without it", name)
		}
	}
}

// The strict reader is strict.
func TestScrapeRefuses(t *testing.T) {
	for _, page := range []string{
		"a 1\n", "# HELP a h\na 1\n", "# HELP a h\n# TYPE a gauge\na{b=\"c\"} 1\na{b=\"c\"} 2\n", "# HELP a h\n# TYPE a gauge\nb 1\n",
		"# HELP a h\n# TYPE a gauge\na{b=\"c\"d\"} 1\n", "# HELP a h\n# TYPE a gauge\na 1", "# HELP a h\n# TYPE a gauge\na x\n", "# HELP a h\n# TYPE a gauge\na_sum 1\n",
	} {
		if _, err := scrape(page); err == nil {
			t.Errorf("accepted %q", page)
		}
	}
}
