package journal

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// Runs that begin in one second, in several processes too, get directories of
// their own.
func TestRunDirectoriesOfOneSecond(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "runs")
	now := time.Date(2026, 9, 1, 12, 30, 5, 0, time.UTC)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := NewDir(parent, now)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[dir] {
				t.Errorf("%q again, or %v", dir, err)
			}
			seen[dir] = true
		})
	}
	wg.Wait()
	for _, want := range []string{"20260901-123005", "20260901-123005-2", "20260901-123005-8"} {
		if !seen[filepath.Join(parent, want)] {
			t.Errorf("no %s among %v", want, seen)
		}
	}
	w, err := Create(filepath.Join(parent, "20260901-123005-2"), assay.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
