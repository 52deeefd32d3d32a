package outbox

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// A disk that is really full: Add says so, what it accepted before is delivered,
// and when there is room again it goes on.
func TestFullDisk(t *testing.T) {
	disk, _ := parttest.SmallDisk(t, 4<<20)
	o := testOptions(filepath.Join(disk, "box"))
	o.MaxBytes = 64 << 20 // more than there is
	b := mustOpen(t, o)
	var accepted []int
	var full error
	for i := 0; i < 4000 && full == nil; i++ {
		if full = b.Add(t.Context(), record(i, 4000)); full == nil {
			accepted = append(accepted, i)
		}
	}
	if !errors.Is(full, syscall.ENOSPC) || len(accepted) < 100 {
		t.Fatalf("after %d records: %v", len(accepted), full)
	}
	var m memory
	stop := start(t, b, &m, nil)
	if err := flush(t, b); err != nil {
		t.Fatal(err)
	}
	add(t, b, record(5000, 4000)) // delivering made room
	if err := flush(t, b); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := m.numbers()
	for _, want := range append(accepted, 5000) {
		if !slices.Contains(got, want) {
			t.Fatalf("record %d was accepted and is lost", want)
		}
	}
}
