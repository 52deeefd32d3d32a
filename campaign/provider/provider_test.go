package provider

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func TestSameGPU(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked, offered string
		same           bool
	}{
		{"RTX 4090", "RTX 4090", true}, {"RTX_4090", "rtx 4090", true}, {"RTX 4090", "geforcertx4090-pcie-24gb", true},
		{"RTX 4090", "NVIDIA GeForce RTX 4090", true}, {"A100 80GB", "A100 SXM4", true}, {"A100 80GB", "a100-pcie-80gb", true},
		{"A100 80GB", "a100-pcie-40gb", false}, {"A10", "A100 SXM4", false}, {"A100", "A10", false}, {"RTX 4090", "RTX 4090 D", false},
		{"RTX 5060", "RTX 5060 Ti", false}, {"RTX 5060 Ti", "RTX 5060", false}, {"H200 NVL", "H200 NVL", true}, {"H200", "H200 NVL", true},
		{"", "RTX 4090", false}, {"GeForce", "RTX 4090", false}, {"H100", "H100 SXM5", true},
	} {
		if got := SameGPU(c.asked, c.offered); got != c.same {
			t.Errorf("%q, %q: %v", c.asked, c.offered, got)
		}
	}
	sized := Offer{GPU: "A100 PCIE", GPUs: 1, VRAM: 40 << 30}
	if (Query{GPU: "A100 80GB"}).Accepts(sized) || !(Query{GPU: "A100 40GB"}).Accepts(sized) || (Query{GPU: "A100", MinVRAM: 41 << 30}).Accepts(sized) || (Query{GPU: "A100", GPUs: 2}).Accepts(sized) {
		t.Error("the memory is not looked at")
	}
}

// fake is a cloud whose answers are set.
type fake struct {
	list     []Instance
	listErr  error
	pages    map[string]error // nil: it is there
	keyErr   error
	keyCalls int
}

func (f *fake) Offers(context.Context, Query) ([]Offer, error)  { return nil, nil }
func (f *fake) Create(context.Context, Order) (Instance, error) { return Instance{}, nil }
func (f *fake) Destroy(context.Context, string) error           { return nil }
func (f *fake) List(context.Context) ([]Instance, error)        { return f.list, f.listErr }
func (f *fake) Get(_ context.Context, id string) (Instance, error) {
	return Instance{ID: id}, f.pages[id]
}
func (f *fake) Balance(context.Context) (assay.Money, error) {
	f.keyCalls++
	return assay.Money{}, f.keyErr
}

func TestLook(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad gateway")
	for _, c := range []struct {
		name     string
		f        fake
		err      error
		gone     string
		has      bool
		unproved bool
	}{
		{"it is listed", fake{list: []Instance{{ID: "1"}}}, nil, "", true, false},
		{"its page shows it", fake{pages: map[string]error{}}, nil, "", true, false},
		{"its page agrees", fake{pages: map[string]error{"1": ErrGone}}, nil, "1", false, false},
		{"its page fails", fake{pages: map[string]error{"1": bad}}, ErrUnproved, "", false, true},
		{"the key is refused", fake{pages: map[string]error{"1": ErrGone}, keyErr: ErrKey}, ErrUnproved, "", false, true},
		{"the list fails", fake{listErr: bad, pages: map[string]error{"1": ErrGone}}, bad, "", false, false},
	} {
		look, err := Look(t.Context(), &c.f, "1")
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || strings.Join(look.Gone, " ") != c.gone || look.Has("1") != c.has || (look.Unproved["1"] != nil) != c.unproved {
			t.Errorf("%s: %+v, %v", c.name, look, err)
		}
	}
	// One proof does for the answers of one minute, and none is needed for a list
	// that lacks nothing.
	f := fake{list: []Instance{{ID: "3"}}, pages: map[string]error{"1": ErrGone, "2": ErrGone}}
	if _, err := Look(t.Context(), &f, "3"); err != nil || f.keyCalls != 0 {
		t.Error(err, f.keyCalls)
	}
	if look, err := Look(t.Context(), &f, "1", "2", "3"); err != nil || len(look.Gone) != 2 || f.keyCalls != 1 {
		t.Errorf("%+v, %v, %d proofs", look, err, f.keyCalls)
	}
}

func TestUSD(t *testing.T) {
	t.Parallel()
	for _, bad := range []float64{-1, 2e6, nan()} {
		if m, err := USD(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v: %v, %v", bad, m, err)
		}
	}
	if m, err := USD(0.345678901); err != nil || m.Nano != 345678901 || m.Currency != "USD" {
		t.Errorf("%v, %v", m, err)
	}
}

func nan() float64 { z := 0.0; return z / z }

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "-oProxyCommand=x", "a b", "a/b", "a\nb", "user@host", strings.Repeat("a", 300)} {
		if h, p := Address(bad, 22); h != "" || p != 0 {
			t.Errorf("%q was accepted", bad)
		}
	}
	if h, p := Address("ssh4.example.com", 10022); h == "" || p != 10022 {
		t.Error(h, p)
	}
	if h, _ := Address("192.0.2.1", 70000); h != "" {
		t.Error("a port of 70000")
	}
}

func TestScaled(t *testing.T) {
	t.Parallel()
	a := Traits{MinInterval: map[Call]time.Duration{CallList: time.Second}, MinAny: time.Minute, ListLag: time.Hour, KeyLag: time.Second}
	b := a.Scaled(10)
	if b.MinInterval[CallList] != 100*time.Millisecond || b.MinAny != 6*time.Second || b.ListLag != 6*time.Minute || b.KeyLag != 100*time.Millisecond || a.MinInterval[CallList] != time.Second {
		t.Errorf("%+v of %+v", b, a)
	}
}
