package experiment

import (
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay/internal/disk/disktest"
)

// An engine that is being started while an experiment ends has its log open for a
// moment longer: the experiment can be resumed all the same.
func TestClosedExperimentIsFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLog(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	disktest.Inherit(t, path)
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if l, err = openLog(path, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}
