package node

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Patience is how long a machine may take to let us in.
type Patience struct {
	// Within is the longest wait; 0: three minutes. An image that is pulled takes
	// longer than a bare machine: the caller knows.
	Within time.Duration
	// Every is the time between two tries; 0: 3 s.
	Every time.Duration
	// AuthGrace is how long a refused key is taken for one that is not installed
	// yet, from the first time that SSH answered; 0: one minute.
	AuthGrace time.Duration
	// Alive is asked before each try; an error of it ends the wait: the provider
	// says that the machine stopped. Nil: nobody knows.
	Alive func(context.Context) error
	// Tried hears of each failed try; nil: nobody does.
	Tried func(error)
}

func (p Patience) resolved() Patience {
	if p.Within <= 0 {
		p.Within = 3 * time.Minute
	}
	if p.Every <= 0 {
		p.Every = 3 * time.Second
	}
	if p.AuthGrace <= 0 {
		p.AuthGrace = time.Minute
	}
	return p
}

// Await connects as soon as the machine lets us in.
func Await(ctx context.Context, o Options, p Patience) (*Node, error) {
	p = p.resolved()
	end := time.Now().Add(p.Within)
	var answered time.Time // since when SSH answers
	for {
		if p.Alive != nil {
			if err := p.Alive(ctx); err != nil {
				return nil, err
			}
		}
		n, err := Dial(ctx, o)
		if err == nil {
			return n, nil
		}
		now := time.Now()
		if errors.Is(err, ErrAuth) && answered.IsZero() {
			answered = now
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !is(err, ErrNotReady, ErrAuth):
			return nil, err
		case errors.Is(err, ErrAuth) && now.Sub(answered) >= p.AuthGrace:
			return nil, fmt.Errorf("%w, %s after SSH first answered", err, now.Sub(answered).Round(time.Second))
		case now.After(end):
			return nil, fmt.Errorf("no SSH within %s: %w", p.Within.Round(time.Second), err)
		}
		if p.Tried != nil {
			p.Tried(err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(p.Every):
		}
	}
}
