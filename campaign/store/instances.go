package store

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/foreign"
)

// Instance is a machine that a provider has shown under one of our labels.
type Instance struct {
	Provider  string    `json:"provider"`
	ID        string    `json:"id"`
	Label     string    `json:"label"`
	Host      string    `json:"host,omitempty"` // for SSH, as it was last seen
	Port      int       `json:"port,omitempty"`
	First     time.Time `json:"first_at"`
	Seen      time.Time `json:"seen_at"`
	Destroyed time.Time `json:"destroyed_at,omitzero"` // the provider accepted it
	Refused   time.Time `json:"refused_at,omitzero"`   // the provider did not, since
	Refusal   string    `json:"refusal,omitempty"`
	Gone      time.Time `json:"gone_at,omitzero"` // first look that missed it
	Ended     time.Time `json:"ended_at,omitzero"`
	Proof     string    `json:"proof,omitempty"`
}

// Created records an instance that exists under an intent's label, whatever state
// that is in. Its price is by our clock, as the intent's is. An intent that create was called for, and that nobody has ended, is
// live; under any other one the instance is to be destroyed, and one that had ended is
// taken up again.
func (s *Store) Created(ctx context.Context, label string, n provider.Instance) (i Intent, err error) {
	err = s.repeat(ctx, "record instance "+foreign.Line(n.ID, 80)+" of "+label, func(q database.Query) error {
		i, err = s.intent(ctx, q, label, true)
		if err != nil {
			return err
		}
		if err := s.record(ctx, q, i, n); err != nil {
			return err
		}
		if i.State == Creating {
			if _, err := q.ExecContext(ctx, "UPDATE intents SET state = 'live' WHERE label = $1 AND state = 'creating'", label); err != nil {
				return err
			}
		}
		i, err = s.intent(ctx, q, label, false)
		return err
	})
	return i, err
}

// record makes or updates an instance's row, and takes up an intent that it
// contradicts.
func (s *Store) record(ctx context.Context, q database.Query, i Intent, n provider.Instance) error {
	now := s.db.Now()
	added, err := affected(q.ExecContext(ctx, `INSERT INTO instances (provider, id, label, host, port, first_at, seen_at, refusal, proof) VALUES ($1, $2, $3, $4, $5, `+now+`, `+now+`, '', '')
		ON CONFLICT (provider, id) DO NOTHING`, i.Provider, n.ID, i.Label, n.Host, n.Port))
	if err != nil {
		return err
	}
	if added == 0 {
		var label string
		if err := q.QueryRowContext(ctx, "SELECT label FROM instances WHERE provider = $1 AND id = $2", i.Provider, n.ID).Scan(&label); err != nil {
			return err
		}
		if label != i.Label { // ids of a provider are its own affair, and this one is in use twice
			return fmt.Errorf("%w: instance %s of %s had the label %s before", ErrTaken, foreign.Line(n.ID, 80), i.Provider, label)
		}
		if _, err := q.ExecContext(ctx, "UPDATE instances SET seen_at = "+now+", host = $1, port = $2, gone_at = NULL, ended_at = NULL, proof = '' WHERE provider = $3 AND id = $4",
			n.Host, n.Port, i.Provider, n.ID); err != nil {
			return err
		}
	}
	if err := s.priced(ctx, q, i, n); err != nil {
		return err
	}
	if i.State != Ended && i.State != Unproved && i.State != Intended {
		return nil
	}
	return s.takeUp(ctx, q, i)
}

// priced notes what an instance really costs an hour of our clock. One that costs more
// than was reserved for is ended, before that is used up.
func (s *Store) priced(ctx context.Context, q database.Query, i Intent, n provider.Instance) error {
	const rounding = 100 // parts of which one may be a provider's
	if n.Hour.Nano <= i.Hour.Nano {
		return nil
	}
	if _, err := q.ExecContext(ctx, "UPDATE intents SET hour = $1 WHERE label = $2", n.Hour.Nano, i.Label); err != nil {
		return err
	}
	if n.Hour.Nano-i.Hour.Nano <= i.Hour.Nano/rounding {
		return nil
	}
	return s.beginEnd(ctx, q, i.Label, fmt.Sprintf("it costs %s an hour, and its offer said %s", n.Hour, i.Hour))
}

// takeUp makes an intent ending whose instance is there although it should not be.
// Of one that was settled nothing is reserved again: what it costs is added when it
// has ended, since a cap must not be passed by a reservation.
func (s *Store) takeUp(ctx context.Context, q database.Query, i Intent) error {
	reserved := i.Reserved.Nano
	if i.State == Ended {
		reserved = 0
	}
	_, err := q.ExecContext(ctx, "UPDATE intents SET state = 'ending', why = $1, ending_at = "+s.db.Now()+", absent_at = NULL, ended_at = NULL, proof = '', reserved = $2 WHERE label = $3",
		"it was "+string(i.State)+", and its instance was seen", reserved, i.Label)
	return err
}

