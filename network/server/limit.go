package server

import (
	"net"
	"net/http"
	"net/netip"
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

// address is what an unknown sender is counted by. Of IPv6 it is the network of
// 64 bits, which one subscriber has whole.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		p, err := ip.Prefix(64)
		if err == nil {
			return p.String()
		}
	}
	return ip.String()
}
