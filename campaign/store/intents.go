package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/foreign"
)

// State is how far an intent has come.
type State string

// States of an intent. Money is reserved in all of them but the last.
const (
	Intended State = "intended" // committed; create was not called
	Creating State = "creating" // create was called, once; its outcome is not known yet
	Live     State = "live"     // there is an instance, under a lease
	Ending   State = "ending"   // whatever there is of it is being destroyed
	Unproved State = "unproved" // destroyed as far as can be told: an operator has to confirm
	Ended    State = "ended"    // its end is proved and its money settled
)

// How an end was proved.
const (
	ProofNotCalled = "create was never called"
	ProofAbsent    = "no list has shown it"
	ProofGone      = "the list lacks it and its own page says so"
	ProofOperator  = "an operator confirmed it"
)

// Intent is an instance that was intended, from before its creation until its money
// is settled.
type Intent struct {
	Label    string `json:"label"`
	Campaign string `json:"campaign"`
	Cell     string `json:"cell"` // empty: adopted
	Provider string `json:"provider"`
	Offer    string `json:"offer"`
	Machine  string `json:"machine,omitempty"`
	Location string `json:"location,omitempty"`
	State    State  `json:"state"`
	Why      string `json:"why,omitempty"` // it is being ended
	// Declined says that the provider answered create with a plain no.
	Declined bool        `json:"declined,omitempty"`
	Day      string      `json:"day"` // UTC, whose budget it is in
	Hour     assay.Money `json:"hour"`
	Extra    assay.Money `json:"extra"` // what is billed beside time: bandwidth
	Reserved assay.Money `json:"reserved"`
	Spent    assay.Money `json:"spent"`

	Made    time.Time     `json:"made_at"`
	Called  time.Time     `json:"called_at,omitzero"` // create
	Lease   time.Time     `json:"lease_at"`
	Life    time.Duration `json:"life"`       // the longest, from the call of create on
	Longest time.Time     `json:"longest_at"` // no lease goes beyond it
	Asked   time.Time     `json:"ending_at,omitzero"`
	Absent  time.Time     `json:"absent_at,omitzero"` // first look that did not find what create may have made
	Ended   time.Time     `json:"ended_at,omitzero"`
	Proof   string        `json:"proof,omitempty"`

	Instances []Instance `json:"instances,omitempty"`
}

// Terms are what an intent is made of.
type Terms struct {
	Cell     string
	Provider string
	Offer    string
	Machine  string // empty: not stated
	Location string
	Hour     assay.Money   // what an hour of our clock costs
	Extra    assay.Money   // billed beside time
	Reserve  assay.Money   // the most that it may come to
	Lease    time.Duration // until its first renewal
	Life     time.Duration // the longest
	Lag      time.Duration // the provider's
	// Again allows an offer that the cell has tried before, as with machines of
	// one's own.
	Again bool
}

// Intend commits an intent with a new label and its reservation. It is refused where
// an instance of the cell may still live (ErrAlive), the cell has had the offer
// (ErrOffer) or another one has it (ErrBusy), the money is not enough (ErrCap) or the provider is not to be used
// (ErrHeld).
func (s *Store) Intend(ctx context.Context, t Terms) (i Intent, err error) {
	if t.Reserve.Nano < 0 || t.Lease <= 0 || t.Life < t.Lease {
		return i, fmt.Errorf("intend an instance for cell %s: a reservation of %s for %s under a lease of %s makes no sense", t.Cell, t.Reserve, t.Life, t.Lease)
	}
	in, err := s.Installation(ctx)
	if err != nil {
		return i, err
	}
	if in.Moved {
		return i, fmt.Errorf("%w: this database is a copy or was restored, and another one may use its labels; \"assay campaign reap --adopt\" makes them this one's", ErrHeld)
	}
	err = s.tx(ctx, "intend an instance for cell "+t.Cell, func(q database.Query) error {
		i = Intent{Label: in.label(), Cell: t.Cell, Provider: t.Provider, Offer: t.Offer, Machine: t.Machine, Location: t.Location,
			State: Intended, Hour: t.Hour, Extra: t.Extra, Reserved: t.Reserve, Spent: usd(0), Life: t.Life}
		if i.Made, err = s.now(ctx, q); err != nil {
			return err
		}
		i.Day, i.Lease, i.Longest = day(i.Made), i.Made.Add(t.Lease), i.Made.Add(t.Life)
		caps, err := s.mayIntend(ctx, q, &i, t)
		if err != nil {
			return err
		}
		if err := s.reserve(ctx, q, i, caps); err != nil {
			return err
		}
		return s.insertIntent(ctx, q, i)
	})
	if err != nil {
		return Intent{}, err
	}
	return i, nil
}

func (s *Store) insertIntent(ctx context.Context, q database.Query, i Intent) error {
	_, err := q.ExecContext(ctx, `INSERT INTO intents (label, campaign, cell, provider, offer, machine, location, state, why, declined, day, hour, extra, reserved, spent, made_at, called_at, lease_at, life, longest_at, ending_at, proof)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10, $11, $12, $13, 0, $14, $15, $16, $17, $18, $19, '')`,
		i.Label, i.Campaign, i.Cell, i.Provider, i.Offer, i.Machine, i.Location, string(i.State), i.Why, i.Day, i.Hour.Nano, i.Extra.Nano, i.Reserved.Nano,
		database.Time(i.Made), database.Time(i.Called), database.Time(i.Lease), i.Life.Microseconds(), database.Time(i.Longest), database.Time(i.Asked))
	return err
}

