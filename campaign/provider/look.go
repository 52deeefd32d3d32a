package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Census is what a look at a provider found.
type Census struct {
	// At is when the list was complete, by our clock.
	At time.Time
	// Instances are those of the list, and those that the list lacked although
	// their own pages show them.
	Instances []Instance
	// Missed are ids of those: an older instance in it than the provider's lag says
	// that the list is not to be believed.
	Missed []string
	// Gone are ids that were asked for and are proved to be gone: the list lacks
	// them, their own page says so, and the key was good just then.
	Gone []string
	// Unproved are ids that were asked for and are neither in the list nor proved
	// to be gone, and why.
	Unproved map[string]error
}

// Has reports whether an instance was seen.
func (c Census) Has(id string) bool {
	for _, i := range c.Instances {
		if i.ID == id {
			return true
		}
	}
	return false
}

// proofWithin is how old the proof of a key may be for what was answered with it.
const proofWithin = time.Minute

// Look lists what a provider has and compares it with ids that are not known to be
// destroyed. A list that lacks one of them is believed only when that instance's own
// page agrees and the key is proved to be good within the same minute, by
// [KeyProver] or [Balancer]. Otherwise the error is [ErrUnproved], and the census has the rest. Any
// other error comes without a census, and states nothing about any instance.
//
// An end is proved for good by two looks that are further apart than the provider's
// lag. A provider without [Getter], or with nothing to prove its key by, proves none:
// two such looks then end the retries, and an operator has to confirm before a
// reservation is released.
func Look(ctx context.Context, p Provider, known ...string) (Census, error) {
	list, err := p.List(ctx)
	if err != nil {
		return Census{}, fmt.Errorf("list instances: %w", err)
	}
	c := Census{At: time.Now(), Instances: list, Unproved: map[string]error{}}
	var missing []string
	for _, id := range known {
		if !c.Has(id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return c, nil
	}
	c.prove(ctx, p, missing)
	if len(c.Unproved) == 0 {
		return c, nil
	}
	return c, c.unproved(missing)
}

// prove asks the pages of ids that a list lacks.
func (c *Census) prove(ctx context.Context, p Provider, missing []string) {
	getter, pages := p.(Getter)
	key := keyProof{by: proofOf(p)}
	if !pages || key.by == nil {
		for _, id := range missing {
			c.Unproved[id] = errors.New("this provider has no page of its own for an instance, or nothing to prove the key by")
		}
		return
	}
	for _, id := range missing {
		i, err := getter.Get(ctx, id)
		switch {
		case err == nil:
			c.Instances, c.Missed = append(c.Instances, i), append(c.Missed, id)
		case !errors.Is(err, ErrGone):
			c.Unproved[id] = err
		default:
			if err := key.good(ctx); err != nil {
				c.Unproved[id] = fmt.Errorf("its page says that it is gone, but the key is not proved to be good: %w", err)
				continue
			}
			c.Gone = append(c.Gone, id)
		}
	}
}

// proofOf is how a provider proves its key; nil: it cannot.
func proofOf(p Provider) func(context.Context) error {
	switch p := p.(type) {
	case KeyProver:
		return p.ProveKey
	case Balancer:
		return func(ctx context.Context) error {
			_, err := p.Balance(ctx)
			return err
		}
	}
	return nil
}

// keyProof is the last time that a key was seen to be good.
type keyProof struct {
	by func(context.Context) error
	at time.Time
}

// good proves the key after an answer that depends on it.
func (k *keyProof) good(ctx context.Context) error {
	if !k.at.IsZero() && time.Since(k.at) < proofWithin {
		return nil
	}
	if err := k.by(ctx); err != nil {
		return err
	}
	k.at = time.Now()
	return nil
}

// unproved says which instances are missing, and why that is not believed.
func (c *Census) unproved(missing []string) error {
	var why []string
	for _, id := range missing {
		if err := c.Unproved[id]; err != nil {
			why = append(why, fmt.Sprintf("%s: %v", foreign.Line(id, 80), err))
		}
	}
	return fmt.Errorf("%w: %s", ErrUnproved, strings.Join(why, "; "))
}
