package claims

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// counted is a probe that knows how many probes are at work at once.
func counted(name string, working, most *atomic.Int64, calls *atomic.Int64) Probe {
	return Probe{Name: name, Unit: unitSeconds, Better: assay.Lower, Start: func(context.Context, Env) (Runner, error) {
		n := 0
		return &runnerOf{sample: func(context.Context) (Measurement, error) {
			now := working.Add(1)
			defer working.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			calls.Add(1)
			n++
			time.Sleep(time.Millisecond)
			return around(1e-3)(n)
		}}, nil
	}}
}

// Under stress the families are at work at once, and one that is done goes on as
// load until the last is done; what is judged is what was asked for.
func TestStressRunsFamiliesTogether(t *testing.T) {
	const file = `claims:
  - {name: short, probe: a/x, metric: mean, target: <= 1s}
  - {name: long, probe: b/y, metric: mean, target: <= 1s}
measure: [c/*]
probes:
  - {probe: a/x, samples: 10, warmup: -1s}
  - {probe: b/y, samples: 1000, warmup: -1s}
  - {probe: c/z, samples: 10, warmup: -1s}
`
	for stress, want := range map[bool]int64{false: 1, true: 3} {
		var working, most atomic.Int64
		var calls [3]atomic.Int64
		o := fixture(t)
		o.Stress, o.History = stress, filepath.Join(t.TempDir(), "history.json")
		r := runFile(t, o, file,
			counted("a/x", &working, &most, &calls[0]), counted("b/y", &working, &most, &calls[1]), counted("c/z", &working, &most, &calls[2]))
		if most.Load() != want {
			t.Errorf("stress %v: up to %d probes at once, want %d", stress, most.Load(), want)
		}
		if r.Probes[0].Name != "a/x" || r.Probes[0].Samples != 10 || r.Probes[1].Samples != 1000 || r.Probes[2].Samples != 10 || r.Verdict != assay.Pass || r.Stress != stress {
			t.Errorf("stress %v: %+v, %v", stress, r.Probes, r.Verdict)
		}
		_, err := os.Stat(o.History)
		if remembered := err == nil; remembered == stress || strings.Contains(strings.Join(r.Notes, "\n"), "side by side") != stress {
			t.Errorf("stress %v: remembered %v, notes %q", stress, remembered, r.Notes)
		}
		if n := calls[0].Load(); stress && n < 500 || !stress && n != 10 {
			t.Errorf("stress %v: the family that was done first was at work %d times", stress, n)
		}
	}
}

// A probe that cannot be measured is no load, and does not keep the others from
// ending.
func TestStressEndsWithoutLoad(t *testing.T) {
	o := fixture(t)
	o.Stress = true
	r := runFile(t, o, claimLines("probe: a/x, metric: mean, target: <= 1s", "probe: b/y, metric: mean, target: <= 1s"),
		refused("a/x", ErrUnavailable), fake("b/y", around(1e-3)))
	if r.Claims[0].Verdict != assay.Unknown || r.Claims[1].Verdict != assay.Pass {
		t.Errorf("%+v", r.Claims)
	}
}

// besideOf keeps when it was started and stopped.
type besideOf struct {
	err  error
	said *[]string
}

func (b besideOf) Start(_ context.Context, dir string) error {
	*b.said = append(*b.said, "start")
	return b.err
}

func (b besideOf) Stop(r *Result) {
	*b.said = append(*b.said, "stop")
	r.Notes = append(r.Notes, "noted")
}

func TestBesideGoesOnMeanwhile(t *testing.T) {
	var said []string
	o := fixture(t)
	o.Dir = filepath.Join(t.TempDir(), "r")
	o.Log = slog.New(heard(func(string) { said = append(said, "measured") }))
	o.Beside = []Beside{besideOf{said: &said}, besideOf{err: os.ErrPermission, said: &[]string{}}}
	r := runFile(t, o, claimLines("probe: f/a, metric: mean, target: <= 1s"), fake("f/a", around(1e-3)))
	if len(said) < 3 || said[0] != "start" || said[1] != "measured" || said[len(said)-1] != "stop" {
		t.Errorf("%q", said)
	}
	if notes := strings.Join(r.Notes, "; "); notes != os.ErrPermission.Error()+"; noted" {
		t.Errorf("notes: %s", notes)
	}
	b, err := os.ReadFile(filepath.Join(o.Dir, "results.json"))
	if err != nil || !strings.Contains(string(b), `"noted"`) {
		t.Errorf("what was found beside is not in the file: %v", err)
	}
}
