package assay

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Money is an amount in whole billionths of a currency's unit. Sums of money
// are exact; a price of a token is a ratio, and is rounded once, when it is made.
type Money struct {
	Nano     int64
	Currency string // ISO 4217, or what the user calls it
}

// Unit is one unit of a currency.
const nanoUnit = 1_000_000_000

// ErrMoney is an amount that Money cannot hold.
var ErrMoney = errors.New("amount of money out of range")

// ParseMoney reads a decimal amount such as 0.35; more than nine decimals are
// an error, since they would be lost.
func ParseMoney(s, currency string) (Money, error) {
	whole, frac, _ := strings.Cut(s, ".")
	if len(frac) > 9 || whole == "" && frac == "" {
		return Money{}, fmt.Errorf("%q is not an amount of money with at most nine decimals", s)
	}
	n, err := strconv.ParseUint(whole+(frac + "000000000")[:9], 10, 63)
	if err != nil {
		return Money{}, fmt.Errorf("%q is not an amount of money with at most nine decimals", s)
	}
	return Money{Nano: int64(n), Currency: currency}, nil
}

// Units is the amount as a float, for ratios and pictures.
func (m Money) Units() float64 { return float64(m.Nano) / nanoUnit }

// Times gives m × f, rounded to the nearest billionth.
func (m Money) Times(f float64) (Money, error) {
	v := math.Round(float64(m.Nano) * f)
	if math.IsNaN(v) || math.Abs(v) >= 1<<63 {
		return Money{}, ErrMoney
	}
	return Money{Nano: int64(v), Currency: m.Currency}, nil
}

// Plus gives m + n, which must be of one currency; an amount of nothing is of any.
func (m Money) Plus(n Money) (Money, error) {
	switch {
	case n.Nano == 0:
		return m, nil
	case m.Nano == 0 && m.Currency == "":
		return n, nil
	case m.Currency != n.Currency:
		return Money{}, fmt.Errorf("amounts in %s and %s cannot be added", m.Currency, n.Currency)
	}
	sum := m.Nano + n.Nano
	if (sum > m.Nano) != (n.Nano > 0) { // it ran over
		return Money{}, ErrMoney
	}
	return Money{Nano: sum, Currency: m.Currency}, nil
}

// String is the amount with as many decimals as it needs, at least two, and
// its currency.
func (m Money) String() string {
	n, sign := m.Nano, ""
	u := uint64(n)
	if n < 0 {
		u, sign = -u, "-"
	}
	frac := strings.TrimRight(fmt.Sprintf("%09d", u%nanoUnit), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	return strings.TrimSpace(fmt.Sprintf("%s%d.%s %s", sign, u/nanoUnit, frac, m.Currency))
}

type moneyJSON struct {
	Nano     int64  `json:"nano"`
	Currency string `json:"currency"`
}

// MarshalJSON writes {nano, currency}.
func (m Money) MarshalJSON() ([]byte, error) { return json.Marshal(moneyJSON(m)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Money) UnmarshalJSON(b []byte) error {
	var in moneyJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*m = Money(in)
	return nil
}
