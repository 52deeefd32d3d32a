package evidence_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// A full disk refuses, keeps what it had and takes the object once there is room.
func TestDirectoryOnAFullDisk(t *testing.T) {
	dir, grow := parttest.SmallDisk(t, 1<<20)
	s := directorySuite(t, dir)
	s.link(t, "small").stored(t)
	text := strings.Repeat("large ", 1<<19)
	if status, answer := s.link(t, text).send(t); status != http.StatusInsufficientStorage {
		t.Errorf("%d %s", status, answer)
	}
	s.absent(t, object(text))
	if n := unfinished(t, dir); n != 0 {
		t.Errorf("%d unfinished files take the room", n)
	}
	if err := s.store.Confirm(t.Context(), object("small")); err != nil {
		t.Errorf("what was there before: %v", err)
	}
	grow(16 << 20)
	s.link(t, text).stored(t)
}
