package notary

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// look is how far a partition was at a time of the notary's own clock.
type look struct {
	End int64     `json:"end"`
	At  time.Time `json:"at"`
}

// maxLooks bounds what is kept of a partition that the notary does not keep up
// with. Later looks are then left out: what is known is less sharp, and not wrong.
const maxLooks = 1024

// looks remembers when partitions ended where. A record that lies beyond an end
// was not there when that end was seen: a broker that says otherwise has another
// clock, or is made to lie, as by who has stolen a key that is revoked by now.
type looks struct {
	mu sync.Mutex
	of map[int32][]look
}

// see takes what the feed answered to a question that was asked at this time.
func (l *looks) see(ranges map[int32]Range, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[int32][]look{}
	}
	at = at.UTC().Truncate(time.Millisecond)
	for p, r := range ranges {
		list := l.of[p]
		switch last := len(list) - 1; {
		case last >= 0 && list[last].End >= r.End:
			list[last].At = at // nothing came since
		case len(list) < maxLooks:
			l.of[p] = append(list, look{r.End, at})
		}
	}
}

// before is the last time at which a record was not there yet; zero: not known.
func (l *looks) before(partition int32, offset int64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.of[partition]
	i, _ := slices.BinarySearchFunc(list, offset, func(o look, offset int64) int {
		if o.End <= offset {
			return -1
		}
		return 1
	})
	if i == 0 {
		return time.Time{}
	}
	return list[i-1].At
}

// passed forgets looks that say nothing about what comes after these records.
func (l *looks) passed(in []Incoming) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range in {
		list := l.of[in[i].Partition]
		for len(list) > 1 && list[1].End <= in[i].Offset {
			list = list[1:]
			l.of[in[i].Partition] = list
		}
	}
}

// last gives the newest look at each partition, and take begins with those.
func (l *looks) last() map[int32]look {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[int32]look, len(l.of))
	for p, list := range l.of {
		out[p] = list[len(list)-1]
	}
	return out
}

func (l *looks) take(from map[int32]look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = map[int32][]look{}
	for p, o := range from {
		l.of[p] = []look{o}
	}
}

// clocks compares the broker's time of a record with the notary's own clock.
func (n *Notary) clocks(in *Incoming, now time.Time) error {
	bound := n.o.MaxClockDifference
	if ahead := in.Time.Sub(now); ahead > bound {
		return fmt.Errorf("the broker took it at %s, which is %s after this notary's time; at most %s is allowed: set the clocks of both, and publish it again",
			stamp(in.Time), ahead.Round(time.Second), bound)
	}
	if before := n.looks.before(in.Partition, in.Offset); !before.IsZero() && before.Sub(in.Time) > bound {
		return fmt.Errorf("the broker took it at %s by its own clock, and it was not in the topic at %s by this notary's; at most %s of difference is allowed: set the clocks of both, or ask who runs the broker why it is backdated, and publish it again",
			stamp(in.Time), stamp(before), bound)
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
