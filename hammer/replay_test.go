package hammer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/simulate"
)

// lineTrace is a trace whose line i asks for i+1 tokens, every 25 ms; every
// fifth line is a turn of one conversation.
func lineTrace(t *testing.T, lines int) string {
	t.Helper()
	var b strings.Builder
	for i := range lines {
		turn := ""
		if i%5 == 0 {
			turn = `,"conversation":"a","think_s":0.01`
		}
		fmt.Fprintf(&b, `{"at_s":%g,"input_tokens":%d,"output_tokens":%d%s}`+"\n", 0.025*float64(i), 10+i, i+1, turn)
	}
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A replay that is interrupted, and its resumption too, sends each line of the
// trace once, the last included, and takes no longer than what is left of it.
func TestResumedReplaySendsEachLineOnce(t *testing.T) {
	const lines = 60
	for _, runs := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d rounds", runs), func(t *testing.T) {
			cfg := short(engine(t, simulate.Config{TTFT: 20 * time.Millisecond, ITL: 2 * time.Millisecond}), "openai")
			cfg.Load = Load{Mode: ModeReplay, Trace: lineTrace(t, lines), Warmups: 2, Grace: assay.Duration(5 * time.Second)}
			cfg.NumRuns = runs
			dir := filepath.Join(t.TempDir(), "run")

			// stopAfter cancels once so many judged requests are on record.
			stopAfter := func(n int) (context.Context, Options) {
				ctx, cancel := context.WithCancel(t.Context())
				t.Cleanup(cancel)
				return ctx, Options{Progress: func(cp assay.Checkpoint) {
					if cp.Done >= n {
						cancel()
					}
				}}
			}
			ctx, opt := stopAfter(lines*(runs-1) + 8)
			if _, err := Run(ctx, cfg, dir, opt); !errors.Is(err, ErrInterrupted) {
				t.Fatalf("the run was not interrupted: %v", err)
			}
			onRecord := over(t, dir, lines*runs)
			ctx, opt = stopAfter(len(onRecord) + 12)
			if _, err := Resume(ctx, dir, Secrets{}, opt); err != nil && !errors.Is(err, ErrInterrupted) {
				t.Fatal(err)
			}
			before := over(t, dir, lines*runs)
			if len(before) == lines*runs {
				t.Skip("the machine was too slow to interrupt it twice")
			}
			if _, err := Resume(t.Context(), dir, Secrets{}, Options{}); err != nil {
				t.Fatal(err)
			}
			got := over(t, dir, lines*runs)
			first := 0 // of the last round that was not on record
			for n := range lines * runs {
				if len(got[n]) != 1 {
					t.Fatalf("line %d was sent %d times", n, len(got[n]))
				}
				if before[n] == nil && n >= lines*(runs-1) && n%5 != 0 && first == 0 {
					first = n
				}
			}
			// It takes no longer than what is left of the trace: by the moments that
			// were planned, whatever the machine did. Lines of the conversation wait
			// for their answers.
			if waited := time.Duration(got[first][0] - lastStage(t, dir)); first%lines > 20 && waited >= 20*25*time.Millisecond {
				t.Errorf("line %d was planned %s behind the start of its stage", first, waited)
			}
			for n := first; n < lines*runs; n++ {
				at := time.Duration(got[n][0] - got[first][0])
				if before[n] == nil && n%5 != 0 && (at < 0 || at > time.Duration(n-first)*25*time.Millisecond+time.Millisecond) {
					t.Errorf("line %d was planned %s behind line %d", n, at, first)
				}
			}
		})
	}
}

// lastStage is when the last stage began.
func lastStage(t *testing.T, dir string) int64 {
	t.Helper()
	rd, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var at int64
	for e, err := range rd.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == assay.EventStageStarted {
			at = e.At
		}
	}
	return at
}

// over is, by line of the trace, when the judged requests on record that were not
// interrupted had been planned; it checks that each asked for its line's lengths.
func over(t *testing.T, dir string, lines int) map[int][]int64 {
	t.Helper()
	rd, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	out, ids := map[int][]int64{}, map[string]bool{}
	for q, err := range rd.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		if ids[q.ID] {
			t.Errorf("id %s is there twice", q.ID)
		}
		ids[q.ID] = true
		if q.Warmup || q.Error == assay.FailCancelled {
			continue
		}
		if q.Prompt >= lines || q.AskedOutput != q.Prompt%60+1 || q.AskedInput != q.Prompt%60+10 {
			t.Errorf("prompt %d asked for %d and %d tokens", q.Prompt, q.AskedInput, q.AskedOutput)
		}
		out[q.Prompt] = append(out[q.Prompt], q.Scheduled)
	}
	return out
}

// A trace that changed meanwhile is not gone on with.
func TestResumedReplayNeedsItsTrace(t *testing.T) {
	cfg := short(engine(t, steady), "openai")
	cfg.Load = Load{Mode: ModeReplay, Trace: lineTrace(t, 600), Grace: assay.Duration(time.Second)}
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := Options{Progress: func(cp assay.Checkpoint) {
		if cp.Done > 0 {
			cancel()
		}
	}}
	if _, err := Run(ctx, cfg, dir, stop); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	if err := os.Rename(lineTrace(t, 50), cfg.Load.Trace); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(t.Context(), dir, Secrets{}, Options{}); err == nil || !strings.Contains(err.Error(), "has 50 requests, and had 600") {
		t.Errorf("%v", err)
	}
}
