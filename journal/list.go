package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// List opens the runs that are directories directly under parent, the newest
// first by when they began. Directories that are no runs are passed over; those
// whose run.json cannot be read are given by name in broken.
func List(parent string) (runs []*Run, broken map[string]error, err error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, nil, fmt.Errorf("list runs: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		switch r, err := Open(dir); {
		case err == nil:
			runs = append(runs, r)
		case !errors.Is(err, fs.ErrNotExist):
			if broken == nil {
				broken = map[string]error{}
			}
			broken[dir] = err
		}
	}
	slices.SortStableFunc(runs, func(a, b *Run) int {
		switch x, y := a.manifest.Created, b.manifest.Created; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return runs, broken, nil
}
