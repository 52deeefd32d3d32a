package promtext_test

import (
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/promtext"
)

// every uses all that there is, with values that nobody should send.
func every() *promtext.Page {
	var p promtext.Page
	p.Gauge("assay_testf_bytes", "A label that is none is left out.", 1e21, "a:b", "x", "", "y", "ok", strings.Repeat("x", 5000), "odd")
	p.Gauge("assay_testa_ratio", "A share,\nand a \\.", 0.5, "model", "a\"b\\c\nd\x1b[31m\u009b\u202e\xff", "gpu", "0")
	p.Counter("assay_testb_total", "Things that happened.", 12, "reason", "late")
	p.Gauge("assay_testa_ratio", "Another help, which is not written.", 1, "model", "m", "gpu", "1")
	p.Counter("assay_testb_total", "", 3, "reason", "early")
	p.Counter("assay_testb_total", "", 99, "reason", "late") // twice
	p.Family("assay_testc_seconds", promtext.Summary, "A summary.").Summary([]promtext.Level{{0.5, 1.25}, {0.99, math.NaN()}}, 10, 4, "stage", "s")
	p.Family("assay_testd_seconds", promtext.Histogram, "A histogram.").Histogram([]promtext.Bucket{{0.01, 1}, {0.1, 3}, {2.5, 3}}, 0.5, 4)
	p.Gauge("assay_teste_ratio", "Nothing is known of it.", math.Inf(1))
	p.Gauge("assay e\n", "Not a name.", 1)
	p.Gauge("1assay", "Not a name.", 1)
	return &p
}

const want = `# HELP assay_testa_ratio A share,\nand a \\.
# TYPE assay_testa_ratio gauge
assay_testa_ratio{model="a\"b\\c d�[31m�",gpu="0"} 0.5
assay_testa_ratio{model="m",gpu="1"} 1
# HELP assay_testb_total Things that happened.
# TYPE assay_testb_total counter
assay_testb_total{reason="late"} 12
assay_testb_total{reason="early"} 3
# HELP assay_testc_seconds A summary.
# TYPE assay_testc_seconds summary
assay_testc_seconds{stage="s",quantile="0.5"} 1.25
assay_testc_seconds_sum{stage="s"} 10
assay_testc_seconds_count{stage="s"} 4
# HELP assay_testd_seconds A histogram.
# TYPE assay_testd_seconds histogram
assay_testd_seconds_bucket{le="0.01"} 1
assay_testd_seconds_bucket{le="0.1"} 3
assay_testd_seconds_bucket{le="2.5"} 3
assay_testd_seconds_bucket{le="+Inf"} 4
assay_testd_seconds_sum 0.5
assay_testd_seconds_count 4
# HELP assay_testf_bytes A label that is none is left out.
# TYPE assay_testf_bytes gauge
`

func TestPage(t *testing.T) {
	got := string(every().Bytes())
	rest, ok := strings.CutPrefix(got, want)
	if !ok {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	if last := `assay_testf_bytes{ok="` + strings.Repeat("x", 1021) + "…\"} 1e+21\n"; rest != last {
		t.Errorf("the last line is %q, want %q", rest, last)
	}
	if again := string(every().Bytes()); again != got {
		t.Error("the same calls gave another page")
	}
	if b := new(promtext.Page).Bytes(); len(b) != 0 {
		t.Errorf("an empty page is %q", b)
	}
}

// Prometheus' own opinion of the page, where it is installed.
func TestPromtool(t *testing.T) {
	tool := os.Getenv("ASSAY_PROMTOOL")
	if tool == "" {
		var err error
		if tool, err = exec.LookPath("promtool"); err != nil {
			t.Skip("promtool is not installed, and ASSAY_PROMTOOL does not name it")
		}
	}
	check := func(page string) (string, error) {
		cmd := exec.CommandContext(t.Context(), tool, "check", "metrics")
		cmd.Stdin = strings.NewReader(page)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := check(string(every().Bytes())); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	if out, err := check("assay_testa_ratio 1\nassay_testa_ratio 2\n"); err == nil {
		t.Errorf("promtool accepts a sample that is there twice: %s", out)
	}
}
