package acceptance

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/assay-bench/assay/tools/stillness"
)

// Whose the time is by which our TTFT and E2E are longer than vLLM's own: with a
// packet capture beside the client, what we say is what crossed the wire. The
// rest was spent behind it, in vLLM's front end, before its clocks start and
// after they stop.
func TestRealVLLMOnTheWire(t *testing.T) {
	url := engineURL(t, "ASSAY_VLLM_URL")
	for _, streams := range []int{1, 8, 32} {
		name := strconv.Itoa(streams)
		t.Run(name, func(t *testing.T) {
			stillness.Timed(t, name, func() error { return onTheWire(t, url, streams) })
		})
	}
}

func onTheWire(t *testing.T, url string, streams int) error {
	t.Helper()
	c := startCapture(t, portOf(t, url))
	l := hammerVLLM(t, url, "--backend", "openai", "--max-concurrency", strconv.Itoa(streams), "--num-prompts", strconv.Itoa(max(16, 2*streams)),
		"--random-input-len", "32", "--random-output-len", "64")
	truth, err := c.arrivals()
	if err != nil {
		t.Fatal(err)
	}
	var first, last []float64 // ours minus the wire's, in ms
	wire := 0.0               // mean TTFT by the capture
	for i := range l.requests {
		r := &l.requests[i]
		w := truth[r.ID]
		if w == nil || len(w.tokens) == 0 {
			t.Fatalf("the capture does not know request %s", r.ID)
		}
		ttft := w.tokens[0] - w.sent
		first = append(first, float64(r.First-r.Sent-ttft)/1e6)
		last = append(last, float64(r.Last-w.tokens[len(w.tokens)-1])/1e6)
		wire += float64(ttft) / 1e6 / float64(len(l.requests))
	}
	slices.Sort(first)
	slices.Sort(last)
	most := len(first) * 99 / 100
	say(t, "%d streams: TTFT %.2f ms here, %.2f on the wire, %.2f by vLLM; ours minus the wire's p50 %.3f p99 %.3f ms, of the last token p50 %.3f p99 %.3f ms",
		streams, l.ours().ttft, wire, l.stage.mean("time_to_first_token"), first[len(first)/2], first[most], last[len(last)/2], last[most])
	if !(first[0] >= -0.05 && first[len(first)/2] <= 0.2 && last[0] >= -0.05 && last[len(last)/2] <= 0.05) {
		return fmt.Errorf("the client's own share of TTFT is %.3f to %.3f ms, of the last token's arrival %.3f to %.3f ms", first[0], first[most], last[0], last[most])
	}
	return nil
}
