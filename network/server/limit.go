package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is how often somebody may ask: so many a second, and so many at once. A
// burst of zero or less means without a limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

// maxLimited is how many buckets one generation of a [limiter] holds.
const maxLimited = 20_000

// limiter has a bucket for each of many who ask. It is bounded: when a generation
// is full it becomes the old one, and who is not seen while another fills is
// forgotten. Whoever pushes others out by coming from many addresses gives them
// nothing but a full bucket.
type limiter struct {
	rate Rate

	mu       sync.Mutex
	now, old map[string]*rate.Limiter
}

func newLimiter(r Rate) *limiter { return &limiter{rate: r, now: map[string]*rate.Limiter{}} }

func (l *limiter) bucket(key string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.now[key]; b != nil {
		return b
	}
	b := l.old[key]
	if b == nil {
		b = rate.NewLimiter(rate.Limit(l.rate.PerSecond), l.rate.Burst)
	}
	if len(l.now) >= maxLimited {
		l.old, l.now = l.now, map[string]*rate.Limiter{}
	}
	l.now[key] = b
	return b
}

// take takes one from a bucket. Where there is none it says when there will be.
func (l *limiter) take(key string, now time.Time) (wait time.Duration, ok bool) {
	if l.rate.Burst <= 0 {
		return 0, true
	}
	r := l.bucket(key).ReserveN(now, 1)
	if d := r.DelayFrom(now); d > 0 {
		r.CancelAt(now)
		return d, false
	}
	return 0, true
}

// empty says whether a bucket has nothing, without taking from it.
func (l *limiter) empty(key string, now time.Time) bool {
	return l.rate.Burst > 0 && l.bucket(key).TokensAt(now) < 1
}

// maxHops is how many entries of X-Forwarded-For are read, from the right.
const maxHops = 16

// address is what an unknown sender is counted by. Of IPv6 it is the network of
// 64 bits, which one subscriber has whole. Behind a proxy that is trusted it is who
// the proxy says that it answers: the last entry of X-Forwarded-For that is no such
// proxy itself. What stands before that was sent by whoever asked, and is not read.
func address(r *http.Request, trusted []netip.Prefix) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= max(0, len(hops)-maxHops) && within(ip, trusted); i-- {
		hop, err := forwarded(hops[i])
		if err != nil {
			break // the proxy says nothing that we understand: it is counted by itself
		}
		ip = hop
	}
	if ip.Is6() {
		p, err := ip.Prefix(64)
		if err == nil {
			return p.String()
		}
	}
	return ip.String()
}

func within(ip netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// forwarded reads an entry of X-Forwarded-For: an address, with a port or without.
func forwarded(entry string) (netip.Addr, error) {
	entry = strings.TrimSpace(entry)
	ip, err := netip.ParseAddr(strings.Trim(entry, "[]"))
	if err != nil {
		var withPort netip.AddrPort
		withPort, err = netip.ParseAddrPort(entry)
		ip = withPort.Addr()
	}
	return ip.Unmap().WithZone(""), err
}
