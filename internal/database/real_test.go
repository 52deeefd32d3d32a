package database

import (
	"errors"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

func TestRealNetworkDatabase(t *testing.T) {
	address := parttest.Postgres(t)
	suite(t, func(t *testing.T) *DB { return opened(t, address) })
}

// With fewer connections than migrators, all of them get through: who waits for
// the lock holds none.
func TestRealNetworkDatabaseThroughPgBouncer(t *testing.T) {
	address := parttest.PgBouncer(t, parttest.Postgres(t), 2)
	suite(t, func(t *testing.T) *DB { return opened(t, address) })
}

// A connection that is cut within a transaction costs another try, and one that is
// cut for good is an error: nothing is there by half.
func TestRealNetworkDatabaseConnectionsAreCut(t *testing.T) {
	db := opened(t, parttest.Postgres(t))
	ctx := t.Context()
	if _, _, err := db.Migrate(ctx, things(1)); err != nil {
		t.Fatal(err)
	}
	cut := func(q Query) error {
		_, err := q.ExecContext(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
		return err
	}
	runs := 0
	if err := db.Tx(ctx, func(q Query) error {
		if runs++; runs <= 2 {
			if _, err := q.ExecContext(ctx, "UPDATE things SET n = n + 100"); err != nil {
				return err
			}
			return cut(q)
		}
		_, err := q.ExecContext(ctx, "UPDATE things SET n = n + 1")
		return err
	}); err != nil || runs != 3 {
		t.Errorf("cut twice: %v after %d runs", err, runs)
	}
	if err := db.Tx(ctx, func(q Query) error { return cut(q) }); err == nil || errors.Is(err, ErrUncertain) {
		t.Errorf("always cut before the commit: %v", err)
	}
	var n int
	if err := db.View(ctx, func(q Query) error {
		return q.QueryRowContext(ctx, "SELECT n FROM things WHERE id = 'v1'").Scan(&n)
	}); err != nil || n != 1 {
		t.Errorf("the row has %d, %v", n, err)
	}
}
