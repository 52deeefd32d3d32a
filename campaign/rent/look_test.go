package rent

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/database"
)

// slow is a cloud with nothing in it, whose list takes its time.
type slow struct {
	provider.Provider
	lists atomic.Int32
	fails atomic.Int32 // of the next lists
}

func (s *slow) List(context.Context) ([]provider.Instance, error) {
	s.lists.Add(1)
	time.Sleep(50 * time.Millisecond)
	if s.fails.Add(-1) >= 0 {
		return nil, errors.New("500 internal server error")
	}
	return nil, nil
}

// Many who want a look at once have one together, also when it takes longer than a look
// may be old; one that failed is nobody's.
func TestOneLooksForAll(t *testing.T) {
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "campaign.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := store.New(db)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	cloud := &slow{}
	r := New(s, []Cloud{{cloud, provider.Traits{Name: "vast"}}}, Options{})
	look := func() (failed int32) {
		var n atomic.Int32
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if r.lookOlder(t.Context(), "vast", time.Millisecond) != nil {
					n.Add(1)
				}
			})
		}
		wg.Wait()
		return n.Load()
	}
	// A list or two: some may have begun when the first look was over.
	if failed := look(); failed != 0 || cloud.lists.Load() > 3 {
		t.Errorf("%d lists for 20 who wanted a look, %d failed", cloud.lists.Load(), failed)
	}
	cloud.lists.Store(0)
	cloud.fails.Store(2)
	if failed := look(); failed != 2 || cloud.lists.Load() > 5 {
		t.Errorf("%d lists, the first two fail, and %d heard of it", cloud.lists.Load(), failed)
	}
}
