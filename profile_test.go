package assay_test

import (
	"testing"

	"github.com/assay-bench/assay"
)

func TestModelSizes(t *testing.T) {
	for text, want := range map[string]float64{
		"7B": 7e9, "13b": 13e9, " 70B ": 70e9, "1.5B": 1.5e9, "350M": 350e6, "28.01M": 28.01e6, "173K": 173e3, "1T": 1e12, "8x7B": 56e9, "8X22b": 176e9,
	} {
		if got, err := assay.ParseModelSize(text); err != nil || !(got >= want*(1-1e-12) && got <= want*(1+1e-12)) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "B", "large", "0B", "-7B", "7BB", "1e9B", "NaNB", "x7B", "0x7B", "7x", "99999999B"} {
		if got, err := assay.ParseModelSize(text); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
}
