// Package sandbox is simulated clouds: Vast.ai and TensorDock as their APIs really
// behave, over real HTTP, with every fault as a switch.
//
// It promises a book: which instance lived from when to when, what it really cost,
// and how often a limit was broken, whatever the clouds answered meanwhile. Whoever
// claims that no money was lost is checked against it.
//
// It refuses to share a type with the adapters: they read captured shapes, and a
// struct that both used would hide a mistake that both make. Nothing is behind an
// instance's address unless [Config.Start] puts a machine there.
//
// All of its durations are divided by one factor, and so are the traits of a
// provider ([provider.Traits.Scaled]) and the leases of a campaign that runs against
// it; prices are for the time that this stands for. Times of the day are those of
// the machine.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Names of the clouds.
const (
	Vast       = "vast"
	TensorDock = "tensordock"
)

// Config is what a sandbox is made of.
type Config struct {
	// Scale is how much faster its clock runs; 0: 1.
	Scale float64
	// Seed makes faults repeatable, as far as requests come in the same order.
	Seed uint64
	// Faults are the switches that are on, by name ([Switches]); one that is not
	// here has its default.
	Faults map[string]float64
	// Keys are the accounts' keys, by cloud; a cloud without one is given one.
	Keys map[string]string
	// Start puts a machine behind an instance; nil: there is none.
	Start Start
}

// Sandbox is a set of clouds. Its methods may be called by several goroutines.
type Sandbox struct {
	c      Config
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // machines that start or stop

	mu        sync.Mutex
	rng       *rand.Rand
	faults    map[string]float64
	next      map[string]int // faults that hit the next calls, however likely they are
	hits      map[string]int
	calls     map[string]int
	last      map[string]time.Time // of a call, by cloud and kind
	broken    []Violation
	offers    map[string][]*offer
	instances []*instance
	serial    int64
	keys      map[string]string
	shape     int // of TensorDock's lists, in turn
}

// New makes the clouds. They are served by [Sandbox.Handler].
func New(c Config) (*Sandbox, error) {
	if c.Scale == 0 {
		c.Scale = 1
	}
	if c.Scale < 0 || c.Scale > 1e6 {
		return nil, fmt.Errorf("a scale of %v: it is a factor above 0", c.Scale)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sandbox{
		c: c, ctx: ctx, cancel: cancel, rng: rand.New(rand.NewPCG(c.Seed, 16)),
		faults: map[string]float64{}, next: map[string]int{}, hits: map[string]int{}, calls: map[string]int{},
		last: map[string]time.Time{}, keys: map[string]string{}, serial: 1000,
	}
	for _, cloud := range []string{Vast, TensorDock} {
		if s.keys[cloud] = c.Keys[cloud]; s.keys[cloud] == "" {
			s.keys[cloud] = token(32)
		}
	}
	s.offers = map[string][]*offer{Vast: vastStock(), TensorDock: tensordockStock()}
	if err := s.Set(c.Faults); err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

// Close ends all machines.
func (s *Sandbox) Close() {
	s.cancel()
	s.mu.Lock()
	for _, i := range s.instances {
		i.halt()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// Key is an account's key.
func (s *Sandbox) Key(cloud string) string { return s.keys[cloud] }

// real is how long a duration of the clouds takes.
func (s *Sandbox) real(d time.Duration) time.Duration { return time.Duration(float64(d) / s.c.Scale) }

// seconds is a switch that is a time, as it takes.
func (s *Sandbox) seconds(cloud, name string) time.Duration {
	return s.real(time.Duration(s.value(cloud, name) * float64(time.Second)))
}

// Errors that a create gives its handler; each cloud says them in its own way.
var (
	errNoCapacity = errors.New("no capacity")
	errNoIP       = errors.New("no public IP")
	errNoMoney    = errors.New("no money")
)

// request is what a create asks for, in any cloud's words.
type request struct {
	cloud   string
	offer   *offer
	gpus    int
	label   string
	image   string
	diskGB  float64
	sshKey  string
	onStart string
}

// create rents, with s.mu held.
func (s *Sandbox) create(r request) (*instance, error) {
	o := r.offer
	switch {
	case s.hit(r.cloud, FaultNoIP):
		return nil, errNoIP
	case o == nil || o.taken || s.stale(r.cloud, o) || s.hit(r.cloud, FaultNoCapacity):
		return nil, errNoCapacity
	case s.balance(r.cloud) <= 0:
		return nil, errNoMoney
	}
	s.serial++
	i := &instance{
		cloud: r.cloud, serial: s.serial, id: s.instanceID(r.cloud), label: r.label, image: r.image, offer: o, gpus: r.gpus,
		disk: r.diskGB, sshKey: r.sshKey, onStart: r.onStart, created: time.Now(), selfKey: token(24),
	}
	i.hour, i.diskHour = o.rates(r.gpus, r.diskGB)
	if s.hit(r.cloud, FaultPriceJump) {
		i.hour *= 1.5
	}
	i.downGB = s.value(r.cloud, SettingImageGB)
	if r.cloud == Vast { // one ask is one machine
		o.taken = true
	}
	s.instances = append(s.instances, i)
	s.boot(i)
	return i, nil
}

// instanceID makes an id as the cloud's own look.
func (s *Sandbox) instanceID(cloud string) string {
	if cloud == Vast {
		return fmt.Sprint(s.serial)
	}
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", s.rng.Uint32(), s.rng.Uint32()&0xffff, s.rng.Uint32()&0xfff, s.rng.Uint32()&0xfff, s.serial)
}

// find gives an instance that has not ended, with s.mu held.
func (s *Sandbox) find(cloud, id string) *instance {
	for _, i := range s.instances {
		if i.cloud == cloud && i.id == id && i.alive() {
			return i
		}
	}
	return nil
}

// listed gives what a list shows now, which lags, with s.mu held.
func (s *Sandbox) listed(cloud string) []*instance {
	at := time.Now().Add(-s.seconds(cloud, SettingListLag))
	var out []*instance
	for _, i := range s.instances {
		if i.cloud == cloud && !i.created.After(at) && (i.alive() || i.ended.After(at)) {
			out = append(out, i)
		}
	}
	return out
}
