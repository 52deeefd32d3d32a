package report

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// Only a check that passed proves something. Of the others the page says what
// would be proved, each of several devices for itself.
func TestVerifiedSaysWhatWouldBeProved(t *testing.T) {
	check := func(name, device string, v assay.Verdict) assay.Check {
		return assay.Check{Name: name, Device: device, Verdict: v, Evidence: "seen", Proves: "that " + name + " is right", DoesNotProve: "the rest"}
	}
	text := func(checks ...assay.Check) string {
		var b strings.Builder
		if err := Text(&b, Verified(assay.Unknown, "of a test", checks, nil)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for v := assay.Unknown; v <= assay.Fail; v++ {
		// As it is recorded now, and as earlier versions recorded it.
		for _, c := range []assay.Check{check("speed", "", v), check("speed", "", v).Settled()} {
			got := text(c)
			if has := strings.Contains(got, "proves          speed: that speed is right"); has != (v == assay.Pass) {
				t.Errorf("%s: proved %v\n%s", v, has, got)
			}
			if has := strings.Contains(got, "would prove     speed: that speed is right"); has == (v == assay.Pass) {
				t.Errorf("%s: would be proved %v\n%s", v, has, got)
			}
			if !strings.Contains(got, "does not prove  speed: the rest") {
				t.Errorf("%s: the limits are not said\n%s", v, got)
			}
		}
	}
	got := text(check("speed", "GPU-0", assay.Pass), check("speed", "GPU-1", assay.Unknown), check("sum", "GPU-0", assay.Pass), check("sum", "GPU-1", assay.Pass))
	for _, want := range []string{"proves          speed of GPU-0: that speed", "would prove     speed of GPU-1: that speed", "                sum: that sum is right"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not said once:\n%s", want, got)
		}
	}
}
