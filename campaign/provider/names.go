package provider

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/assay-bench/assay"
)

// CheckLabel refuses a label that some provider would change or refuse: a label that
// comes back different is an instance that nobody owns.
func CheckLabel(label string) error {
	if label == "" || len(label) > MaxLabel {
		return fmt.Errorf("label %q has %d characters; 1 to %d are allowed", label, len(label), MaxLabel)
	}
	for _, r := range label {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return fmt.Errorf("label %q: only a-z, 0-9 and hyphens are allowed", label)
		}
	}
	return nil
}

// Check refuses an order that cannot be sent.
func (o Order) Check() error {
	if err := CheckLabel(o.Label); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if len(o.OnStart) > MaxOnStart {
		return fmt.Errorf("%w: the start script has %d bytes; at most %d are allowed", ErrNotSent, len(o.OnStart), MaxOnStart)
	}
	if o.Offer.ID == "" {
		return fmt.Errorf("%w: the order names no offer", ErrNotSent)
	}
	return nil
}

// SameGPU reports whether two names mean the same GPU, as providers write them:
// "RTX 4090", "RTX_4090", "geforcertx4090-pcie-24gb". What a name adds, as the
// memory of an "A100 80GB", must be in both, unless one of them says nothing
// about it.
func SameGPU(asked, offered string) bool {
	a, b := gpuWords(asked), gpuWords(offered)
	return a != "" && (a == b || strings.HasPrefix(b, a) && !digitAfter(b, a))
}

// digitAfter reports whether a's number goes on in b: A10 is not A100.
func digitAfter(b, a string) bool {
	next := b[len(a)]
	last := a[len(a)-1]
	return last >= '0' && last <= '9' && next >= '0' && next <= '9'
}

// gpuWords is a name without what makers and providers put around it.
func gpuWords(name string) string {
	name = strings.ToLower(name)
	for _, maker := range []string{"nvidia", "geforce", "tesla"} {
		name = strings.ReplaceAll(name, maker, "")
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, name)
}

// USD makes an amount of what a cloud wrote as a number. Negative amounts, and such
// as nobody would pay, are refused: a price that is wrong must not pass a cap.
func USD(units float64) (assay.Money, error) {
	const most = 1e6
	if math.IsNaN(units) || units < 0 || units > most {
		return assay.Money{}, errors.Join(ErrMalformed, fmt.Errorf("an amount of %v USD", units))
	}
	return assay.Money{Nano: int64(math.Round(units * 1e9)), Currency: Currency}, nil
}
