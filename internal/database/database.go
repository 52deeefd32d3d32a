// Package database opens an SQLite file or a PostgreSQL, migrates it and runs
// transactions on it.
//
// What it promises: the same SQL text works on both wherever this package is
// asked nothing ($1 placeholders, RETURNING, ON CONFLICT); what differs stands
// behind [DB.Dialect]. Nothing that it sends to PostgreSQL outlives a
// transaction: no session locks, no named prepared statements, no LISTEN, no SET
// without LOCAL, so that it works through PgBouncer in transaction mode. A
// transaction is carried out whole, or not at all and said, or its end is not
// known and [ErrUncertain] says that. Passwords of a URL stand in no error.
//
// What it refuses: to hide SQL, and to guess. Queries live beside their owners.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Dialect is what a database speaks.
type Dialect uint8

// Dialects.
const (
	SQLite Dialect = iota + 1
	Postgres
)

func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "SQLite"
	case Postgres:
		return "PostgreSQL"
	}
	return "no database"
}

// ErrURL marks a database URL that names no database. Its message never repeats
// the URL, which may hold a password.
var ErrURL = errors.New("not a database URL: write sqlite:FILE or postgres://USER@HOST:PORT/DATABASE")

// Query is what statements are sent to: a transaction, or what View gives.
type Query interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	dialect Dialect
	write   *sql.DB // of SQLite one connection, since it has one writer
	read    *sql.DB // on PostgreSQL the same as write
	where   string  // for messages: no user, no password
	path    string  // SQLite's file

	pool  *pgxpool.Pool // of PostgreSQL
	reset atomic.Int64  // when the pool was last emptied, in nanoseconds
}

// Open opens a database by its URL, sqlite:FILE or postgres://…, and asks it
// whether it is there. A file that is not there is made with mode 0600, since
// hashes of tokens lie in it. The query of a postgres URL may have what libpq
// knows, and pool_max_conns (16 unless told).
func Open(ctx context.Context, address string) (*DB, error) {
	scheme, rest, ok := strings.Cut(address, ":")
	if !ok {
		return nil, ErrURL
	}
	var d *DB
	var err error
	switch scheme {
	case "sqlite":
		d, err = openSQLite(rest)
	case "postgres", "postgresql":
		d, err = openPostgres(ctx, address)
	default:
		return nil, ErrURL
	}
	if err != nil {
		return nil, err
	}
	if err := d.first(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", d.where, err), d.Close())
	}
	return d, nil
}

// first makes the first connection. A new file of SQLite becomes one that is read
// beside its writer by that, for which no timeout waits if another process does
// the same.
func (d *DB) first(ctx context.Context) error {
	if d.dialect == SQLite {
		return d.tries(ctx, func() error { return d.write.PingContext(ctx) })
	}
	return d.read.PingContext(ctx) // somebody waits for the answer, and it may be the wrong address
}

// Dialect says what the database speaks.
func (d *DB) Dialect() Dialect { return d.dialect }

// String names the database for people: its file, or host, port and name, and
// never a user or a password.
func (d *DB) String() string { return d.where }

// Ping asks the database whether it answers.
func (d *DB) Ping(ctx context.Context) error {
	if err := d.read.PingContext(ctx); err != nil {
		return fmt.Errorf("open %s: %w", d.where, err)
	}
	return nil
}

// Close closes every connection. Transactions under way fail.
func (d *DB) Close() error {
	err := d.write.Close()
	if d.read != d.write {
		err = errors.Join(err, d.read.Close())
	}
	if d.pool != nil {
		d.pool.Close()
	}
	return err
}

// Now is an SQL expression: the database's own time in microseconds since 1970,
// UTC. What several processes must agree on is compared with it.
func (d *DB) Now() string {
	if d.dialect == SQLite {
		return "CAST(unixepoch('subsec') * 1000000 AS INTEGER)" // milliseconds are all that it has
	}
	return "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
}

// ForUpdate ends a SELECT whose rows the transaction is about to change. SQLite
// has one writer, and so nothing to lock.
func (d *DB) ForUpdate() string {
	if d.dialect == SQLite {
		return ""
	}
	return " FOR NO KEY UPDATE" // keys are not changed; references to the row need not wait
}

// ForShare ends a SELECT whose rows must stay as they are until the transaction
// ends.
func (d *DB) ForShare() string {
	if d.dialect == SQLite {
		return ""
	}
	return " FOR SHARE"
}

// SkipLocked ends a SELECT that claims rows: those that another transaction is
// just claiming are passed over.
func (d *DB) SkipLocked() string {
	if d.dialect == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// Any is a condition: the column is one of a list, which is the argument with
// that number, made by List.
func (d *DB) Any(column string, argument int) string {
	if d.dialect == SQLite {
		return fmt.Sprintf("%s IN (SELECT value FROM json_each($%d))", column, argument)
	}
	return fmt.Sprintf("%s = ANY($%d::text[])", column, argument)
}

// Micros is a time as the databases have it.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// hostOf names a database of PostgreSQL without its user and password.
func hostOf(host string, port uint16, name string) string {
	u := url.URL{Scheme: "postgres", Host: fmt.Sprintf("%s:%d", host, port), Path: "/" + name}
	return u.String()
}
