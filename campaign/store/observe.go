package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/foreign"
)

// Sight is what a look at a provider found.
type Sight struct {
	Provider string
	Began    time.Time // by the database's clock, before the list was asked for
	// Over is when all had answered, by the same clock; zero: as it began. What it
	// missed may have lived, and cost, until then.
	Over   time.Time
	Lag    time.Duration
	Census provider.Census
	// Proves says that the provider has a page for each instance and a proof of its
	// key: without them a list that lacks something ends only the retries.
	Proves bool
}

// Found is what became of a sight.
type Found struct {
	Ended     []string            // labels whose end it proved
	Unproved  []string            // labels that wait for an operator from now on
	Strangers []provider.Instance // our labels, and no row for them
	Distrust  string              // why the list is not believed; empty: it is
}

// Observe notes what a look found, for all that is open at the provider. An end needs
// two looks that are further apart than the lag, whoever looked. A look that began
// before one that was noted already says nothing new.
func (s *Store) Observe(ctx context.Context, in Installation, sight Sight) (f Found, err error) {
	if err := s.provider(ctx, sight.Provider); err != nil {
		return f, err
	}
	err = s.tx(ctx, "note what "+sight.Provider+" has", func(q database.Query) error {
		f = Found{}
		n, err := affected(q.ExecContext(ctx, "UPDATE providers SET looked_at = $1 WHERE name = $2 AND looked_at < $1", database.Time(sight.Began), sight.Provider))
		if err != nil || n == 0 {
			return err
		}
		if err := s.observeAll(ctx, q, in, sight, &f); err != nil {
			return err
		}
		_, err = q.ExecContext(ctx, "UPDATE providers SET distrust = $1 WHERE name = $2", f.Distrust, sight.Provider)
		return err
	})
	return f, err
}

func (s *Store) observeAll(ctx context.Context, q database.Query, in Installation, sight Sight, f *Found) error {
	strangers, err := s.recordListed(ctx, q, in, sight)
	if err != nil {
		return err
	}
	if f.Strangers = strangers; len(strangers) > 0 {
		f.Distrust = fmt.Sprintf("%d instances have labels of this installation, and the database does not know them: it was restored, or a copy of it is in use", len(strangers))
	}
	open, err := s.intents(ctx, q, "provider = $1 AND state <> 'ended' ORDER BY label"+s.db.ForUpdate(), sight.Provider)
	for _, i := range open {
		if err := s.observe(ctx, q, i, sight, f); err != nil {
			return err
		}
	}
	return err
}

// recordListed records the listed instances that have one of our labels, and gives
// those whose label nobody knows.
func (s *Store) recordListed(ctx context.Context, q database.Query, in Installation, sight Sight) (strangers []provider.Instance, err error) {
	for _, n := range sight.Census.Instances {
		if !in.Owns(n.Label) {
			continue
		}
		list, err := s.intents(ctx, q, "label = $1 AND provider = $2"+s.db.ForUpdate(), n.Label, sight.Provider)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			strangers = append(strangers, n)
			continue
		}
		if stale(list[0], n, sight) {
			continue
		}
		if err := s.record(ctx, q, list[0], n); err != nil {
			return nil, err
		}
	}
	return strangers, nil
}

// stale reports whether a list shows what was proved to be gone and may only lag.
func stale(i Intent, n provider.Instance, sight Sight) bool {
	for _, k := range i.Instances {
		if k.ID == n.ID && !k.Ended.IsZero() {
			return sight.Began.Before(k.Ended.Add(sight.Lag))
		}
	}
	return false
}

// observe notes what a sight says of one intent.
func (s *Store) observe(ctx context.Context, q database.Query, i Intent, sight Sight, f *Found) error {
	ended, unproved := 0, 0
	for k := range i.Instances {
		if err := s.observeInstance(ctx, q, i, &i.Instances[k], sight, f); err != nil {
			return err
		}
		switch n := i.Instances[k]; {
		case n.Ended.IsZero():
		case n.Proof == "":
			unproved++
		default:
			ended++
		}
	}
	switch all := len(i.Instances); {
	case all == 0:
		return s.observeAbsence(ctx, q, i, sight, f)
	case ended == all:
		f.Ended = append(f.Ended, i.Label)
		return s.close(ctx, q, i, ProofGone, i.cost(sight.Began))
	case ended+unproved == all && i.State == Ending:
		return s.unproved(ctx, q, i, f)
	}
	return nil
}

