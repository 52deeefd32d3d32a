package outbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/disk/disktest"
)

// A child that is being started while an outbox is closed has its lock open for a
// moment longer: the next process takes over what waits all the same.
func TestClosedOutboxIsFree(t *testing.T) {
	o := testOptions(t.TempDir())
	b := mustOpen(t, o)
	add(t, b, records(0, 3, 50)...)
	disktest.Inherit(t, filepath.Join(b.own.path, lockFile))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	got, said, err := drain(t, o)
	if err != nil || len(said) > 0 || !slices.Equal(numbersOf(got), ints(0, 3)) {
		t.Errorf("taken over: %v, said %v, %v", numbersOf(got), said, err)
	}
}

func TestDirectoryIsFreeAfterALook(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	disktest.Inherit(t, filepath.Join(dir, lockFile))
	unlock()
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if free, err := disk.TryLock(f); !free {
		t.Errorf("the directory is still locked: %v", err)
	}
}