// Destroyed notes that a provider accepted to destroy an instance.
func (s *Store) Destroyed(ctx context.Context, n Instance) error {
	return s.one(ctx, "note the end of instance "+foreign.Line(n.ID, 80), func(q database.Query) error {
		_, err := q.ExecContext(ctx, "UPDATE instances SET destroyed_at = coalesce(destroyed_at, "+s.db.Now()+"), refused_at = NULL, refusal = '' WHERE provider = $1 AND id = $2", n.Provider, n.ID)
		return err
	})
}

// Refused notes that a provider did not accept to destroy an instance. Nothing is
// created there until it does.
func (s *Store) Refused(ctx context.Context, n Instance, why error) error {
	return s.one(ctx, "note that instance "+foreign.Line(n.ID, 80)+" is not destroyed", func(q database.Query) error {
		_, err := q.ExecContext(ctx, "UPDATE instances SET destroyed_at = NULL, refused_at = coalesce(refused_at, "+s.db.Now()+"), refusal = $1 WHERE provider = $2 AND id = $3", foreign.Line(why.Error(), maxText), n.Provider, n.ID)
		return err
	})
}

const intentColumns = "label, campaign, cell, provider, offer, machine, location, state, why, declined = 1, day, hour, extra, reserved, spent, made_at, called_at, lease_at, life, longest_at, ending_at, absent_at, ended_at, proof FROM intents WHERE "

func scanIntent(r database.Row) (i Intent, err error) {
	var life int64
	err = r.Scan(&i.Label, &i.Campaign, &i.Cell, &i.Provider, &i.Offer, &i.Machine, &i.Location, &i.State, &i.Why, &i.Declined, &i.Day, amount(&i.Hour), amount(&i.Extra), amount(&i.Reserved), amount(&i.Spent),
		database.At(&i.Made), database.At(&i.Called), database.At(&i.Lease), &life, database.At(&i.Longest), database.At(&i.Asked), database.At(&i.Absent), database.At(&i.Ended), &i.Proof)
	i.Life = time.Duration(life) * time.Microsecond
	return i, err
}

const instanceColumns = "provider, id, label, host, port, first_at, seen_at, destroyed_at, refused_at, refusal, gone_at, ended_at, proof FROM instances WHERE "

func scanInstance(r database.Row) (n Instance, err error) {
	return n, r.Scan(&n.Provider, &n.ID, &n.Label, &n.Host, &n.Port, database.At(&n.First), database.At(&n.Seen), database.At(&n.Destroyed), database.At(&n.Refused), &n.Refusal, database.At(&n.Gone), database.At(&n.Ended), &n.Proof)
}

// intents reads intents by a condition, with their instances.
func (s *Store) intents(ctx context.Context, q database.Query, where string, args ...any) ([]Intent, error) {
	list, err := database.All(ctx, q, scanIntent, "SELECT "+intentColumns+where, args...)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	labels, at := make([]string, len(list)), make(map[string]int, len(list))
	for k, i := range list {
		labels[k], at[i.Label] = i.Label, k
	}
	instances, err := database.All(ctx, q, scanInstance, "SELECT "+instanceColumns+s.db.Any("label", 1)+" ORDER BY label, first_at, id", s.db.List(labels))
	for _, n := range instances {
		k := at[n.Label]
		list[k].Instances = append(list[k].Instances, n)
	}
	return list, err
}

// intent reads one, and locks it if it is about to be changed.
func (s *Store) intent(ctx context.Context, q database.Query, label string, lock bool) (Intent, error) {
	where := "label = $1"
	if lock {
		where += s.db.ForUpdate()
	}
	list, err := s.intents(ctx, q, where, label)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Intent{}, err
	}
	return list[0], nil
}

// Intent reads an intent.
func (s *Store) Intent(ctx context.Context, label string) (i Intent, err error) {
	err = s.view(ctx, "read intent "+label, func(q database.Query) error {
		i, err = s.intent(ctx, q, label, false)
		return err
	})
	return i, err
}

// Intents lists the intents of a cell, oldest first.
func (s *Store) Intents(ctx context.Context, cell string) (list []Intent, err error) {
	err = s.view(ctx, "list the intents of cell "+cell, func(q database.Query) error {
		list, err = s.intents(ctx, q, "cell = $1 ORDER BY made_at, label", cell)
		return err
	})
	return list, err
}

// Open lists the intents of a provider that have not ended, oldest first.
func (s *Store) Open(ctx context.Context, provider string) (list []Intent, err error) {
	err = s.view(ctx, "list what is open at "+provider, func(q database.Query) error {
		list, err = s.intents(ctx, q, "provider = $1 AND state <> 'ended' ORDER BY made_at, label", provider)
		return err
	})
	return list, err
}
