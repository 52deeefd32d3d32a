package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// maxConns is how many connections a process has to PostgreSQL unless its URL
// says another number.
const maxConns = 16

// openPostgres makes a pool whose statements need nothing of a session:
// QueryExecModeExec sends each with the protocol's unnamed statement, in one
// round trip, so that PgBouncer may give every transaction another connection.
func openPostgres(ctx context.Context, address string) (*DB, error) {
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		// The driver's message repeats the URL, masked only where it could read it.
		return nil, fmt.Errorf("%w (it cannot be read: look for special characters in the password, which must be written as %%XX, and for misspelt parameters)", ErrURL)
	}
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.ConnConfig.StatementCacheCapacity = 0
	c.ConnConfig.DescriptionCacheCapacity = 16 // of the few statements with Binary
	if !strings.Contains(address, "pool_max_conns") {
		c.MaxConns = maxConns
	}
	c.MaxConns = max(c.MaxConns, 2) // a migration holds its lock on one and works on another
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "assay"
	}
	where := hostOf(c.ConnConfig.Host, c.ConnConfig.Port, c.ConnConfig.Database)
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", where, err)
	}
	db := stdlib.OpenDBFromPool(pool)
	return &DB{dialect: Postgres, write: db, read: db, where: where, pool: pool}, nil
}

// Binary are the arguments of a statement on PostgreSQL that writes many rows as
// arrays: in binary form, which needs no quoting, for which the driver asks the
// server once for their types and remembers them. The statement itself stays an
// unnamed one, in one round trip.
func Binary(args ...any) []any {
	return append([]any{pgx.QueryExecModeCacheDescribe}, args...)
}

// Codes of PostgreSQL that matter to us.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeUnique        = "23505"
	codeCheck         = "23514"
	codeTableThere    = "42P07"
	codeTypeThere     = "42710" // each table is a type too
	codeTooMany       = "53300"
	classConnection   = "08"   // and PgBouncer's own words
	classOperator     = "57P0" // shut down, crashed, still starting
)

// code is PostgreSQL's code of an error, or empty.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// lost reports whether an error means that a connection is gone, so that its
// transaction is not known to have ended well.
func lost(err error) bool {
	c := code(err)
	if c != "" {
		return strings.HasPrefix(c, classConnection) || strings.HasPrefix(c, classOperator) || c == codeTooMany
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(err.Error(), "conn closed") // pgx has no value for it
}

// contended reports whether a transaction lost against another one, and may win
// when it is tried again.
func contended(err error) bool {
	switch code(err) {
	case codeSerialization, codeDeadlock, codeLockTimeout:
		return true
	}
	return busy(err)
}

// Taken reports whether an error is that of a unique value that is there already.
func Taken(err error) bool { return code(err) == codeUnique || sqliteTaken(err) }

// NoPartition reports whether a row found no partition for its time.
func NoPartition(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeCheck && strings.Contains(e.Message, "no partition of relation")
}

// ThereAlready reports whether something that was to be made was made by another
// process meanwhile. IF NOT EXISTS does not wait for a transaction that is just
// making it, and fails on the catalogue's own keys.
func ThereAlready(err error) bool {
	c := code(err)
	return c == codeTableThere || c == codeTypeThere || c == codeUnique
}

// drain empties the pool after a connection was lost: the others led to the same
// server, and each would fail once.
func (d *DB) drain() {
	now, last := time.Now().UnixNano(), d.reset.Load()
	if d.pool != nil && now-last > int64(time.Second) && d.reset.CompareAndSwap(last, now) {
		d.pool.Reset()
	}
}
