package assay

import (
	"encoding/json"
	"math"
)

// Quantity is an estimate with its 95 % interval, made from N samples.
//
// N == 0 means unknown: the estimate is null in JSON, and Why says why. A
// Quantity with N > 0 and no interval has Lo and Hi NaN, null in JSON.
type Quantity struct {
	N           int
	Est, Lo, Hi float64
	Why         string
}

// UnknownQuantity is a quantity that is not available, for the reason given.
func UnknownQuantity(why string) Quantity {
	return Quantity{Est: math.NaN(), Lo: math.NaN(), Hi: math.NaN(), Why: why}
}

// Known reports whether there is an estimate at all.
func (q Quantity) Known() bool { return q.N > 0 && !math.IsNaN(q.Est) }

type quantityJSON struct {
	N        int      `json:"n"`
	Estimate *float64 `json:"estimate"`
	Low      *float64 `json:"low"`
	High     *float64 `json:"high"`
	Why      string   `json:"why,omitempty"`
}

// MarshalJSON writes {n, estimate, low, high, why}; what is not known is null.
func (q Quantity) MarshalJSON() ([]byte, error) {
	out := quantityJSON{N: q.N, Why: q.Why}
	if q.Known() {
		out.Estimate, out.Low, out.High = finite(q.Est), finite(q.Lo), finite(q.Hi)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (q *Quantity) UnmarshalJSON(b []byte) error {
	var in quantityJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*q = Quantity{N: in.N, Est: orNaN(in.Estimate), Lo: orNaN(in.Low), Hi: orNaN(in.High), Why: in.Why}
	return nil
}

func finite(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

func orNaN(f *float64) float64 {
	if f == nil {
		return math.NaN()
	}
	return *f
}
