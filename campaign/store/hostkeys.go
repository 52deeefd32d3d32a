package store

import (
	"context"
	"errors"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/foreign"
)

// HostKey gives the host key that is pinned for an instance, named by its provider
// and id; empty: none is.
func (s *Store) HostKey(ctx context.Context, instance string) (key string, err error) {
	err = s.view(ctx, "read the host key of "+foreign.Line(instance, 80), func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT host_key FROM host_keys WHERE instance = $1", instance).Scan(&key)
	})
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return key, err
}

// PinHostKey pins a host key unless one is pinned, and gives the one that is.
func (s *Store) PinHostKey(ctx context.Context, instance, key string) (kept string, err error) {
	err = s.repeat(ctx, "pin the host key of "+foreign.Line(instance, 80), func(q database.Query) error {
		if _, err := q.ExecContext(ctx, "INSERT INTO host_keys (instance, host_key, pinned_at) VALUES ($1, $2, "+s.db.Now()+") ON CONFLICT (instance) DO NOTHING", instance, key); err != nil {
			return err
		}
		return q.QueryRowContext(ctx, "SELECT host_key FROM host_keys WHERE instance = $1", instance).Scan(&kept)
	})
	return kept, err
}
