package store

import (
	"context"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Owner is who nodes belong to.
type Owner struct {
	Name    string
	Created time.Time
}

// Owners lists owners by name.
func (s *Store) Owners(ctx context.Context, scope Scope) (owners []Owner, err error) {
	var a args
	where := scope.where(s.db, "name", &a)
	err = s.view(ctx, "list owners", func(q database.Query) error {
		owners, err = all(ctx, q, func(r row) (o Owner, err error) {
			return o, r.Scan(&o.Name, at(&o.Created))
		}, "SELECT name, created_at FROM owners WHERE "+where+" ORDER BY name", a...)
		return err
	})
	return owners, err
}

// ensureOwner makes an owner where there is none of that name.
func ensureOwner(ctx context.Context, q database.Query, name string, when time.Time) error {
	_, err := q.ExecContext(ctx, "INSERT INTO owners (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, micros(when))
	return err
}
