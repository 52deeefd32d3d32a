package flow

import (
	"context"
	"sync"
	"time"
)

// shared are answers of providers that several cells use for a while: what a provider
// allows to be asked is for all of them together. Its zero value is empty and ready.
type shared[T any] struct {
	mu      sync.Mutex
	answers map[string]*answer[T]
}

// answer is one of them. Whoever holds turn may ask.
type answer[T any] struct {
	turn  chan struct{}
	at    time.Time // before it was asked for; zero: there is none
	value T
}

// get gives an answer that is not older than age, and asks for one where there is none.
// Of several who want the same one asks, and the others wait for it.
func (s *shared[T]) get(ctx context.Context, key string, age time.Duration, ask func() (T, error)) (T, error) {
	s.mu.Lock()
	if s.answers == nil {
		s.answers = map[string]*answer[T]{}
	}
	a := s.answers[key]
	if a == nil {
		a = &answer[T]{turn: make(chan struct{}, 1)}
		s.answers[key] = a
	}
	s.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
	defer func() { <-a.turn }()
	if now := time.Now(); a.at.IsZero() || now.Sub(a.at) > age {
		value, err := ask()
		if err != nil {
			return value, err // and the next one asks itself
		}
		a.at, a.value = now, value
	}
	return a.value, nil
}
