package ledger

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// peak is the most that the heap held while do ran, above what it held before.
// The collector works all the time, so that it is what is held, not what is left.
func peak(do func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	held := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before := held()
	most, stop := before, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				most = max(most, held())
			}
		}
	})
	do()
	close(stop)
	wg.Wait()
	return max(most, held()) - before
}

// TestVerifyOfAHugeRunFile is the attack: six megabytes of run.json took 1.8 GB,
// with no signature looked at. Now it is below ten times the file, signed or not.
func TestVerifyOfAHugeRunFile(t *testing.T) {
	const size = 6 << 20
	fill := func(head, unit, tail string) string {
		return head + strings.TrimSuffix(strings.Repeat(unit, size/len(unit)), ",") + tail + "\n"
	}
	head := `{"format":"assay/run/v1","id":"a","node":{"id":"node-1","gpus":[`
	for _, tt := range []struct{ name, json string }{
		{"empty GPUs", fill(head, "{},", `]},"config":{}}`)},
		{"empty objectives", fill(head+`]},"config":{},"judge":{"objectives":[`, "{},", `]}}`)},
		{"a long configuration", fill(head+`]},"config":[`, "{},", `]}`)},
		{"unknown members", fill(head+`]},"config":{},"x":[`, `{"a":1},`, `]}`)},
		{"a text", fill(head+`]},"config":{},"nonce":"`, "x", `"}`)},
	} {
		for _, signed := range []bool{false, true} {
			dir := runDirectory(t, "a", "node-1", "")
			path := filepath.Join(dir, journal.RunFile)
			signer := runSigner(1)
			key := runKey(t, signer, signer, "node-1")
			if signed {
				// And then run.json was exchanged.
				if _, err := SignRun(t.Context(), dir, signer, key, SignOptions{Now: runNow}); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path, []byte(tt.json), 0o644); err != nil {
				t.Fatal(err)
			}
			var v Verification
			var err error
			got := peak(func() {
				v, err = VerifyRun(dir, VerifyOptions{Keys: NewKeyring(key), Recompute: runRecompute, Now: runNow})
			})
			t.Logf("%s, signed %v: %.1f times the file, %v", tt.name, signed, float64(got)/size, v.Verdict)
			if err != nil || v.Verdict == assay.Pass {
				t.Errorf("%s, signed %v: %v, %v", tt.name, signed, v.Verdict, err)
			}
			if got > 10*size {
				t.Errorf("%s, signed %v: %d bytes for a file of %d", tt.name, signed, got, size)
			}
		}
	}
}
