// Package provider is what a campaign asks of a cloud that rents out GPUs: offers,
// create, list, destroy, and for those that have it an instance's own page and the
// money that is left.
//
// It promises that an answer is whole or an error: a list has all of its pages, and
// one that could not be understood is never an empty one. [Look] compares a list
// with what is known to live, since clouds have retired endpoints that went on
// answering, with nothing in it.
//
// It refuses to hide what is uncertain. [Provider.Create] may give an error and an
// instance at once; an instance whose state is not known is neither alive nor gone;
// and nothing here retries, waits or remembers: limits and intents are in SQL,
// where all processes see them. A provider asks for its turn before each request by
// a [Wait].
//
// Everything that a cloud answers is hostile input. Adapters bound what they read,
// and the text in these types has been through internal/foreign, except for ids,
// which are sent back as they came and are refused where they are not plain.
package provider

import (
	"context"
	"time"

	"github.com/assay-bench/assay"
)

// Provider is a cloud. Methods may be called by several goroutines; each makes its
// requests once and gives what it was told.
type Provider interface {
	// Offers gives what can be rented now, cheapest first. An offer may be stale:
	// only Create finds out.
	Offers(ctx context.Context, q Query) ([]Offer, error)

	// Create rents. Its error may come with an instance: the caller looks at both,
	// and an instance with an ID exists and costs money. An error without one says
	// nothing about that, unless it is [ErrNotSent]: look for the label in a list,
	// beyond the provider's lag, before anything is created again.
	Create(ctx context.Context, o Order) (Instance, error)

	// List gives all instances of the account, on all pages, or an error. Those of
	// others are among them: what is ours is told by the label.
	List(ctx context.Context) ([]Instance, error)

	// Destroy ends an instance for good. No error says that the provider accepted
	// it, not that it happened: [Look] does. What is gone already is no error.
	Destroy(ctx context.Context, id string) error
}

// Getter is a provider with a page for each instance. Without one an end is never
// proved.
type Getter interface {
	// Get gives one instance. [ErrGone] says that its page states that there is
	// none; any other error states nothing.
	Get(ctx context.Context, id string) (Instance, error)
}

// Balancer is a provider that says how much money is left. A balance proves that the
// key is good: a wrong one can make every instance look gone.
type Balancer interface {
	Balance(ctx context.Context) (assay.Money, error)
}

// KeyProver is a provider that proves its key otherwise, as it has no balance.
type KeyProver interface {
	// ProveKey gives nil only after an answer that a wrong key does not get.
	ProveKey(ctx context.Context) error
}

// Currency is that of all prices of providers.
const Currency = "USD"

// Query narrows offers. Its zero value asks for all that have one GPU.
type Query struct {
	GPU      string // as "RTX 4090", compared by [SameGPU]; empty: any
	GPUs     int    // in the machine; 0: 1
	MinVRAM  int64  // bytes of each
	DiskGB   int    // that will be ordered: prices depend on it; 0: the provider's least
	MaxOffer int    // at most so many offers; 0: 100
}

// Offer is a machine that can be rented.
type Offer struct {
	ID          string  `json:"id"`                    // names it in an Order
	Machine     string  `json:"machine,omitempty"`     // the host itself, under other offers too; empty: not stated
	Location    string  `json:"location,omitempty"`    // whose confidence is learnt
	GPU         string  `json:"gpu"`                   // the provider's name of it
	GPUs        int     `json:"gpus"`                  //
	VRAM        int64   `json:"vram"`                  // bytes of each; 0: not stated
	Reliability float64 `json:"reliability,omitempty"` // 0 to 1, self-reported; 0: not stated
	DiskGB      int     `json:"disk_gb"`               // that the price is for
	Price       Price   `json:"price"`
}

// Price is what an instance costs. Time × Hour does not bound the spend: bandwidth
// is billed apart, and so is the disk of an instance that was only stopped.
type Price struct {
	Hour    assay.Money `json:"hour"`    // while it exists and is not stopped, disk included
	Stopped assay.Money `json:"stopped"` // an hour of being stopped
	UpGB    assay.Money `json:"up_gb"`   // a gigabyte (10⁹ bytes) that leaves the machine
	DownGB  assay.Money `json:"down_gb"` // one that comes to it: images, models
}

// Cost is what a machine costs that lives so long and transfers so many bytes: the one
// place where that is reckoned, for plans and for reservations.
func (p Price) Cost(life time.Duration, down, up int64) (assay.Money, error) {
	const giga = 1e9
	sum := assay.Money{Currency: p.Hour.Currency}
	for _, part := range []struct {
		price assay.Money
		times float64
	}{{p.Hour, life.Hours()}, {p.DownGB, float64(down) / giga}, {p.UpGB, float64(up) / giga}} {
		m, err := part.price.Times(part.times)
		if err != nil {
			return assay.Money{}, err
		}
		if sum, err = sum.Plus(m); err != nil {
			return assay.Money{}, err
		}
	}
	return sum, nil
}

// MaxLabel is the longest label, in bytes.
const MaxLabel = 60

// Order is what Create rents.
type Order struct {
	// Label names the instance: the idempotency key. It begins with the
	// installation's id, has at most MaxLabel characters, and is made of a-z, 0-9
	// and hyphens ([CheckLabel]).
	Label string `json:"label"`
	// Offer is one that Offers gave.
	Offer Offer `json:"offer"`
	// Image is the container's image, or the name of the VM's.
	Image string `json:"image"`
	// DiskGB is the disk; at least that of the offer's price is ordered.
	DiskGB int `json:"disk_gb"`
	// SSHKey is the public key that opens the machine, as a line of
	// authorized_keys. It can take [Traits.KeyLag] until it does.
	SSHKey string `json:"ssh_key"`
	// OnStart is a shell script that the machine runs when it boots, before SSH
	// is there: where the dead man starts. At most MaxOnStart bytes.
	OnStart string `json:"on_start,omitempty"`
}

// MaxOnStart bounds a start script.
const MaxOnStart = 16 << 10

// State is what an instance is doing. The zero value says that nobody knows, which
// is neither alive nor gone. Whatever its state, an instance in a list costs money
// until it was destroyed.
type State string

const (
	Unknown  State = ""         // not stated, or by a word that is not known
	Starting State = "starting" // will run: pulls its image, boots
	Running  State = "running"  //
	Stopped  State = "stopped"  // does nothing and bills its disk
	Dead     State = "dead"     // exited, offline, failed: will not run again
)

// Instance is a machine that is rented, as its provider says.
type Instance struct {
	ID       string      `json:"id"`
	Label    string      `json:"label"`
	State    State       `json:"state"`
	Said     string      `json:"said,omitempty"` // the provider's own word for its state, and its reason
	Machine  string      `json:"machine,omitempty"`
	Location string      `json:"location,omitempty"`
	GPU      string      `json:"gpu,omitempty"`
	GPUs     int         `json:"gpus,omitempty"`
	Host     string      `json:"host,omitempty"` // for SSH; empty: not known yet
	Port     int         `json:"port,omitempty"`
	Hour     assay.Money `json:"hour"` // its rate now
	Created  time.Time   `json:"created,omitzero"`
}

// Reachable reports whether the instance has an address for SSH.
func (i Instance) Reachable() bool { return i.State == Running && i.Host != "" && i.Port > 0 }
