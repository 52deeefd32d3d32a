package hammer

import (
	"sync"
	"sync/atomic"
)

// feed makes prompts ahead of time, so that making them does not delay the
// requests: a prompt that was not ready when its request was due would be the
// client's own lag.
type feed struct {
	source prompts
	slots  []atomic.Pointer[numbered]
	taken  atomic.Int64 // highest number taken, plus one
	wake   chan struct{}
	stop   chan struct{}
	done   sync.WaitGroup
}

type numbered struct {
	n int
	p prompt
}

// newFeed starts making the prompts from number first on, up to ahead of them
// before they are asked for. It returns when the first ones are ready.
func newFeed(source prompts, first, ahead int) *feed {
	f := &feed{
		source: source,
		slots:  make([]atomic.Pointer[numbered], ahead),
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
	}
	f.taken.Store(int64(first))
	made := f.fill(first)
	f.done.Go(func() {
		for {
			select {
			case <-f.stop:
				return
			case <-f.wake:
				made = f.fill(made)
			}
		}
	})
	return f
}

// fill makes prompts from number n until it is far enough ahead, and returns
// the number of the next.
func (f *feed) fill(n int) int {
	n = max(n, int(f.taken.Load()))
	for n < int(f.taken.Load())+len(f.slots) {
		f.slots[n%len(f.slots)].Store(&numbered{n, f.source.at(n)})
		n++
	}
	return n
}

// take gives prompt n. One that was not made ahead is made now.
func (f *feed) take(n int) prompt {
	slot := &f.slots[n%len(f.slots)]
	ready := slot.Load()
	for {
		old := f.taken.Load()
		if int64(n) < old || f.taken.CompareAndSwap(old, int64(n)+1) {
			break
		}
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
	if ready == nil || ready.n != n {
		return f.source.at(n)
	}
	slot.CompareAndSwap(ready, nil)
	return ready.p
}

func (f *feed) close() {
	close(f.stop)
	f.done.Wait()
}
