package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/database"
)

// Installation is which labels belong to this database.
type Installation struct {
	ID  string   `json:"id"`  // labels of this database's own begin with it
	IDs []string `json:"ids"` // it, and those of databases that were adopted
	// Moved says that the database does not lie where it was made or adopted: it is
	// a copy, or was restored. Somebody else may work with the original.
	Moved bool `json:"moved"`
}

// Owns reports whether a label begins with one of the installation's ids.
func (i Installation) Owns(label string) bool {
	for _, id := range i.IDs {
		if strings.HasPrefix(label, id+"-") {
			return true
		}
	}
	return false
}

// label makes a new label.
func (i Installation) label() string { return i.ID + "-" + strings.ToLower(ulid.Make().String()) }

// installationLetters is how long an id is: 50 bits are enough for two not to meet.
const installationLetters = 10

// install gives a new database its id.
func (s *Store) install(ctx context.Context) error {
	return s.repeat(ctx, "make the installation's id", func(q database.Query) error {
		var n int
		if err := q.QueryRowContext(ctx, "SELECT count(*) FROM campaign_installations").Scan(&n); err != nil || n > 0 {
			return err
		}
		place, err := s.place(ctx, q)
		if err != nil {
			return err
		}
		_, err = q.ExecContext(ctx, "INSERT INTO campaign_installations (id, own, place, adopted_at) VALUES ($1, 1, $2, "+s.db.Now()+") ON CONFLICT DO NOTHING",
			strings.ToLower(rand.Text()[:installationLetters]), place)
		return err
	})
}

// place says where the database lies: the file's own number, or those that
// PostgreSQL gave the database and the table. A copy has others.
func (s *Store) place(ctx context.Context, q database.Query) (place string, err error) {
	if s.db.Dialect() == database.Postgres {
		return place, q.QueryRowContext(ctx, "SELECT (SELECT oid FROM pg_database WHERE datname = current_database())::text || ':' || 'campaign_installations'::regclass::oid::text").Scan(&place)
	}
	info, err := os.Stat(s.db.String())
	if err != nil {
		return "", err
	}
	return fileNumber(info), nil
}

// Installation reads which labels are ours.
func (s *Store) Installation(ctx context.Context) (in Installation, err error) {
	err = s.view(ctx, "read the installation's id", func(q database.Query) error {
		in = Installation{}
		place, err := s.place(ctx, q)
		if err != nil {
			return err
		}
		type known struct {
			id, place string
			own       bool
		}
		rows, err := database.All(ctx, q, func(r database.Row) (k known, err error) {
			return k, r.Scan(&k.id, &k.place, &k.own)
		}, "SELECT id, place, own = 1 FROM campaign_installations ORDER BY own DESC, id")
		for _, k := range rows {
			in.IDs = append(in.IDs, k.id)
			if k.own {
				in.ID, in.Moved = k.id, k.place != place
			}
		}
		return err
	})
	if err == nil && in.ID == "" {
		err = fmt.Errorf("read the installation's id: %w: the database has none", ErrNotFound)
	}
	return in, err
}

// Adopt makes the labels of an installation belong to this database, whatever it
// knows of them: its own after a restore, or those of a database that was lost.
func (s *Store) Adopt(ctx context.Context, id string) error {
	if err := provider.CheckLabel(id); err != nil || len(id) != installationLetters {
		return fmt.Errorf("adopt %q: an installation's id has %d letters and digits", id, installationLetters)
	}
	return s.repeat(ctx, "adopt the labels of "+id, func(q database.Query) error {
		place, err := s.place(ctx, q)
		if err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "INSERT INTO campaign_installations (id, own, place, adopted_at) VALUES ($1, 0, $2, "+s.db.Now()+") ON CONFLICT (id) DO NOTHING", id, place); err != nil {
			return err
		}
		_, err = q.ExecContext(ctx, "UPDATE campaign_installations SET place = $1, adopted_at = "+s.db.Now()+" WHERE id = $2", place, id)
		return err
	})
}

// day is a time's UTC day.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