// observeInstance notes what a sight says of one instance.
func (s *Store) observeInstance(ctx context.Context, q database.Query, i Intent, n *Instance, sight Sight, f *Found) error {
	switch {
	case !n.Ended.IsZero():
		return nil
	case sight.Census.Has(n.ID):
		if slices.Contains(sight.Census.Missed, n.ID) && sight.Began.After(n.First.Add(sight.Lag)) {
			f.Distrust = fmt.Sprintf("it lacks instance %s, whose own page shows it", foreign.Line(n.ID, 80))
		}
		return s.stillThere(ctx, q, n, sight)
	case slices.Contains(sight.Census.Gone, n.ID):
		return s.missed(ctx, q, n, sight, ProofGone)
	case sight.Proves: // its page or the proof of the key failed: nothing is known
		f.Distrust = fmt.Sprintf("it lacks instance %s, and nothing proves its end", foreign.Line(n.ID, 80))
		return nil
	case n.Destroyed.IsZero() || sight.Began.Before(n.Destroyed.Add(sight.Lag)):
		if n.Destroyed.IsZero() && sight.Began.After(n.First.Add(sight.Lag)) {
			f.Distrust = fmt.Sprintf("it lacks instance %s of %s, which nobody destroyed", foreign.Line(n.ID, 80), i.Label)
		}
		return nil
	}
	return s.missed(ctx, q, n, sight, "")
}

// stillThere notes that an instance is there although its provider accepted to
// destroy it longer ago than its list may lag: that was no destruction.
func (s *Store) stillThere(ctx context.Context, q database.Query, n *Instance, sight Sight) error {
	if n.Destroyed.IsZero() || sight.Began.Before(n.Destroyed.Add(sight.Lag)) {
		return nil
	}
	n.Destroyed, n.Refused = time.Time{}, sight.Began
	_, err := q.ExecContext(ctx, "UPDATE instances SET destroyed_at = NULL, refused_at = coalesce(refused_at, $1), refusal = $2 WHERE provider = $3 AND id = $4",
		database.Time(sight.Began), "it is still there, longer after its destruction was accepted than the list lags", n.Provider, n.ID)
	return err
}

// missed notes that an instance is gone: the first time when, the second time, later
// than the lag, that it has ended.
func (s *Store) missed(ctx context.Context, q database.Query, n *Instance, sight Sight, proof string) error {
	if n.Gone.IsZero() {
		if n.Gone = sight.Over; n.Gone.IsZero() {
			n.Gone = sight.Began
		}
		_, err := q.ExecContext(ctx, "UPDATE instances SET gone_at = $1 WHERE provider = $2 AND id = $3", database.Time(n.Gone), n.Provider, n.ID)
		return err
	}
	if !sight.Began.After(n.Gone.Add(sight.Lag)) {
		return nil
	}
	n.Ended, n.Proof = sight.Began, proof
	_, err := q.ExecContext(ctx, "UPDATE instances SET ended_at = $1, proof = $2, refused_at = NULL WHERE provider = $3 AND id = $4", database.Time(n.Ended), proof, n.Provider, n.ID)
	return err
}

// observeAbsence is for an intent of which no instance was ever seen. If the provider
// said no, two looks beyond the lag agree with it. If its answer was lost, a list with
// nothing at all in it agrees with nobody: an endpoint that was retired gives such
// ones, and this instance has no page that could be asked. After some of them an
// operator may confirm; a list with something in it still settles it.
func (s *Store) observeAbsence(ctx context.Context, q database.Query, i Intent, sight Sight, f *Found) error {
	const patience = 3 // lags
	switch {
	case i.State != Ending && i.State != Unproved || !sight.Began.After(i.Asked.Add(sight.Lag)):
		return nil
	case !i.Declined && len(sight.Census.Instances) == 0:
		if i.State == Unproved || !sight.Began.After(i.Asked.Add(patience*sight.Lag)) {
			return nil
		}
		return s.unproved(ctx, q, i, f)
	case i.Absent.IsZero():
		_, err := q.ExecContext(ctx, "UPDATE intents SET absent_at = $1 WHERE label = $2", database.Time(sight.Began), i.Label)
		return err
	case !sight.Began.After(i.Absent.Add(sight.Lag)):
		return nil
	}
	f.Ended = append(f.Ended, i.Label)
	return s.close(ctx, q, i, ProofAbsent, 0)
}

// unproved leaves an intent to an operator.
func (s *Store) unproved(ctx context.Context, q database.Query, i Intent, f *Found) error {
	f.Unproved = append(f.Unproved, i.Label)
	_, err := q.ExecContext(ctx, "UPDATE intents SET state = 'unproved' WHERE label = $1", i.Label)
	return err
}

// AdoptInstance takes up an instance that has one of our labels and no row: it is to
// be destroyed.
func (s *Store) AdoptInstance(ctx context.Context, name string, n provider.Instance) error {
	return s.repeat(ctx, "adopt "+foreign.Line(n.Label, 80), func(q database.Query) error {
		now, err := s.now(ctx, q)
		if err != nil {
			return err
		}
		i := Intent{Label: n.Label, Provider: name, Machine: n.Machine, Location: n.Location, State: Ending, Why: "adopted: nobody knows what it was for",
			Day: day(now), Hour: n.Hour, Made: now, Lease: now, Longest: now, Asked: now}
		if list, err := s.intents(ctx, q, "label = $1"+s.db.ForUpdate(), n.Label); err != nil || len(list) > 0 {
			return err
		}
		if err := s.insertIntent(ctx, q, i); err != nil {
			return err
		}
		return s.record(ctx, q, i, n)
	})
}
