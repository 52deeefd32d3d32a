package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// meter counts requests by kind.
type meter struct {
	mu    sync.Mutex
	took  map[string][]time.Duration
	fails map[string]int
	back  []time.Time // of first successes after a failure
}

func newMeter() *meter {
	return &meter{took: map[string][]time.Duration{}, fails: map[string]int{}}
}

// done notes one request.
func (m *meter) done(kind string, took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.fails[kind+": "+reason(err)]++
		return
	}
	m.took[kind] = append(m.took[kind], took)
}

// returned notes that an agent reached the server again.
func (m *meter) returned() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.back = append(m.back, time.Now())
}

// reason keeps counts of failures few.
func reason(err error) string {
	var s *statusError
	if errors.As(err, &s) {
		return fmt.Sprint(s.status)
	}
	var n net.Error
	if errors.As(err, &n) || errors.Is(err, io.EOF) {
		return "no answer"
	}
	return err.Error()
}

// times is how long requests of a kind took, in milliseconds.
type times struct {
	N             int
	P50, P99, Max float64
}

// result is what a swarm came to.
type result struct {
	Agents    int
	Enrolled  float64 // seconds that taking all in took
	Requests  map[string]times
	Failures  map[string]int
	Reports   int      // confirmed: every hash is stored
	Waiting   int      // signed and not confirmed at the end
	Delivered []string `json:"-"` // ids of the statements that were taken
	// Spread is over how many seconds agents came back after failures, from the
	// first to the last, and Most from the tenth to the ninetieth of a hundred.
	Returned     int
	Spread, Most float64
}

func (m *meter) result() result {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := result{Requests: map[string]times{}, Failures: m.fails, Returned: len(m.back)}
	for kind, all := range m.took {
		slices.Sort(all)
		ms := func(share float64) float64 {
			return float64(all[int(share*float64(len(all)-1))]) / float64(time.Millisecond)
		}
		r.Requests[kind] = times{len(all), ms(0.5), ms(0.99), ms(1)}
	}
	if n := len(m.back); n > 0 {
		slices.SortFunc(m.back, time.Time.Compare)
		r.Spread = m.back[n-1].Sub(m.back[0]).Seconds()
		r.Most = m.back[n*9/10].Sub(m.back[n/10]).Seconds()
	}
	return r
}
