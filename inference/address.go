package inference

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// addresses are those of the engine's name. Connections are spread over all of
// them: behind one name there may be several engines, and one that gets all the
// load is not what was asked for.
type addresses struct {
	host, port string
	// lookup resolves the host; nil: the system's resolver.
	lookup func(ctx context.Context, host string) ([]string, error)

	mu    sync.Mutex
	all   []address
	fresh int64 // when they were looked up
	next  int
}

type address struct {
	hostPort string
	downTill int64 // it refused a moment ago, and is left alone until then
}

const (
	maxAddresses = 256
	lookupEvery  = int64(30 * time.Second)
	downFor      = int64(10 * time.Second)
)

// order gives the addresses in the order in which to try them now: each call
// begins with another one, and those that failed of late come last.
func (a *addresses) order(ctx context.Context, now int64) ([]string, error) {
	if err := a.resolve(ctx, now); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	up, down := make([]string, 0, len(a.all)), []string(nil)
	for i := range a.all {
		x := &a.all[(a.next+i)%len(a.all)]
		if x.downTill > now {
			down = append(down, x.hostPort)
		} else {
			up = append(up, x.hostPort)
		}
	}
	a.next++
	return append(up, down...), nil
}

// resolve looks the name up, once in a while.
func (a *addresses) resolve(ctx context.Context, now int64) error {
	a.mu.Lock()
	known := len(a.all) > 0
	if known && now-a.fresh < lookupEvery {
		a.mu.Unlock()
		return nil
	}
	a.fresh = now // others need not look meanwhile
	a.mu.Unlock()
	hosts := []string{a.host}
	if net.ParseIP(a.host) == nil {
		find := a.lookup
		if find == nil {
			find = net.DefaultResolver.LookupHost
		}
		var err error
		if hosts, err = find(ctx, a.host); err == nil && len(hosts) == 0 {
			err = errors.New("the name has no address")
		}
		if err != nil && known {
			return nil // a resolver that fails now does not take away what it said
		}
		if err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.all
	a.all = nil
	for _, h := range hosts[:min(len(hosts), maxAddresses)] {
		x := address{hostPort: net.JoinHostPort(h, a.port)}
		if i := slices.IndexFunc(old, func(o address) bool { return o.hostPort == x.hostPort }); i >= 0 {
			x = old[i]
		}
		a.all = append(a.all, x)
	}
	return nil
}

// down notes that an address did not answer.
func (a *addresses) down(hostPort string, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.all {
		if a.all[i].hostPort == hostPort {
			a.all[i].downTill = now + downFor
		}
	}
}

// several reports whether the name has more than one address.
func (a *addresses) several() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all) > 1
}

// connect makes a connection to one of the engine's addresses: the next in
// turn, or where that does not answer another.
func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	order, err := c.addrs.order(ctx, c.clock.Now())
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, addr := range order {
		patience := ctx
		if rest := len(order) - i; rest > 1 {
			// An address that says nothing must not use up the others' time.
			var cancel context.CancelFunc
			patience, cancel = context.WithTimeout(ctx, c.timeouts.Connect/time.Duration(rest))
			defer cancel()
		}
		tcp, err := c.dialer.DialContext(patience, "tcp", addr)
		if err == nil {
			return tcp, nil
		}
		if ownLimit(err) != "" || ctx.Err() != nil {
			return nil, err
		}
		c.addrs.down(addr, c.clock.Now())
		errs = append(errs, err)
	}
	if len(errs) == 1 {
		return nil, errs[0]
	}
	return nil, errors.Join(errs...)
}
