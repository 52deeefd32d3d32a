package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A thousand waiting polls cost one query a second, and none once all have gone.
func TestPollsShareOneQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queries atomic.Int64
		var has atomic.Value
		has.Store("")
		p := newPolls(time.Second, func(_ context.Context, nodes []string) (map[string][]string, error) {
			queries.Add(1)
			out := map[string][]string{}
			for _, n := range nodes {
				if n == has.Load().(string) {
					out[n] = []string{"check"}
				}
			}
			return out, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		runs.Go(func() { p.run(ctx, func(err error) { t.Error(err) }) })
		var all sync.WaitGroup
		var got atomic.Int64
		for i := range 1000 {
			all.Go(func() {
				c, err := p.wait(ctx, nil, fmt.Sprint("n", i), 30*time.Second)
				if err != nil {
					t.Error(err)
				}
				if len(c) == 1 {
					got.Add(1)
					if i != 7 {
						t.Errorf("node %d got another's command", i)
					}
				}
			})
		}
		time.Sleep(10*time.Second + time.Millisecond)
		has.Store("n7")
		time.Sleep(time.Second)
		synctest.Wait()
		if got.Load() != 1 {
			t.Error("the command did not arrive within a second")
		}
		all.Wait()
		if n := queries.Load(); n < 29 || n > 32 {
			t.Errorf("%d queries in 30 seconds", n)
		}
		before := queries.Load()
		time.Sleep(time.Minute)
		if n := queries.Load() - before; n > 1 {
			t.Errorf("%d queries while nobody waited", n)
		}
		cancel()
		runs.Wait()
	})
}

// A short poll still sees what was there when it came, and a failed query ends
// nobody's wait.
func TestPollsWaitForTheNextAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		p := newPolls(time.Second, func(context.Context, []string) (map[string][]string, error) {
			if fail {
				fail = false
				return nil, errors.New("the database is away")
			}
			return map[string][]string{"n": {"check"}}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failures := 0
		go p.run(ctx, func(error) { failures++ })
		c, err := p.wait(ctx, nil, "n", 0)
		if err != nil || len(c) != 1 || failures != 1 {
			t.Errorf("%v, %v, %d failures", c, err, failures)
		}
	})
}

func TestPollsEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolls(time.Second, func(context.Context, []string) (map[string][]string, error) { return nil, nil })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.run(ctx, func(error) {})
		stop := make(chan struct{})
		time.AfterFunc(5*time.Second, func() { close(stop) })
		began := time.Now()
		if c, err := p.wait(t.Context(), stop, "n", time.Minute); err != nil || c != nil || time.Since(began) > 6*time.Second {
			t.Errorf("%v, %v after %s", c, err, time.Since(began))
		}
	})
}
