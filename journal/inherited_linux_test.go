package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay/internal/disk/disktest"
	"github.com/assay-bench/assay/journal"
)

// A child that is being started while a run ends has the run's files open for a
// moment longer: the run can be resumed all the same.
func TestClosedRunIsFree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := journal.Create(dir, exampleManifest())
	if err != nil {
		t.Fatal(err)
	}
	disktest.Inherit(t, filepath.Join(dir, journal.RequestsFile))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w, _, err = journal.Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
