package notary

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is refused fills no disk: files are put aside at their size, the oldest
// goes, no line is torn, and the newest lines are there.
func TestRefusalsRotate(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 2)
	const refused, limit = 600, 4000
	for range refused {
		m.put(0, runRecord("stranger", 0))
	}
	o := options(t, dir)
	o.RefusedBytes, o.BatchSize = limit, 1
	n := mustNotarise(t, o, m)
	if n.m.refused[ReasonKey] != refused {
		t.Fatalf("refused %v", n.m.refused)
	}
	files, err := filepath.Glob(filepath.Join(dir, "refused*"))
	if err != nil || len(files) != MaxRefused {
		t.Fatalf("%d files, %v: %q", len(files), err, files)
	}
	var offsets []int64
	for k := MaxRefused - 1; k >= 0; k-- {
		b, err := os.ReadFile(n.refused.path(k))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) == 0 || len(b) > limit {
			t.Errorf("file %d has %d bytes", k, len(b))
		}
		for line := range strings.Lines(string(b)) {
			var r refusal
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("file %d: %v: %q", k, err, line)
			}
			offsets = append(offsets, r.Offset)
		}
	}
	last := int64(len(m.topic[0])) - 1
	for i, o := range slices.Backward(offsets) {
		if want := last - int64(len(offsets)-1-i); o != want {
			t.Fatalf("line %d is of offset %d, not %d: lines were lost or mixed up", i, o, want)
		}
	}
}

// A notary that stopped between two names of a rotation goes on.
func TestRefusalsRotateOverAGap(t *testing.T) {
	dir := t.TempDir()
	r, err := openRefusals(dir, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { r.f.Close() }()
	for k := range 2 * MaxRefused {
		r.buf = fmt.Appendf(nil, "line of %d bytes\n", k)
		if err := r.flush(); err != nil {
			t.Fatal(err)
		}
		if k%3 == 0 {
			os.Remove(r.path(2))
		}
	}
	if b, err := os.ReadFile(r.path(1)); err != nil || string(b) != "line of 14 bytes\n" {
		t.Errorf("%q, %v", b, err)
	}
}
