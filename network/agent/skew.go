package agent

import (
	"net"
	"sync"
	"time"
)

// maxSkew is how far the clock may be off when a run starts: statements have
// times, and a log of many nodes is read by them.
const maxSkew = time.Minute

// Skew is how far this machine's clock is behind the server's.
type Skew struct {
	Offset time.Duration // the server's minus ours
	Slack  time.Duration // half the round trip: it may be that much more or less
	Known  bool
}

// skewOf measures by one exchange: the server read its clock somewhere between
// sent and got, which are by ours.
func skewOf(sent, got, server time.Time) Skew {
	half := got.Sub(sent) / 2
	return Skew{Offset: server.Sub(sent.Add(half)).Round(time.Microsecond), Slack: half, Known: true}
}

// Beyond reports whether the clock is certainly too far off to start a run.
func (s Skew) Beyond() bool { return s.Known && s.Offset.Abs()-s.Slack > maxSkew }

// clockWatch keeps the newest measurement that is worth something.
type clockWatch struct {
	mu   sync.Mutex
	skew Skew
}

// maxSlack is the longest half round trip that says anything about a minute.
const maxSlack = 20 * time.Second

func (w *clockWatch) saw(sent, got, server time.Time) {
	s := skewOf(sent, got, server)
	if server.IsZero() || s.Slack < 0 || s.Slack > maxSlack {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew = s
}

func (w *clockWatch) now() Skew {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skew
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
