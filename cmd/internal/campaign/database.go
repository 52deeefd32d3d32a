package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/record"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/database"
)

// databaseFlags say where campaigns are kept.
type databaseFlags struct{ url string }

// defaultDatabase is a file beside the matrix.
const defaultDatabase = "sqlite:campaigns.db"

func (f *databaseFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "database", defaultDatabase, "where campaigns are kept: sqlite:`FILE`, or postgres://USER@HOST/DATABASE")
}

// open opens the database and makes its tables. The caller closes it.
func (f *databaseFlags) open(ctx context.Context) (*database.DB, *store.Store, error) {
	db, err := database.Open(ctx, f.url)
	if err != nil {
		return nil, nil, fmt.Errorf("--database: %w", err)
	}
	s := store.New(db)
	if err := s.Migrate(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("--database: %w", err), db.Close())
	}
	return db, s, nil
}

// openOld opens a database that has to be there: a name that was mistyped makes no
// new file.
func (f *databaseFlags) openOld(ctx context.Context) (*database.DB, *store.Store, error) {
	if path := f.absent(); path != "" {
		return nil, nil, fmt.Errorf("--database: there is no file %s: nothing was measured or imported there; --database names another", path)
	}
	return f.open(ctx)
}

// absent is the file that is not there; empty: it is, or it is no file.
func (f *databaseFlags) absent() string {
	path, ok := strings.CutPrefix(f.url, "sqlite:")
	if !ok {
		return ""
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return path
	}
	return ""
}

// history is what became of earlier tries; zero: nothing is known of any.
func (f *databaseFlags) history(ctx context.Context) (campaign.History, error) {
	if f.absent() != "" {
		return campaign.History{}, nil
	}
	db, s, err := f.open(ctx)
	if err != nil {
		return campaign.History{}, err
	}
	defer db.Close()
	list, err := s.Manifests(ctx, "")
	return record.HistoryOf(list), err
}
