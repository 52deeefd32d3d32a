package provider

import "errors"

// Errors of providers, to be asked for by errors.Is. One that is none of them is a
// failure that says nothing about what happened: the network's, or a provider's 500.
var (
	// ErrNotSent says that no request left, so that nothing was created: the
	// order is wrong, or the context ended while waiting for a turn.
	ErrNotSent = errors.New("no request was sent")
	// ErrKey says that the provider refused the key. Nothing that it said with it
	// is about instances. Stop, and have somebody look at the credentials.
	ErrKey = errors.New("the provider refused the key")
	// ErrRate says that requests came too fast. Wait and ask again: but for Create,
	// whose label is looked for first.
	ErrRate = errors.New("the provider says that requests come too fast")
	// ErrNoCapacity says that an offer was stale or its location full: take another
	// one, and trust that location less.
	ErrNoCapacity = errors.New("the provider has no such machine free")
	// ErrNoMoney says that the account's money is not enough.
	ErrNoMoney = errors.New("the account has not enough money")
	// ErrGone says that an instance's own page states that there is none.
	ErrGone = errors.New("the instance is gone")
	// ErrMalformed says that an answer could not be understood. It states nothing:
	// above all it is not an empty list.
	ErrMalformed = errors.New("the provider's answer cannot be understood")
	// ErrUnproved says that a list lacks an instance which should be in it, and
	// that nothing proves its end.
	ErrUnproved = errors.New("the list lacks an instance whose end is not proved")
)
