// Package store is the registry of a network: its tables, and every query on them,
// for SQLite (one person, one process) and PostgreSQL (many processes).
//
// What it promises: whatever serves a person takes a [Scope], and a row outside of
// it is not there. What several processes decide is compared and set: a change of
// a node names the version that it was made from, and [ErrConflict] says that
// somebody else was first. What must leave (statements, events, webhooks) is in
// the same transaction as what caused it. Bytes of statements are kept and given
// back as they came. Rows of transitions, decisions and the audit log are never
// changed, and what a decision cites outlives it.
//
// What it refuses: to judge. States are words of network/control, which are stored
// with its JSON and looked at only to filter. It connects to nothing, signs
// nothing by itself ([Store.RecordedBy] is given what does) and keeps no secret: of
// tokens it knows hashes.
//
// Times are integer microseconds UTC in every table; in Go they are time.Time,
// and the zero time is NULL.
package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Errors that callers tell apart.
var (
	// ErrNotFound: it is not there, or not within the scope; nobody is told which.
	ErrNotFound = errors.New("not found")
	// ErrConflict: somebody else changed it since it was read. Read it again and
	// decide again.
	ErrConflict = errors.New("changed by somebody else meanwhile")
	// ErrTaken: an id is there already with another content.
	ErrTaken = errors.New("the id is taken by something else")
	// ErrLease: the lease is somebody else's now. Stop what it was for.
	ErrLease = errors.New("the lease is not held any more")
)

//go:embed migrations
var migrations embed.FS

// Schema is the tables of this package.
func Schema() database.Schema {
	return database.Schema{Name: "network", SQLite: folder("sqlite"), Postgres: folder("postgres")}
}

func folder(name string) fs.FS {
	f, err := fs.Sub(migrations, "migrations/"+name)
	if err != nil {
		panic(err) // the name is a constant
	}
	return f
}

// Store is the registry in one database. It is safe for concurrent use.
type Store struct {
	db     *database.DB
	record Recorder // nil: audit entries stay here
}

// New is the registry in a database whose schema fits; [database.DB.Check] says
// whether it does.
func New(db *database.DB) *Store { return &Store{db: db} }

// Migrate makes or updates the tables, and the partitions of this month and the
// next ones. Several processes may call it at once.
func (s *Store) Migrate(ctx context.Context) (from, to int64, err error) {
	if from, to, err = s.db.Migrate(ctx, Schema()); err != nil {
		return from, to, err
	}
	return from, to, s.MakePartitions(ctx, time.Now())
}

// Check says whether this program runs on the database, and else what to do.
func (s *Store) Check(ctx context.Context) error { return s.db.Check(ctx, Schema()) }

// Ping asks the database whether it answers.
func (s *Store) Ping(ctx context.Context) error { return s.db.Ping(ctx) }

// Now is the database's time, on which all processes agree.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.db.View(ctx, func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT "+s.db.Now()).Scan(at(&now))
	})
	return now, err
}

// Scope is whose rows somebody may see. The zero Scope sees nothing.
type Scope struct {
	All    bool     `json:"all,omitempty"`
	Owners []string `json:"owners,omitempty"`
}

// Allows says whether an owner's rows are within it.
func (s Scope) Allows(owner string) bool {
	for _, o := range s.Owners {
		if o == owner {
			return true
		}
	}
	return s.All
}

// where is the condition that a column is an owner within the scope.
func (s Scope) where(db *database.DB, column string, a *args) string {
	if s.All {
		return "1 = 1"
	}
	a.add(db.List(s.Owners))
	return db.Any(column, len(*a))
}

// Trail is what a change leaves behind, in its own transaction: entries of the
// audit log, and records that must leave.
type Trail struct {
	Audit  []AuditEntry
	Outbox []Record
	// Anomalies are what was decided on.
	Anomalies []Anomaly
}

// Hash is how secrets and ids of bytes are kept: SHA-256 in hexadecimal.
func Hash[T string | []byte](secret T) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// tx runs a transaction, makes the partitions that a row did not find, and says
// what was being done.
func (s *Store) tx(ctx context.Context, what string, do func(database.Query) error) error {
	return s.doing(ctx, what, s.db.Tx, do)
}

// repeat is tx for what may be carried out twice.
func (s *Store) repeat(ctx context.Context, what string, do func(database.Query) error) error {
	return s.doing(ctx, what, s.db.Repeat, do)
}

// one is repeat for a single statement.
func (s *Store) one(ctx context.Context, what string, do func(database.Query) error) error {
	return s.doing(ctx, what, s.db.One, do)
}

func (s *Store) doing(ctx context.Context, what string, run func(context.Context, func(database.Query) error) error, do func(database.Query) error) error {
	err := run(ctx, do)
	if database.NoPartition(err) {
		if err := s.MakePartitions(ctx, time.Now()); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		err = run(ctx, do)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// view runs what only reads, and says what was being done.
func (s *Store) view(ctx context.Context, what string, do func(database.Query) error) error {
	if err := s.db.View(ctx, do); err != nil {
		return fmt.Errorf("%s: %w", what, found(err))
	}
	return nil
}

// found is ErrNotFound for the driver's word for it.
func found(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// changed is nil if a statement changed a row, and otherwise unchanged.
func changed(r sql.Result, err, unchanged error) error {
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n == 0 {
		return unchanged
	}
	return err
}
