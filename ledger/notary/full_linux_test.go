package notary

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// A disk that is really full stops the notary with what to do about it, and with
// room again everything is logged once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk, grow := parttest.SmallDisk(t, 2<<20)
	dir := filepath.Join(disk, "notary")
	m := filled(2, 2000)
	_, err := notarise(t, options(nil, dir), m)
	if !errors.Is(err, ErrWrite) || !strings.Contains(err.Error(), "the disk is full: make room") {
		t.Fatalf("on a full disk: %v", err)
	}
	// A start on a full disk says the same, and harms nothing.
	if _, err := notarise(t, options(nil, dir), m); err == nil || !strings.Contains(err.Error(), "the disk is full: make room") {
		t.Fatalf("again on a full disk: %v", err)
	}
	grow(64 << 20)
	mustNotarise(t, options(nil, dir), m)
	wantLogged(t, dir, m, envelopes)
}
