package sandbox

import (
	"fmt"
	"hash/fnv"
)

// offer is something that can be rented: an ask of Vast's, or a GPU at a location of
// TensorDock's.
type offer struct {
	id       string
	number   int64
	machine  int64
	location string
	gpu      string
	vram     int64
	count    int     // GPUs
	base     float64 // USD an hour, of the GPU
	storage  float64 // USD a GB and hour
	vcpu     float64 // USD each and hour
	ram      float64 // USD a GB and hour
	up, down float64 // USD a GB
	taken    bool
}

// rates are what an instance costs an hour, and its disk alone.
func (o *offer) rates(gpus int, diskGB float64) (hour, disk float64) {
	disk = o.storage * diskGB
	return float64(gpus)*(o.base+o.vcpu*tdVCPUs+o.ram*tdRAM) + disk, disk
}

func (o *offer) bandwidth() (up, down float64) { return o.up, o.down }

// What a TensorDock machine has for each GPU; nothing of it is billed at Vast.
const (
	tdVCPUs = 8
	tdRAM   = 32
)

// hoursOfMonth is by how much Vast divides its price of storage.
const hoursOfMonth = 730

// kinds are the GPUs of the clouds, with prices as seen.
var kinds = []struct {
	vast, tensordock string
	gib              float64
	price            float64
	asks             int
}{
	{"RTX 3090", "geforcertx3090-pcie-24gb", 24, 0.16, 24},
	{"RTX 4090", "geforcertx4090-pcie-24gb", 23.99, 0.34, 24},
	{"RTX 5090", "", 31.84, 0.52, 16},
	{"A100 SXM4", "a100-pcie-80gb", 80, 0.79, 12},
	{"A100 PCIE", "", 40, 0.55, 6},
	{"H200 NVL", "h200-sxm5-141gb", 140.4, 2.31, 8},
	{"RTX 5060 Ti", "", 15.93, 0.11, 12},
	{"RTX 5070", "", 11.94, 0.13, 12},
	{"RTX 4090 D", "", 23.99, 0.30, 4}, // which is no RTX 4090
}

var vastPlaces = []string{"Norway, NO", "Texas, US", "Quebec, CA", "Bulgaria, BG", "Taiwan, TW"}

// vastStock makes the asks: each its machine, no two at one price.
func vastStock() []*offer {
	var out []*offer
	number := int64(7_000_000)
	for k, kind := range kinds {
		for n := range kind.asks {
			number++
			out = append(out, &offer{
				id: fmt.Sprint(number), number: number, machine: 40_000 + number%997, location: vastPlaces[(n+k)%len(vastPlaces)],
				gpu: kind.vast, vram: int64(kind.gib * (1 << 30)), count: 1, base: kind.price * (1 + 0.03*float64(n)),
				storage: (0.10 + 0.01*float64(n%6)) / hoursOfMonth, up: 0.005, down: 0.002 + 0.001*float64(n%4),
			})
		}
	}
	return out
}

// tensordockStock makes five locations with every GPU that the cloud has.
func tensordockStock() []*offer {
	var out []*offer
	for n, place := range []string{"1a779525-4c04-4f2c-aa45-58b47d54bb38", "2f0f8e5c-9d7e-4a3f-8a35-0d7c4f8f2a11", "3c1d6a90-62cf-4b0e-9b1e-6f7f6f0d5b22", "4d2e7ba1-73d0-4c1f-8c2f-7a8a7a1e6c33", "5e3f8cb2-84e1-4d20-9d30-8b9b8b2f7d44"} {
		for k, kind := range kinds {
			if kind.tensordock == "" {
				continue
			}
			out = append(out, &offer{
				id: place + "/" + kind.tensordock, number: int64(100*n + k), location: place, gpu: kind.tensordock,
				vram: int64(kind.gib * (1 << 30)), count: 4, base: kind.price * (1.1 + 0.04*float64(n)),
				storage: 0.00005, vcpu: 0.003, ram: 0.002,
			})
		}
	}
	return out
}

// stale reports whether the inventory has an offer that is gone; with s.mu held.
// The same ones stay stale.
func (s *Sandbox) stale(cloud string, o *offer) bool {
	share := s.value(cloud, FaultStale)
	if share <= 0 {
		return false
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", s.c.Seed, o.id)
	stale := float64(h.Sum64()%10_000)/10_000 < share
	if stale {
		s.hits[FaultStale]++
	}
	return stale
}
