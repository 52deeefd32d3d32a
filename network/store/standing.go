package store

import (
	"context"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Standing is what a node is told when its heart-beat was stored.
type Standing struct {
	Node            string
	Admission       string
	Intent          string
	Version         int64 // of its state; 0: nothing was decided about it yet
	InventorySHA256 string
	SettingsVersion int64
}

// Standings reads what many nodes have to be told, by id: one query for a batch of
// heart-beats. Who asks has logged in as the node, so there is no scope.
func (s *Store) Standings(ctx context.Context, nodes []string) (map[string]Standing, error) {
	found := map[string]Standing{}
	err := s.view(ctx, "read where nodes stand", func(q database.Query) error {
		list, err := all(ctx, q, func(r row) (v Standing, err error) {
			return v, r.Scan(&v.Node, &v.Admission, &v.Intent, &v.Version, &v.InventorySHA256, &v.SettingsVersion)
		}, "SELECT id, admission, intent, version, inventory_sha256, settings_version FROM nodes WHERE "+s.db.Any("id", 1), s.db.List(nodes))
		for _, v := range list {
			found[v.Node] = v
		}
		return err
	})
	return found, err
}

// EndLogins ends the log-ins of a node that were made by other keys than one.
func (s *Store) EndLogins(ctx context.Context, node, except string, when time.Time) error {
	return s.repeat(ctx, "end the log-ins of node "+node, func(q database.Query) error {
		_, err := q.ExecContext(ctx, "UPDATE tokens SET revoked_at = $3 WHERE kind = 'login' AND node = $1 AND node_key <> $2 AND revoked_at IS NULL", node, except, micros(when))
		return err
	})
}
