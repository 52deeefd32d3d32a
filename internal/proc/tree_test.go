package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A tree with a name that looks like another line, a dead child whose own child
// lives, a stranger, and numbers that came around into a ring.
func TestDescendants(t *testing.T) {
	root := t.TempDir()
	for _, p := range []struct {
		pid, parent int
		name, state string
	}{
		{1, 0, "init", "S"}, {7, 1, "engine", "S"}, {8, 7, "a) S 1 (b", "R"}, {5, 8, "late", "S"},
		{9, 7, "gone", "Z"}, {10, 9, "kept", "S"}, {20, 1, "stranger", "S"}, {30, 31, "ring", "S"}, {31, 30, "ring", "S"},
	} {
		dir := filepath.Join(root, fmt.Sprint(p.pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%d (%s) %s %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1", p.pid, p.name, p.state, p.parent)
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(line), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"self", "0", "-3"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := Descendants(root, 7), []Seen{{7, "engine"}, {8, "a) S 1 (b"}, {5, "late"}, {10, "kept"}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := Descendants(root, 30), []Seen{{30, "ring"}, {31, "ring"}}; !slices.Equal(got, want) {
		t.Errorf("a ring: %v, want %v", got, want)
	}
	if got := Descendants(filepath.Join(root, "none"), 7); len(got) != 1 || got[0].PID != 7 {
		t.Errorf("without /proc: %v", got)
	}
}
