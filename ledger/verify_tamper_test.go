package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// Every byte of every file of a signed run, flipped, gives another answer than
// a pass. It takes a minute of processor time, so it runs where the race detector
// does not; the sample below runs everywhere.
func TestRealTamperEveryByte(t *testing.T) { tamperFiles(t, 1) }

func TestTamperSomeBytes(t *testing.T) { tamperFiles(t, 97) }

// tamperFiles flips each byte whose number is a multiple of step.
func tamperFiles(t *testing.T, step int) {
	whole := newProvedRun(t)
	if v := whole.verify(t); v.Verdict != assay.Pass {
		t.Fatalf("before: %v", v.Problems)
	}
	var total int
	for _, name := range slices.Concat(signedFiles, proofFiles) {
		flips := []byte{0x01, 0x80}
		n := len(whole.get(t, name))
		total += n * len(flips) / step
		// Evidence is not about receipts, and they cost most of the time.
		opts := whole.opts
		opts.Recompute = nil
		if slices.Contains(signedFiles, name) {
			opts.Policy, opts.NeedReceipt = nil, false
		}
		tamper(t, whole, name, opts, func(yield func(at int, x byte) bool) {
			for at := 0; at < n; at += step {
				for _, x := range flips {
					if !yield(at, x) {
						return
					}
				}
			}
		})
	}
	t.Logf("%d flipped bytes were found", total)
}

// tamper flips bytes of one file, in copies of the run side by side.
func tamper(t *testing.T, whole provedRun, name string, opts VerifyOptions, flips func(func(int, byte) bool)) {
	t.Helper()
	type flip struct {
		at int
		x  byte
	}
	work := make(chan flip, 64)
	var wg sync.WaitGroup
	for range 2 {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(whole.dir)); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			path := filepath.Join(dir, name)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
			}
			defer f.Close()
			for w := range work {
				if _, err := f.WriteAt([]byte{good[w.at] ^ w.x}, int64(w.at)); err != nil {
					t.Error(err)
				}
				v, err := VerifyRun(dir, opts)
				if err != nil || v.Verdict == assay.Pass {
					t.Errorf("%s: byte %d xor %#02x: %v, %v", name, w.at, w.x, v.Verdict, err)
				}
				if _, err := f.WriteAt(good[w.at:w.at+1], int64(w.at)); err != nil {
					t.Error(err)
				}
			}
			if v, err := VerifyRun(dir, opts); err != nil || v.Verdict != assay.Pass {
				t.Errorf("%s: put back: %v, %v", name, v.Problems, err)
			}
		})
	}
	flips(func(at int, x byte) bool { work <- flip{at, x}; return true })
	close(work)
	wg.Wait()
}

// Each byte of a receipt, in each of its 255 other values.
func TestRealTamperReceipt(t *testing.T) { tamperReceipt(t, 1) }

func TestTamperReceipt(t *testing.T) { tamperReceipt(t, 97) }

func tamperReceipt(t *testing.T, step int) {
	s := newProvedRun(t)
	p, envelope, good := runPolicy(t), s.get(t, TestResultFile), s.get(t, TestResultReceipt)
	check := func(b []byte) error {
		r, err := ReadReceipt(b)
		if err == nil {
			_, err = p.VerifyReceipt(r, envelope)
		}
		return err
	}
	if err := check(good); err != nil {
		t.Fatal(err)
	}
	b := slices.Clone(good)
	for at := 0; at < len(b); at += step {
		for x := 1; x < 256; x++ {
			b[at] = good[at] ^ byte(x)
			if check(b) == nil {
				t.Fatalf("byte %d xor %#02x was taken", at, x)
			}
		}
		b[at] = good[at]
	}
	t.Logf("%d bytes", len(good))
}

// A larger run, at random.
func TestTamperAtRandom(t *testing.T) {
	s := newProvedRun(t)
	for _, name := range []string{journal.RequestsFile, journal.TelemetryFile, journal.SummaryFile, journal.EventsFile} {
		b, err := os.ReadFile(filepath.Join("..", "journal", "testdata", "run-v1", name))
		if err != nil {
			t.Fatal(err)
		}
		s.put(t, name, b)
	}
	if err := os.Remove(filepath.Join(s.dir, journal.HealthFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := SignRun(context.Background(), s.dir, runSigner(1), s.key, SignOptions{Now: runNow, Replace: true}); err != nil {
		t.Fatal(err)
	}
	opts := VerifyOptions{Keys: NewKeyring(s.key), Now: runNow}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{journal.RequestsFile, journal.TelemetryFile, journal.SummaryFile, BenchmarkFile} {
		n := len(s.get(t, name))
		t.Run(name, func(t *testing.T) {
			tamper(t, s, name, opts, func(yield func(int, byte) bool) {
				for range 50 {
					yield(rnd.IntN(n), byte(1+rnd.IntN(255)))
				}
			})
		})
	}
}

// Bytes that are added or cut off are found too.
func TestTamperLengths(t *testing.T) {
	s := newProvedRun(t)
	for _, name := range slices.Concat(signedFiles, proofFiles) {
		for _, c := range []struct {
			how string
			do  func([]byte) []byte
		}{
			{"a newline more", func(b []byte) []byte { return append(b, '\n') }},
			{"a space before", func(b []byte) []byte { return append([]byte{' '}, b...) }},
			{"the last byte cut", func(b []byte) []byte { return b[:len(b)-1] }},
			{"empty", func([]byte) []byte { return nil }},
			{"twice", func(b []byte) []byte { return append(b, b...) }},
			{"much too long", func(b []byte) []byte { return append(b, make([]byte, 200_000)...) }},
		} {
			t.Run(fmt.Sprintf("%s %s", name, c.how), func(t *testing.T) {
				good := s.get(t, name)
				defer s.put(t, name, good)
				s.put(t, name, c.do(slices.Clone(good)))
				if v := s.verify(t); v.Verdict == assay.Pass {
					t.Error("a pass")
				}
			})
		}
	}
}
