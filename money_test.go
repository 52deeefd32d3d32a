package assay_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
)

func TestMoneyIsReadExactlyOrNotAtAll(t *testing.T) {
	for text, want := range map[string]int64{"0.35": 350_000_000, "2": 2_000_000_000, ".5": 500_000_000, "1.": 1_000_000_000, "0.000000001": 1} {
		if m, err := assay.ParseMoney(text, "EUR"); err != nil || m.Nano != want {
			t.Errorf("%q: %d, %v; want %d", text, m.Nano, err, want)
		}
	}
	for _, text := range []string{"", ".", "-1", "+1", "1e3", "0.0000000001", "99999999999999999999", "1,5", "NaN", "1 ", "0x1"} {
		if m, err := assay.ParseMoney(text, "EUR"); err == nil {
			t.Errorf("%q was read as %v", text, m)
		}
	}
}

func TestMoneyRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := assay.Money{Nano: rapid.Int64().Draw(t, "nano"), Currency: "USD"}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back assay.Money
		if err := json.Unmarshal(b, &back); err != nil || back != m {
			t.Fatalf("%s became %v, %v", b, back, err)
		}
		if m.Nano >= 0 {
			text := m.String()
			if again, err := assay.ParseMoney(text[:len(text)-4], "USD"); err != nil || again != m {
				t.Fatalf("%q was read as %v, %v", text, again, err)
			}
		}
	})
}
