package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/foreign"
)

// Bounds of a profile.
const (
	maxDepth  = 128     // frames of a stack
	maxFrames = 200_000 // of all stacks together
	maxName   = 200     // bytes of a function's name
)

// Stacks are samples of stacks, as a tree from the program inwards. The zero
// value is empty.
type Stacks struct {
	root    frame
	frames  int
	dropped int64
}

// frame is a function as it was called by those above it.
type frame struct {
	name  string
	self  int64 // samples in it
	total int64 // samples in it and in what it called
	calls map[string]*frame
}

// Add takes n samples of a stack, the outermost frame first. Names are foreign:
// they are made harmless here, once. A stack that would go beyond the bounds is
// counted and left out.
func (s *Stacks) Add(stack []string, n int64) {
	if len(stack) == 0 || n <= 0 {
		return
	}
	if len(stack) > maxDepth || s.frames+len(stack) > maxFrames {
		s.dropped += n
		return
	}
	at := &s.root
	at.total += n
	for _, name := range stack {
		name = strings.ReplaceAll(foreign.Line(name, maxName), ";", ":") // which joins frames in the file
		next := at.calls[name]
		if next == nil {
			next = &frame{name: name}
			if at.calls == nil {
				at.calls = map[string]*frame{}
			}
			at.calls[name] = next
			s.frames++
		}
		next.total += n
		at = next
	}
	at.self += n
}

// Samples is how many were taken.
func (s *Stacks) Samples() int64 { return s.root.total }

// Dropped is how many were left out.
func (s *Stacks) Dropped() int64 { return s.dropped }

// sorted are what a frame called, by name: the same profile gives the same files.
func (f *frame) sorted() []*frame {
	return slices.SortedFunc(maps.Values(f.calls), func(a, b *frame) int { return cmp.Compare(a.name, b.name) })
}

// Folded writes a line for each stack: its frames joined by semicolons, a space
// and how often it was seen.
func (s *Stacks) Folded(w io.Writer) error {
	b := bufio.NewWriter(w)
	var walk func(f *frame, path string)
	walk = func(f *frame, path string) {
		if f.self > 0 {
			fmt.Fprintf(b, "%s %d\n", path, f.self)
		}
		for _, c := range f.sorted() {
			walk(c, path+";"+c.name)
		}
	}
	for _, c := range s.root.sorted() {
		walk(c, c.name)
	}
	return b.Flush()
}

// Hot are the functions with the most samples in themselves, at most so many,
// each with the commonest way to it.
func (s *Stacks) Hot(limit int) []claims.Hot {
	type sum struct {
		self, total int64
		most        int64 // samples in it by the commonest way
		path        string
	}
	all := map[[2]string]*sum{}
	var walk func(process string, f *frame, path []string)
	walk = func(process string, f *frame, path []string) {
		key := [2]string{process, f.name}
		x := all[key]
		if x == nil {
			x = &sum{}
			all[key] = x
		}
		x.self += f.self
		if !slices.Contains(path, f.name) { // not counted twice where it calls itself
			x.total += f.total
		}
		path = append(path, f.name)
		if f.self > x.most {
			x.most, x.path = f.self, strings.Join(path[max(0, len(path)-pathFrames):], " → ")
		}
		for _, c := range f.sorted() {
			walk(process, c, path)
		}
	}
	for _, program := range s.root.sorted() {
		for _, c := range program.sorted() {
			walk(program.name, c, nil)
		}
	}
	var out []claims.Hot
	n := float64(s.root.total)
	for key, x := range all {
		if x.self > 0 {
			out = append(out, claims.Hot{Process: key[0], Function: key[1], Self: float64(x.self) / n, Total: float64(x.total) / n, Path: x.path})
		}
	}
	slices.SortFunc(out, func(a, b claims.Hot) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Function, b.Function))
	})
	return out[:min(len(out), limit)]
}

// pathFrames is how much of the way to a function is told.
const pathFrames = 6
