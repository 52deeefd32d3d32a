package provider

import (
	"context"
	"time"
)

// Call is a kind of request, for limits.
type Call string

const (
	CallOffers  Call = "offers"
	CallCreate  Call = "create"
	CallList    Call = "list" // each page of a list is one
	CallDestroy Call = "destroy"
	CallGet     Call = "get"
	CallBalance Call = "balance"
)

// Calls are all of them.
func Calls() []Call {
	return []Call{CallOffers, CallCreate, CallList, CallDestroy, CallGet, CallBalance}
}

// Wait returns when a request of this kind may leave, or with the reason why it may
// not. Adapters call it before each request, pages and second tries included. A nil
// Wait lets all of them leave.
type Wait func(ctx context.Context, c Call) error

// Turn waits by w.
func (w Wait) Turn(ctx context.Context, c Call) error {
	if w == nil {
		return ctx.Err()
	}
	return w(ctx, c)
}

// Traits are what is known of a provider beside its methods.
type Traits struct {
	// Name is its name in a matrix and in SQL.
	Name string `json:"name"`
	// MinInterval is the least time between two requests of one kind, for the whole
	// account. A kind that is not here has no limit of its own.
	MinInterval map[Call]time.Duration `json:"min_interval,omitempty"`
	// MinAny is the least time between two requests of whatever kind.
	MinAny time.Duration `json:"min_any,omitempty"`
	// ListLag is the longest time until a list shows what was created, or no
	// longer shows what was destroyed.
	ListLag time.Duration `json:"list_lag"`
	// KeyLag is the longest time until a machine that answers knows the key.
	KeyLag time.Duration `json:"key_lag"`
	// User is who signs in by SSH.
	User string `json:"user"`
	// MinDiskGB is the smallest disk that can be ordered.
	MinDiskGB int `json:"min_disk_gb,omitempty"`
	// Owned says that machines are one's own: they cost nothing, and serve one
	// instance at a time.
	Owned bool `json:"owned,omitempty"`
	// KeyFiles are private SSH keys that machines of one's own know, by the machine;
	// one that is not here gets a key of the instance's own.
	KeyFiles map[string]string `json:"-"`
	// DeadMan is what a machine can do when nobody renews its lease.
	DeadMan DeadMan `json:"dead_man"`
}

// Guarantee says how much of the money ends with a machine's own end.
type Guarantee string

const (
	EndsNothing Guarantee = "nothing" // the machine cannot end what it costs
	EndsCompute Guarantee = "compute" // it can stop; its disk is billed until somebody destroys it
	EndsAll     Guarantee = "all"     // it can destroy itself
)

// DeadMan is how a machine ends itself.
type DeadMan struct {
	Guarantee Guarantee `json:"guarantee"`
	// Text says it in a sentence, for the plan.
	Text string `json:"text"`
	// End is the shell command that does it, run on the machine as its user;
	// empty: there is none.
	End string `json:"end,omitempty"`
	// Boots says that OnStart runs before SSH, so that the dead man is there
	// although nobody could ever sign in.
	Boots bool `json:"boots,omitempty"`
}

// Scaled gives the traits for a cloud whose clock runs factor times as fast, as the
// sandbox' does. Zero is one.
func (t Traits) Scaled(factor float64) Traits {
	if factor <= 0 || factor == 1 {
		return t
	}
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) / factor) }
	intervals := map[Call]time.Duration{}
	for c, d := range t.MinInterval {
		intervals[c] = scale(d)
	}
	t.MinInterval, t.MinAny = intervals, scale(t.MinAny)
	t.ListLag, t.KeyLag = scale(t.ListLag), scale(t.KeyLag)
	return t
}
