package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// ErrUncertain marks a transaction whose commit was sent and whose answer was
// lost: it may have been carried out. The caller looks, or repeats what is safe
// to repeat.
var ErrUncertain = errors.New("the connection was lost while the transaction was being committed: it may or may not have been")

// Bounds of the tries of one transaction. They outlast a restart of PostgreSQL,
// and not much more: whoever waits for an answer should hear that there is none.
const (
	maxTries   = 12
	maxElapsed = 15 * time.Second
	firstWait  = 10 * time.Millisecond
	longWait   = time.Second
)

// Tx runs a transaction. When it lost against another one, or its connection
// broke before the commit, it is run again: do must have no effect but by its
// statements. An error of do rolls everything back and is returned as it is.
func (d *DB) Tx(ctx context.Context, do func(Query) error) error {
	return d.tries(ctx, func() error { return d.once(ctx, do) })
}

// Repeat is Tx for what may be carried out twice with the same result as once: it
// is also run again when nobody knows how the commit ended.
func (d *DB) Repeat(ctx context.Context, do func(Query) error) error {
	return d.tries(ctx, func() error {
		err := d.once(ctx, do)
		if uncertain := (*uncertainError)(nil); errors.As(err, &uncertain) {
			return uncertain.cause
		}
		return err
	})
}

// One runs one statement that changes something and may be carried out twice: it
// is a transaction of its own, in one round trip instead of three.
func (d *DB) One(ctx context.Context, do func(Query) error) error {
	return d.tries(ctx, func() error { return do(d.write) })
}

// View runs statements that only read, each on its own, and again when their
// connection broke.
func (d *DB) View(ctx context.Context, do func(Query) error) error {
	return d.tries(ctx, func() error { return do(d.read) })
}

// uncertainError is ErrUncertain with the reason.
type uncertainError struct{ cause error }

func (e *uncertainError) Error() string   { return fmt.Sprintf("%v: %v", ErrUncertain, e.cause) }
func (e *uncertainError) Unwrap() []error { return []error{ErrUncertain, e.cause} }

// once runs a transaction once.
func (d *DB) once(ctx context.Context, do func(Query) error) (err error) {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			_ = tx.Rollback() // the panic is what is to be seen
			panic(p)
		}
	}()
	if err := do(tx); err != nil {
		_ = tx.Rollback() // where it fails the connection is closed, which rolls back too
		return err
	}
	switch err := tx.Commit(); {
	case err == nil:
		return nil
	case contended(err): // the database said that it did not
		return err
	case lost(err) || ctx.Err() != nil:
		return &uncertainError{err}
	default:
		return err
	}
}

// tries runs do until it succeeds, fails for good, or the bounds are reached.
func (d *DB) tries(ctx context.Context, do func() error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval, wait.Multiplier = firstWait, longWait, 2
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		switch {
		case err == nil:
			return struct{}{}, nil
		case errors.Is(err, ErrUncertain) || ctx.Err() != nil:
			return struct{}{}, backoff.Permanent(err)
		case contended(err):
			return struct{}{}, err
		case d.dialect == Postgres && lost(err):
			d.drain()
			return struct{}{}, err
		default:
			return struct{}{}, backoff.Permanent(err)
		}
	}, backoff.WithBackOff(wait), backoff.WithMaxTries(maxTries), backoff.WithMaxElapsedTime(maxElapsed))
	return err
}
