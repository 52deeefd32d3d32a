package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/pressly/goose/v3"

	"github.com/assay-bench/assay/internal/disk"
)

// Schema is one owner's tables: goose's migrations for each dialect, numbered
// from 1 without a gap, with the same numbers in both.
type Schema struct {
	Name     string // a word: the versions are in the table NAME_schema
	SQLite   fs.FS
	Postgres fs.FS
}

// ErrSchema marks a database whose schema this program does not run on. Its
// message says what to do.
var ErrSchema = errors.New("the database's schema does not fit this program")

func (s Schema) table() string { return s.Name + "_schema" }

func (s Schema) files(d Dialect) fs.FS {
	if d == SQLite {
		return s.SQLite
	}
	return s.Postgres
}

// provider is goose on this database. It locks nothing by itself: its locks are
// of sessions, or expire.
func (d *DB) provider(s Schema) (*goose.Provider, error) {
	dialect := goose.DialectSQLite3
	if d.dialect == Postgres {
		dialect = goose.DialectPostgres
	}
	return goose.NewProvider(dialect, d.write, s.files(d.dialect), goose.WithTableName(s.table()), goose.WithDisableGlobalRegistry(true))
}

// Latest is the schema's version that this program was made for.
func (d *DB) Latest(s Schema) (int64, error) {
	p, err := d.provider(s)
	if err != nil {
		return 0, fmt.Errorf("read the migrations of %s: %w", s.Name, err)
	}
	sources := p.ListSources()
	return sources[len(sources)-1].Version, nil
}

// Version is the schema's version in the database; 0 where there is none yet.
func (d *DB) Version(ctx context.Context, s Schema) (int64, error) {
	var version int64
	err := d.View(ctx, func(q Query) error {
		exists := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1"
		if d.dialect == Postgres {
			exists = "SELECT count(*) FROM (SELECT to_regclass($1::text) AS t) AS x WHERE t IS NOT NULL"
		}
		var n int
		if err := q.QueryRowContext(ctx, exists, s.table()).Scan(&n); err != nil || n == 0 {
			return err
		}
		return q.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM "+s.table()).Scan(&version)
	})
	if err != nil {
		return 0, fmt.Errorf("read the schema's version of %s: %w", d.where, err)
	}
	return version, nil
}

// Check says whether this program runs on the database: made for version N, it
// runs on N and on N+1, so that a network can be migrated first and its servers
// exchanged one by one after it.
func (d *DB) Check(ctx context.Context, s Schema) error {
	latest, err := d.Latest(s)
	if err != nil {
		return err
	}
	version, err := d.Version(ctx, s)
	switch {
	case err != nil:
		return err
	case version == 0:
		return fmt.Errorf("%w: %s has none of our tables; run `assay server init` for a new one, or look whether the URL names the right database", ErrSchema, d.where)
	case version < latest:
		return fmt.Errorf("%w: %s has version %d and this program needs %d; run `assay server migrate` with this program first", ErrSchema, d.where, version, latest)
	case version > latest+1:
		return fmt.Errorf("%w: %s has version %d and this program knows %d and runs on at most %d; use a newer program", ErrSchema, d.where, version, latest, latest+1)
	}
	return nil
}

// Migrate brings the schema to this program's version and says from where to
// where. Several processes may try at once: one works, the others wait and find
// it done. A database that is ahead stays as it is. Each migration is one
// transaction together with its version's row.
func (d *DB) Migrate(ctx context.Context, s Schema) (from, to int64, err error) {
	latest, err := d.Latest(s)
	if err != nil {
		return 0, 0, err
	}
	return d.migrateTo(ctx, s, latest)
}

func (d *DB) migrateTo(ctx context.Context, s Schema, latest int64) (from, to int64, err error) {
	unlock, err := d.lockSchema(ctx, s)
	if err != nil {
		return 0, 0, fmt.Errorf("migrate %s: wait for other migrations: %w", d.where, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if from, err = d.Version(ctx, s); err != nil || from >= latest {
		return from, from, err
	}
	p, err := d.provider(s)
	if err != nil {
		return from, from, fmt.Errorf("migrate %s: %w", d.where, err)
	}
	if _, err := p.UpTo(ctx, latest); err != nil {
		return from, from, fmt.Errorf("migrate %s from version %d to %d: %w; nothing of the migration that failed remains, and it can be run again", d.where, from, latest, err)
	}
	return from, latest, nil
}

func (d *DB) lockSchema(ctx context.Context, s Schema) (unlock func() error, err error) {
	if d.dialect == SQLite {
		return d.lockFile(ctx)
	}
	return d.lockTable(ctx, s)
}

// lockFile takes a file beside SQLite's for this process.
func (d *DB) lockFile(ctx context.Context) (func() error, error) {
	f, err := backoff.Retry(ctx, func() (func() error, error) {
		f, err := disk.Lock(filepath.Clean(d.path) + ".migrate")
		switch {
		case errors.Is(err, disk.ErrLocked):
			return nil, err
		case err != nil:
			return nil, backoff.Permanent(err)
		}
		return func() error { return disk.Unlock(f) }, nil
	}, backoff.WithBackOff(backoff.NewConstantBackOff(50*time.Millisecond)), backoff.WithMaxElapsedTime(0))
	return f, err
}

// lockTable locks a table in a transaction of its own, which stays open while
// goose works on other connections. PgBouncer keeps a transaction on one
// connection, and PostgreSQL lets go of the lock when that ends, however it ends:
// there is nothing to expire.
func (d *DB) lockTable(ctx context.Context, s Schema) (func() error, error) {
	table := s.table() + "_lock"
	err := d.Repeat(ctx, func(q Query) error {
		_, err := q.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+table+" (held boolean)")
		return err
	})
	if err != nil && !ThereAlready(err) {
		return nil, err
	}
	// Who waits must not hold a connection meanwhile: PgBouncer may have few, and the
	// one who has the lock needs one more. So each try ends at once.
	tx, err := backoff.Retry(ctx, func() (*sql.Tx, error) {
		tx, err := d.lockNow(ctx, table)
		switch {
		case err == nil:
			return tx, nil
		case contended(err) || lost(err):
			return nil, err
		default:
			return nil, backoff.Permanent(err)
		}
	}, backoff.WithBackOff(backoff.NewConstantBackOff(200*time.Millisecond)), backoff.WithMaxElapsedTime(0))
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) { // the context ended it before
			return err
		}
		return nil
	}, nil
}

// lockNow begins a transaction that has a table locked, or fails.
func (d *DB) lockNow(ctx context.Context, table string) (*sql.Tx, error) {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0")
	if err == nil {
		_, err = tx.ExecContext(ctx, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE NOWAIT")
	}
	if err != nil {
		_ = tx.Rollback() // the first error is the one that counts
		return nil, err
	}
	return tx, nil
}
