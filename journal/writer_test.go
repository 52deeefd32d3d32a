package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-bench/assay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func create(t *testing.T) (*Writer, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deep", "run")
	w, err := Create(dir, assay.Manifest{ID: "x", Created: 1, Clock: assay.ClockUser})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w, dir
}

func readIDs(t *testing.T, dir string) map[string]int {
	t.Helper()
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for r, err := range run.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		ids[r.ID]++
	}
	return ids
}

func TestCreateRefusesAndSetsModes(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	w, dir := create(t)
	if err := w.Summary(&assay.Summary{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Checkpoint(assay.Checkpoint{At: 1, Status: assay.StatusRunning}); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, assay.Manifest{}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a second run in one directory: %v", err)
	}
	if _, err := Create(t.TempDir(), assay.Manifest{Format: "assay/run/v9"}); err == nil {
		t.Error("a format that it does not write")
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 7 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	w, dir := create(t)
	const goroutines, each = 16, 500
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				r := sampleRequest()
				r.ID = fmt.Sprintf("%d-%d", g, i)
				v := float64(i)
				if err := errors.Join(w.Request(r), w.Reading(assay.Reading{At: 1, Source: "a", Name: "b", Value: &v})); err != nil {
					t.Error(err)
					return
				}
				if i%100 == 0 {
					if err := errors.Join(w.Event(assay.Event{At: 1, Kind: assay.EventWarning}), w.Checkpoint(assay.Checkpoint{At: 1, Status: assay.StatusRunning})); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ids := readIDs(t, dir)
	if len(ids) != goroutines*each {
		t.Errorf("%d of %d requests", len(ids), goroutines*each)
	}
	for id, n := range ids {
		if n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	if err := w.Request(sampleRequest()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// What was recorded is with the operating system within a second, without
// anybody asking: that is all that a kill may cost.
func TestFlushedWithinASecond(t *testing.T) {
	w, dir := create(t)
	if err := w.Request(sampleRequest()); err != nil {
		t.Fatal(err)
	}
	if n := len(readIDs(t, dir)); n != 0 {
		t.Fatalf("written at once: %d", n)
	}
	time.Sleep(time.Second)
	if n := len(readIDs(t, dir)); n != 1 {
		t.Errorf("after a second there are %d requests", n)
	}
}

func TestCheckpointCoversWhatWasRecorded(t *testing.T) {
	w, dir := create(t)
	if err := w.Request(sampleRequest()); err != nil {
		t.Fatal(err)
	}
	if err := w.Checkpoint(assay.Checkpoint{At: 5, Status: assay.StatusRunning}); err != nil {
		t.Fatal(err)
	}
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := run.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, RequestsFile))
	if err != nil || info.Size() == 0 || c.Offsets[RequestsFile] != info.Size() {
		t.Errorf("the checkpoint covers %d of %d bytes, %v", c.Offsets[RequestsFile], info.Size(), err)
	}
	if got := run.Status(); got != assay.StatusRunning {
		t.Errorf("status %s while it is written", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, err = Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := run.Status(); got != assay.StatusPartial {
		t.Errorf("status %s when nobody writes it any more", got)
	}
}

// fullFile is a disk with so many bytes left.
type fullFile struct {
	file
	left int
}

func (f *fullFile) Write(b []byte) (int, error) {
	if len(b) <= f.left {
		f.left -= len(b)
		return f.file.Write(b)
	}
	n, err := f.file.Write(b[:f.left])
	f.left = 0
	return n, errors.Join(syscall.ENOSPC, err)
}

// A full disk is told at once and at the end, leaves whole lines, and does not
// keep the events from saying so.
func TestDiskFull(t *testing.T) {
	w, dir := create(t)
	line := len(AppendRequest(nil, sampleRequest())) + 1
	a := w.files[requests]
	a.f = &fullFile{a.f, 3*line + line/2}
	for range 10 {
		if err := w.Request(sampleRequest()); err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range map[string]error{"flush": w.Flush(), "request": w.Request(sampleRequest()),
		"checkpoint": w.Checkpoint(assay.Checkpoint{At: 1, Status: assay.StatusPartial})} {
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), RequestsFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Event(assay.Event{At: 1, Kind: assay.EventLimit, Data: map[string]float64{"disk": 1}}); err != nil {
		t.Errorf("the event that says so: %v", err)
	}
	if err := w.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("close: %v", err)
	}
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Torn()) != 0 {
		t.Errorf("torn: %q", run.Torn())
	}
	n := 0
	for _, err := range run.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	events := 0
	for _, err := range run.Events() {
		if err != nil {
			t.Fatal(err)
		}
		events++
	}
	if n != 3 || events != 1 {
		t.Errorf("%d whole requests of 3, %d events", n, events)
	}
}

// A slow disk holds back who records, it does not fill the memory.
func TestBufferIsBounded(t *testing.T) {
	w, _ := create(t)
	r := sampleRequest()
	r.Text = strings.Repeat("x", 1<<20)
	for range 100 {
		if err := w.Request(r); err != nil {
			t.Fatal(err)
		}
		a := w.files[requests]
		a.mu.Lock()
		n := len(a.buf)
		a.mu.Unlock()
		if n > holdAt+2<<20 {
			t.Fatalf("%d bytes are buffered", n)
		}
	}
	r.Text = strings.Repeat("x", MaxLine)
	if err := w.Request(r); err == nil {
		t.Error("a line that cannot be read again was taken")
	}
}

func BenchmarkWriterRequest(b *testing.B) {
	w, err := Create(filepath.Join(b.TempDir(), "run"), assay.Manifest{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	r := sampleRequest()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := w.Request(r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
