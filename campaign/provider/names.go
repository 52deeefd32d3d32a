package provider

import (
	"errors"
	"fmt"
	"math"
	"strconv"
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

// Accepts reports whether an offer is one that was asked for.
func (q Query) Accepts(o Offer) bool {
	gpus := max(q.GPUs, 1)
	if o.GPUs != gpus || o.VRAM < q.MinVRAM {
		return false
	}
	if q.GPU == "" {
		return true
	}
	_, asked := gpuModel(q.GPU)
	return SameGPU(q.GPU, o.GPU) && (asked == 0 || o.VRAM == 0 || sameSize(float64(asked), float64(o.VRAM)/1e9))
}

// sameSize reports whether a memory is what its name says: 80 GB are 85.9 by the
// count of the driver, which counts in powers of two and keeps some for itself.
func sameSize(named, gb float64) bool { return gb > 0.9*named && gb < 1.15*named }

// SameGPU reports whether two names mean the same GPU, as providers write them:
// "RTX 4090", "RTX_4090", "geforcertx4090-pcie-24gb". A form that was not asked for,
// as the SXM4 of an A100, makes no difference; a memory does when both names have
// one.
func SameGPU(asked, offered string) bool {
	a, aGB := gpuModel(asked)
	b, bGB := gpuModel(offered)
	rest, ok := strings.CutPrefix(b, a)
	if a == "" || !ok || aGB != 0 && bGB != 0 && aGB != bGB {
		return false
	}
	switch rest {
	case "", "pcie", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "nvl", "hgx":
		return true
	}
	return false
}

// gpuModel splits a name into the model, without what makers put around it, and the
// gigabytes that it names; 0: none.
func gpuModel(name string) (model string, gb int) {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	for _, w := range words {
		if n, ok := strings.CutSuffix(w, "gb"); ok {
			if size, err := strconv.Atoi(n); err == nil && size > 0 {
				gb = size
				continue
			}
		}
		model += w
	}
	for _, maker := range []string{"nvidia", "geforce", "tesla"} {
		model = strings.ReplaceAll(model, maker, "")
	}
	return model, gb
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

// Prices makes a Price of numbers that a cloud wrote.
func Prices(hour, stopped, up, down float64) (p Price, err error) {
	for _, v := range []struct {
		units float64
		into  *assay.Money
	}{{hour, &p.Hour}, {stopped, &p.Stopped}, {up, &p.UpGB}, {down, &p.DownGB}} {
		if *v.into, err = USD(v.units); err != nil {
			return Price{}, err
		}
	}
	return p, nil
}

// Address gives a host and a port for SSH as a cloud wrote them, or none where they
// make no sense: what is dialled is an IP address or a name, and nothing else.
func Address(host string, port int) (string, int) {
	if host == "" || len(host) > 253 || port < 1 || port > 65535 || !hostOnly(host) {
		return "", 0
	}
	return host, port
}

func hostOnly(host string) bool {
	for _, r := range host {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-:", r) {
			return false
		}
	}
	return !strings.HasPrefix(host, "-")
}
