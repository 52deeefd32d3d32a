package sandbox

import (
	"maps"
	"time"

	"github.com/assay-bench/assay"
)

// Entry is what really happened to one instance.
type Entry struct {
	Cloud    string `json:"cloud"`
	ID       string `json:"id"`
	Label    string `json:"label"`
	Offer    string `json:"offer"`
	Location string `json:"location"`
	GPU      string `json:"gpu"`
	State    string `json:"state"`

	// Created and Ended are when it lived; an Ended of null lives.
	Created time.Time  `json:"created"`
	Ended   *time.Time `json:"ended"`
	// EndedBy is the account's key (api), the instance's own (self), or nothing.
	EndedBy string `json:"ended_by,omitempty"`
	// Halted is since when it did nothing and billed its disk.
	Halted *time.Time `json:"halted,omitempty"`
	// DestroyAsked is when somebody first asked for its end, and RefusedUntil until
	// when that was refused.
	DestroyAsked *time.Time `json:"destroy_asked,omitempty"`
	RefusedUntil *time.Time `json:"refused_until,omitempty"`

	// Hour is its rate, and Cost what it has cost: running, idle disk, bandwidth.
	Hour      assay.Money `json:"hour"`
	Running   assay.Money `json:"running"`
	Disk      assay.Money `json:"disk"`
	Bandwidth assay.Money `json:"bandwidth"`
	Cost      assay.Money `json:"cost"`
}

// Violation is a call that came too early.
type Violation struct {
	Cloud string        `json:"cloud"`
	Call  string        `json:"call"`
	At    time.Time     `json:"at"`
	After time.Duration `json:"after_ns"` // the call before it, by the clouds' clock
	Least time.Duration `json:"least_ns"`
}

// Book is what really happened.
type Book struct {
	Now        time.Time      `json:"now"`
	Scale      float64        `json:"scale"`
	Entries    []Entry        `json:"entries"`
	Spent      assay.Money    `json:"spent"`
	Alive      int            `json:"alive"`
	Violations []Violation    `json:"violations"`
	Calls      map[string]int `json:"calls"` // by cloud and kind
	Hits       map[string]int `json:"hits"`  // of faults
}

// Book gives what happened until now.
func (s *Sandbox) Book() Book {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Book{
		Now: time.Now(), Scale: s.c.Scale, Entries: []Entry{}, Spent: usd(0),
		Violations: append([]Violation{}, s.broken...), Calls: maps.Clone(s.calls), Hits: maps.Clone(s.hits),
	}
	for _, i := range s.instances {
		e := i.entry(s.c.Scale, b.Now)
		b.Spent.Nano += e.Cost.Nano
		if i.alive() {
			b.Alive++
		}
		b.Entries = append(b.Entries, e)
	}
	return b
}

func (i *instance) entry(scale float64, now time.Time) Entry {
	run, disk, net := i.cost(scale, now)
	e := Entry{
		Cloud: i.cloud, ID: i.id, Label: i.label, Offer: i.offer.id, Location: i.offer.location, GPU: i.offer.gpu, State: i.state,
		Created: i.created, Ended: pointer(i.ended), EndedBy: i.endedBy, Halted: pointer(i.halted),
		DestroyAsked: pointer(i.asked), RefusedUntil: pointer(i.refuse),
		Hour: usd(i.hour), Running: usd(run), Disk: usd(disk), Bandwidth: usd(net),
	}
	e.Cost = assay.Money{Nano: e.Running.Nano + e.Disk.Nano + e.Bandwidth.Nano, Currency: "USD"}
	return e
}

// balance is what is left on an account, with s.mu held.
func (s *Sandbox) balance(cloud string) float64 {
	left, now := s.value(cloud, SettingBalance), time.Now()
	for _, i := range s.instances {
		if i.cloud == cloud {
			run, disk, net := i.cost(s.c.Scale, now)
			left -= run + disk + net
		}
	}
	return left
}

func usd(v float64) assay.Money { return assay.Money{Nano: int64(v * 1e9), Currency: "USD"} }

func pointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
