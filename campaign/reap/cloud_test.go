package reap

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
)

// fault is a switch.
type fault string

const (
	faultList    fault = "list retired" // answers, with nothing in it
	faultListErr fault = "list failing"
	faultRate    fault = "429" // on every call
	faultDestroy fault = "destroy fails"
)

// entry is an instance in the cloud's own book.
type entry struct {
	ID, Label      string
	Created, Ended time.Time // Ended zero: alive
}

// cloud is a cloud in memory that misbehaves as real ones do, and keeps a book of what
// really lived. Its list shows the state of a moment up to its lag ago.
type cloud struct {
	wait provider.Wait
	lag  time.Duration
	hour assay.Money

	mu   sync.Mutex
	rand *rand.Rand
	book []*entry
	on   map[fault]bool
	lost float64 // share of creates whose answer is lost
}

func newCloud(seed uint64, lag time.Duration) *cloud {
	return &cloud{lag: lag, hour: assay.Money{Nano: 1e9, Currency: "USD"}, rand: rand.New(rand.NewPCG(seed, 1)),
		on: map[fault]bool{}}
}

// set switches a fault.
func (c *cloud) set(f fault, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on[f] = on
}

// enter takes a turn. The lock is held when it gives no error.
func (c *cloud) enter(ctx context.Context, call provider.Call) error {
	if err := c.wait.Turn(ctx, call); err != nil {
		return err
	}
	c.mu.Lock()
	if c.on[faultRate] {
		c.mu.Unlock()
		return provider.ErrRate
	}
	return nil
}

func (c *cloud) Offers(ctx context.Context, _ provider.Query) ([]provider.Offer, error) {
	if err := c.enter(ctx, provider.CallOffers); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	var out []provider.Offer
	for n := range 5 {
		out = append(out, provider.Offer{ID: fmt.Sprintf("o%d-%d", n, c.rand.IntN(1<<30)), Location: fmt.Sprint("loc", n), Price: provider.Price{Hour: c.hour}})
	}
	return out, nil
}

func (c *cloud) Create(ctx context.Context, o provider.Order) (provider.Instance, error) {
	if err := c.enter(ctx, provider.CallCreate); err != nil {
		return provider.Instance{}, err
	}
	defer c.mu.Unlock()
	e := &entry{ID: fmt.Sprint(len(c.book) + 1), Label: o.Label, Created: time.Now()}
	c.book = append(c.book, e)
	if c.rand.Float64() < c.lost {
		return provider.Instance{}, errors.New("connection reset by peer")
	}
	return c.instance(e), nil
}

func (c *cloud) instance(e *entry) provider.Instance {
	return provider.Instance{ID: e.ID, Label: e.Label, State: provider.Running, Host: "192.0.2.1", Port: 22, Hour: c.hour}
}

func (c *cloud) List(ctx context.Context) ([]provider.Instance, error) {
	if err := c.enter(ctx, provider.CallList); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if c.on[faultListErr] {
		return nil, provider.ErrMalformed
	}
	// Somebody else's machine is in the account too.
	out := []provider.Instance{{ID: "0", Label: "my-notebook", State: provider.Running}}
	if c.on[faultList] {
		return nil, nil
	}
	then := time.Now().Add(-time.Duration(c.rand.Float64() * float64(c.lag)))
	for _, e := range c.book {
		if e.Created.Before(then) && (e.Ended.IsZero() || e.Ended.After(then)) {
			out = append(out, c.instance(e))
		}
	}
	return out, nil
}

func (c *cloud) Destroy(ctx context.Context, id string) error {
	if err := c.enter(ctx, provider.CallDestroy); err != nil {
		return err
	}
	defer c.mu.Unlock()
	if c.on[faultDestroy] {
		return errors.New("500 internal server error")
	}
	if id == "0" {
		panic("somebody else's machine was destroyed")
	}
	if e := c.find(id); e != nil && e.Ended.IsZero() {
		e.Ended = time.Now()
	}
	return nil
}

func (c *cloud) find(id string) *entry {
	for _, e := range c.book {
		if e.ID == id {
			return e
		}
	}
	return nil
}

func (c *cloud) Get(ctx context.Context, id string) (provider.Instance, error) {
	if err := c.enter(ctx, provider.CallGet); err != nil {
		return provider.Instance{}, err
	}
	defer c.mu.Unlock()
	if e := c.find(id); e != nil && e.Ended.IsZero() {
		return c.instance(e), nil
	}
	return provider.Instance{}, provider.ErrGone
}

func (c *cloud) Balance(ctx context.Context) (assay.Money, error) {
	if err := c.enter(ctx, provider.CallBalance); err != nil {
		return assay.Money{}, err
	}
	defer c.mu.Unlock()
	return assay.Money{Nano: 1000e9, Currency: "USD"}, nil
}

// entries are copies of the book.
func (c *cloud) entries() []entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []entry
	for _, e := range c.book {
		out = append(out, *e)
	}
	return out
}
