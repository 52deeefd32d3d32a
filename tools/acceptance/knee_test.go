package acceptance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/assay-bench/assay/simulate"
)

// law is an engine whose knee, peak and cliff lie where a short search finds
// them: the peak at 24 streams, the cliff a little beyond.
var law = simulate.Batching{
	Slots: 256, PrefillRate: 20_000, StepBase: 4 * time.Millisecond, StepPerSeq: 100 * time.Microsecond,
	KVTokens: 24 * 96, SwapPerToken: 4 * time.Microsecond,
}

const lawInput, lawOutput = 64, 32

func lawFlags() []string {
	return []string{"--law", "batching", "--slots", fmt.Sprint(law.Slots), "--prefill-rate", fmt.Sprint(law.PrefillRate),
		"--step-base", law.StepBase.String(), "--step-per-seq", law.StepPerSeq.String(),
		"--kv-tokens", fmt.Sprint(law.KVTokens), "--swap-per-token", law.SwapPerToken.String()}
}

func lengths() []string {
	return []string{"--backend", "openai-chat", "--input-len", fmt.Sprint(lawInput), "--output-len", fmt.Sprint(lawOutput)}
}

// Must show 6: knee, cliff and the answers of searches are where the closed
// form has them.
func TestKnee(t *testing.T) {
	knee := law.Knee(lawInput, lawOutput)
	cliff, ok := law.Cliff(lawInput, lawOutput)
	if !ok {
		t.Fatal("the law of this check has no cliff")
	}
	// A step of a second has some hundred requests where it matters, and the
	// limits are the same; most of a step is spent in getting there.
	step := "1s"
	if long() {
		step = "3s"
	}
	t.Run("saturate", func(t *testing.T) {
		best(t, "saturate", func() error {
			s := startSimulator(t, lawFlags()...)
			r, _, sum := hammer(t, s, append(lengths(), "--saturate", "--duration", step, "--max-concurrency", "256")...)
			if r.exit != 0 || sum.Scaling == nil {
				return fmt.Errorf("exit %d: %s", r.exit, r.stderr)
			}
			say(t, "knee %.2f (closed form %.2f), cliff %.1f [%.0f, %.0f] (%.1f), %d stages, %s",
				sum.Scaling.Knee.Est, knee, sum.Scaling.Cliff.Est, sum.Scaling.Cliff.Lo, sum.Scaling.Cliff.Hi, cliff, len(sum.Stages), sum.Client.Certificate)
			return errors.Join(within("knee", sum.Scaling.Knee.Est, knee, 0.1), within("cliff", sum.Scaling.Cliff.Est, cliff, 0.1))
		})
	})
	t.Run("find-max concurrency", func(t *testing.T) {
		// Latency at N streams is N·T(N): the highest N below a limit follows.
		const n = 14
		want := float64(n)
		limit := time.Duration(law.Latency(n, lawInput, lawOutput) * float64(time.Second))
		best(t, "find-max", func() error {
			s := startSimulator(t, lawFlags()...)
			r, _, sum := hammer(t, s, append(lengths(), "--find-max", "concurrency", "--slo", fmt.Sprintf("e2e_mean<%s", limit.Round(10*time.Microsecond)), "--duration", step)...)
			if r.exit != 0 || sum.FindMax == nil {
				return fmt.Errorf("exit %d: %s", r.exit, r.stderr)
			}
			say(t, "find-max concurrency %.4g [%g, %g], closed form %g", sum.FindMax.Load.Est, sum.FindMax.Load.Lo, sum.FindMax.Load.Hi, want)
			return within("find-max", sum.FindMax.Load.Est, want, 0.1)
		})
	})
	t.Run("find-max rate", func(t *testing.T) {
		if !long() {
			t.Skip("it takes three minutes and more: .ci/run long truth; searches of rates in virtual time are tested in hammer")
		}
		// With as many slots as the peak has streams there is no cliff, and any
		// rate below the peak's throughput is kept up with. Beyond it a backlog
		// grows, and soon takes the latency past twice that of the peak.
		capped := law
		capped.Slots = 24
		want := capped.Throughput(24, lawInput, lawOutput)
		best(t, "find-max rate", func() error {
			s := startSimulator(t, append(lawFlags(), "--slots", "24")...)
			r, _, sum := hammer(t, s, append(lengths(), "--find-max", "rate", "--slo", "e2e_p95<600ms", "--duration", "6s")...)
			if r.exit != 0 || sum.FindMax == nil {
				return fmt.Errorf("exit %d: %s", r.exit, r.stderr)
			}
			say(t, "find-max rate %.4g [%g, %g] requests/s, closed form %.4g", sum.FindMax.Load.Est, sum.FindMax.Load.Lo, sum.FindMax.Load.Hi, want)
			return within("find-max", sum.FindMax.Load.Est, want, 0.1)
		})
	})
}