// mayIntend says whether a cell may have one more instance, and gives its campaign's
// caps. The cell's row is locked: of two who ask at once the second one sees the
// first one's intent.
func (s *Store) mayIntend(ctx context.Context, q database.Query, i *Intent, t Terms) (caps Caps, err error) {
	var status string
	err = q.QueryRowContext(ctx, "SELECT campaign FROM cells WHERE id = $1"+s.db.ForUpdate(), t.Cell).Scan(&i.Campaign)
	if err != nil {
		return caps, err
	}
	err = q.QueryRowContext(ctx, "SELECT status, cell_cap, campaign_cap, day_cap FROM campaigns WHERE id = $1", i.Campaign).Scan(&status, amount(&caps.Cell), amount(&caps.Campaign), amount(&caps.Day))
	switch {
	case err != nil:
		return caps, err
	case status != Running:
		return caps, fmt.Errorf("%w: it is %s", ErrClosed, foreign.Line(status, 40))
	}
	if err := s.offerFree(ctx, q, t); err != nil {
		return caps, err
	}
	if err := s.held(ctx, q, t.Provider); err != nil {
		return caps, err
	}
	return caps, s.cellFree(ctx, q, t, i.Made)
}

// offerFree refuses an offer that the cell has had or another one has, and a machine
// that is bad.
func (s *Store) offerFree(ctx context.Context, q database.Query, t Terms) error {
	var n int
	if !t.Again {
		if err := q.QueryRowContext(ctx, "SELECT count(*) FROM intents WHERE cell = $1 AND provider = $2 AND offer = $3", t.Cell, t.Provider, t.Offer).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%w: cell %s has tried offer %s", ErrOffer, t.Cell, foreign.Line(t.Offer, 80))
		}
	}
	if err := q.QueryRowContext(ctx, "SELECT count(*) FROM bad_machines WHERE provider = $1 AND machine = $2", t.Provider, t.Machine).Scan(&n); err != nil {
		return err
	}
	if n > 0 && t.Machine != "" {
		return fmt.Errorf("%w: machine %s is marked as bad", ErrOffer, foreign.Line(t.Machine, 80))
	}
	return s.offerUnused(ctx, q, t)
}

// offerUnused refuses an offer that another cell has, where it is one machine: the
// provider would refuse it, and a try be lost. An offer without a machine is many.
func (s *Store) offerUnused(ctx context.Context, q database.Query, t Terms) error {
	if t.Machine == "" {
		return nil
	}
	var n int
	err := q.QueryRowContext(ctx, `SELECT count(*) FROM intents WHERE provider = $1 AND state <> 'ended' AND state <> 'unproved' AND offer = $2 AND cell <> $3`,
		t.Provider, t.Offer, t.Cell).Scan(&n)
	if err == nil && n > 0 {
		return fmt.Errorf("%w: %s", ErrBusy, foreign.Line(t.Offer, 80))
	}
	return err
}

// cellFree refuses while another instance of the cell may live: one that was not
// asked to end, one whose destruction the provider has not accepted, and one that
// create may have made and that no list would show yet.
func (s *Store) cellFree(ctx context.Context, q database.Query, t Terms, now time.Time) error {
	var label, state string
	err := q.QueryRowContext(ctx, `SELECT i.label, i.state FROM intents i WHERE i.cell = $1 AND (
			i.state IN ('intended', 'creating', 'live')
			OR i.state = 'ending' AND EXISTS (SELECT 1 FROM instances n WHERE n.label = i.label AND n.ended_at IS NULL AND n.destroyed_at IS NULL)
			OR i.state = 'ending' AND i.declined = 0 AND i.ending_at > $2 AND NOT EXISTS (SELECT 1 FROM instances n WHERE n.label = i.label))
		ORDER BY i.made_at LIMIT 1`, t.Cell, database.Time(now.Add(-t.Lag))).Scan(&label, &state)
	if errors.Is(doing("", err), ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s is %s", ErrAlive, label, state)
}

// Held says why nothing may be created at a provider now (ErrHeld); nil: it may.
func (s *Store) Held(ctx context.Context, name string) error {
	return s.view(ctx, "see whether "+name+" may be used", func(q database.Query) error { return s.held(ctx, q, name) })
}

// held refuses a provider that refuses to destroy something, or whose list is not
// to be believed: what is created there might stay.
func (s *Store) held(ctx context.Context, q database.Query, name string) error {
	var label, refusal string
	err := q.QueryRowContext(ctx, `SELECT n.label, n.refusal FROM instances n WHERE n.provider = $1 AND n.refused_at IS NOT NULL AND n.ended_at IS NULL ORDER BY n.refused_at LIMIT 1`, name).Scan(&label, &refusal)
	switch {
	case err == nil:
		return fmt.Errorf("%w: %s does not destroy %s: %s", ErrHeld, name, label, refusal)
	case !errors.Is(doing("", err), ErrNotFound):
		return err
	}
	var distrust string
	err = q.QueryRowContext(ctx, "SELECT distrust FROM providers WHERE name = $1", name).Scan(&distrust)
	switch {
	case errors.Is(doing("", err), ErrNotFound) || err == nil && distrust == "":
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: the list of %s is not believed: %s", ErrHeld, name, distrust)
}
