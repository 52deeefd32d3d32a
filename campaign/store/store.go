// Package store is what campaigns must not forget: which labels are ours, what was
// intended before it was created, which instances live under which lease, what is
// reserved and spent, and when a provider may be called next. In SQLite (one
// machine) or PostgreSQL (many workers).
//
// What it promises: an intent with its label and its reservation is committed before
// anything is created. Reservations of a cell, a campaign and a UTC day never pass
// their caps, whoever reserves at the same time. Limits of calls hold for all
// processes together. An intent leaves the tables only with a proof of its end, or by
// the word of an operator; until then its money stays reserved. States change by
// conditions on the row as it is, so that a worker that was believed dead and comes
// back changes nothing that was decided without it, and what it created is recorded
// all the same.
//
// What it refuses: to call a provider, and to judge what is measured. Statuses and
// stages are words of package campaign, which are stored as they come.
//
// Times are the database's own, on which all processes agree: integer microseconds
// UTC. Amounts are billionths of a US dollar.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/database"
)

// Errors that callers tell apart.
var (
	// ErrNotFound: it is not there.
	ErrNotFound = errors.New("not found")
	// ErrTaken: an id is there already with another content.
	ErrTaken = errors.New("the id is taken by something else")
	// ErrCap: the reservation would pass a cap. Wait until something is settled, or
	// raise the budget.
	ErrCap = errors.New("the reservation would pass the cap")
	// ErrOffer: this cell has tried the offer before, or its machine is marked as bad.
	// Take another one.
	ErrOffer = errors.New("the offer is not to be tried again")
	// ErrBusy: another cell has the machine of this offer. Take another offer, or wait.
	ErrBusy = errors.New("another cell has the offer")
	// ErrAlive: an instance of this cell may be alive. End it first.
	ErrAlive = errors.New("an instance of this cell may still be alive")
	// ErrHeld: nothing may be created at this provider now. The message says why.
	ErrHeld = errors.New("nothing is created at this provider now")
	// ErrLease: the lease has ended, or the instance is being ended. Stop what it was
	// for.
	ErrLease = errors.New("the lease is not held any more")
	// ErrClosed: the campaign takes no more intents.
	ErrClosed = errors.New("the campaign has ended")
)

//go:embed migrations
var migrations embed.FS

// Schema is the tables of this package. Both databases take the same text.
func Schema() database.Schema {
	f, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the name is a constant
	}
	return database.Schema{Name: "campaign", SQLite: f, Postgres: f}
}

// Store is the campaigns in one database. It is safe for concurrent use.
type Store struct{ db *database.DB }

// New is the campaigns in a database. [Store.Migrate] makes their tables.
func New(db *database.DB) *Store { return &Store{db: db} }

// Migrate makes or updates the tables, and gives a new database its installation id.
// Several processes may call it at once.
func (s *Store) Migrate(ctx context.Context) error {
	if _, _, err := s.db.Migrate(ctx, Schema()); err != nil {
		return err
	}
	return s.install(ctx)
}

// Now is the database's time, on which all processes agree.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.view(ctx, "read the time", func(q database.Query) error {
		now, err = s.now(ctx, q)
		return err
	})
	return now, err
}

// now is the time within a transaction.
func (s *Store) now(ctx context.Context, q database.Query) (now time.Time, err error) {
	return now, q.QueryRowContext(ctx, "SELECT "+s.db.Now()).Scan(database.At(&now))
}

// tx runs a transaction and says what was being done.
func (s *Store) tx(ctx context.Context, what string, do func(database.Query) error) error {
	return doing(what, s.db.Tx(ctx, do))
}

// repeat is tx for what may be carried out twice with the same result.
func (s *Store) repeat(ctx context.Context, what string, do func(database.Query) error) error {
	return doing(what, s.db.Repeat(ctx, do))
}

// one is repeat for a single statement.
func (s *Store) one(ctx context.Context, what string, do func(database.Query) error) error {
	return doing(what, s.db.One(ctx, do))
}

// view runs what only reads.
func (s *Store) view(ctx context.Context, what string, do func(database.Query) error) error {
	return doing(what, s.db.View(ctx, do))
}

func doing(what string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// affected is how many rows a statement changed.
func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// usd is an amount as it is in Go.
func usd(nano int64) assay.Money { return assay.Money{Nano: nano, Currency: provider.Currency} }

// amount reads a stored amount.
func amount(m *assay.Money) sql.Scanner { return amountColumn{m} }

type amountColumn struct{ to *assay.Money }

func (a amountColumn) Scan(from any) error {
	var n sql.NullInt64
	if err := n.Scan(from); err != nil {
		return err
	}
	*a.to = usd(n.Int64)
	return nil
}
