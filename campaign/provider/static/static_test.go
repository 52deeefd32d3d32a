package static_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/providertest"
	"github.com/assay-bench/assay/campaign/provider/static"
)

func machines(t *testing.T, n int) static.Config {
	c := static.Config{Dir: filepath.Join(t.TempDir(), "claims")}
	for i := range n {
		c.Machines = append(c.Machines, static.Machine{Name: fmt.Sprintf("box-%d", i), Host: "192.0.2.7", GPU: "RTX 4090", VRAMGB: 24})
	}
	return c
}

func TestStaticConforms(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Suite{New: func(t *testing.T) providertest.Cloud {
		c := machines(t, 2)
		p, err := static.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return providertest.Cloud{
			Provider: p, Traits: static.Traits(c), Query: provider.Query{GPU: "RTX 4090"},
			Alive: func() int {
				files, err := filepath.Glob(filepath.Join(c.Dir, "*.json"))
				if err != nil {
					t.Fatal(err)
				}
				return len(files)
			},
			Faults: []string{providertest.ListMalformed},
			Fault: func(t *testing.T, _ string) {
				files, _ := filepath.Glob(filepath.Join(c.Dir, "*.json"))
				for _, f := range files {
					if err := os.WriteFile(f, []byte(`{"id":`), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			},
		}
	}})
}

// Of many who want one machine, one gets it.
func TestStaticIsExclusive(t *testing.T) {
	t.Parallel()
	c := machines(t, 1)
	var got, full atomic.Int32
	var all sync.WaitGroup
	for n := range 16 {
		p, err := static.New(c)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			_, err := p.Create(t.Context(), provider.Order{Label: fmt.Sprintf("cell-%d", n), Offer: provider.Offer{ID: "box-0"}})
			switch {
			case err == nil:
				got.Add(1)
			case errors.Is(err, provider.ErrNoCapacity):
				full.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 || full.Load() != 15 {
		t.Errorf("%d got the machine, %d were told that it is in use", got.Load(), full.Load())
	}
}

// Who gives back late does not take the machine from who has it now.
func TestStaticGivesBackOnlyItsOwn(t *testing.T) {
	t.Parallel()
	p, err := static.New(machines(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	rent := func(label string) provider.Instance {
		i, err := p.Create(t.Context(), provider.Order{Label: label, Offer: provider.Offer{ID: "box-0"}})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	first := rent("cell-1")
	if err := p.Destroy(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	second := rent("cell-2")
	if err := p.Destroy(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(t.Context(), second.ID); err != nil {
		t.Errorf("the second claim: %v", err)
	}
	if _, err := p.Get(t.Context(), first.ID); !errors.Is(err, provider.ErrGone) {
		t.Errorf("the first: %v", err)
	}
}

func TestStaticRefusesMachines(t *testing.T) {
	t.Parallel()
	for _, m := range []static.Machine{
		{Name: "../up", Host: "192.0.2.7"}, {Name: "", Host: "192.0.2.7"}, {Name: "a", Host: "-oProxyCommand=x"}, {Name: "a", Host: "192.0.2.7", Port: 70000},
	} {
		if _, err := static.New(static.Config{Dir: t.TempDir(), Machines: []static.Machine{m}}); err == nil {
			t.Errorf("%+v was accepted", m)
		}
	}
}
