package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/tools/stillness"
)

// looked is a run against vLLM, beside what vLLM counted meanwhile.
type looked struct {
	sum      assay.Summary
	requests []assay.Request
	whole    vllmPage // around the whole command, calibration included
	stage    vllmPage // of the stage alone
}

// hammerVLLM runs the program and reads vLLM's page before and after. A run
// whose client is not certified is repeated, three times at most.
func hammerVLLM(t *testing.T, url string, args ...string) looked {
	t.Helper()
	var why string
	for i := range 3 {
		before := readVLLM(t, url)
		dir := filepath.Join(t.TempDir(), fmt.Sprint("run", i))
		cmd := realtime(t, program(t, "assay"), append([]string{"hammer", "--base-url", url, "--model", "tiny",
			"--out", dir, "--quiet", "--format", "json", "--allow-invalid"}, args...)...)
		r := runCommand(t, cmd, nil)
		if r.exit != 0 {
			t.Fatalf("exit %d: %s", r.exit, r.stderr)
		}
		var l looked
		if err := json.Unmarshal([]byte(r.stdout), &l.sum); err != nil {
			t.Fatalf("%v\n%s", err, r.stdout)
		}
		l.read(t, dir, before, url)
		l.exact(t)
		if c := l.sum.Client; c.Certificate != assay.Certified {
			why = fmt.Sprintf("%s, limited by %q: %v", c.Certificate, c.Cause, c.Why)
			say(t, "try %d: %s", i+1, why)
			continue
		}
		return l
	}
	t.Fatalf("no run was certified: %s", why)
	return looked{}
}

// realtime gives a command the priority that both clients have, so that none of
// them waits for the engine beside it.
func realtime(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	chrt, err := exec.LookPath("chrt")
	if err != nil {
		t.Skip("no chrt: both clients need the same priority")
	}
	return exec.Command(chrt, append([]string{"-r", "1", name}, args...)...)
}

// read takes what the run recorded, and vLLM's counters.
func (l *looked) read(t *testing.T, dir string, before vllmPage, url string) {
	t.Helper()
	rd, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range rd.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		q := *r
		q.Gaps, q.ChunkTokens = slices.Clone(r.Gaps), slices.Clone(r.ChunkTokens)
		if r.Engine != nil {
			e := *r.Engine
			q.Engine = &e
		}
		l.requests = append(l.requests, q)
	}
	var first, last map[string]float64
	calibrated := map[string]float64{} // of the engine, and of a dataset
	for e, err := range rd.Events() {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case assay.EventCalibrated:
			for name, v := range e.Data {
				calibrated[name] += v
			}
		case assay.EventEngineBefore:
			first = e.Data
		case assay.EventEngineAfter:
			last = e.Data
		}
	}
	if first == nil || last == nil || calibrated["requests"] == 0 {
		t.Fatal("the run has no totals of the engine, or was not calibrated")
	}
	l.stage = vllmPage{}
	for ours, name := range map[string]string{"ttft": "time_to_first_token", "e2e": "e2e_request_latency", "step": "inter_token_latency",
		"tpot": "request_time_per_output_token", "after_first": "request_decode_time"} {
		l.stage[name+"_seconds_sum"] = last[ours+"_seconds"] - first[ours+"_seconds"]
		l.stage[name+"_seconds_count"] = last[ours+"_count"] - first[ours+"_count"]
	}
	l.whole = before.since(t, url, float64(len(l.requests))+calibrated["requests"])
	for name, of := range map[string]string{"request_success_total": "requests", "prompt_tokens_total": "input_tokens", "generation_tokens_total": "output_tokens"} {
		l.whole[name] -= calibrated[of]
	}
}

// exact holds counts against vLLM's: they must be equal, whatever the machine
// did meanwhile.
func (l *looked) exact(t *testing.T) {
	t.Helper()
	ours := vllmPage{}
	for i := range l.requests {
		r := &l.requests[i]
		if !r.OK() {
			t.Errorf("request %s failed: %s %s", r.ID, r.Error, r.Detail)
		}
		ours["request_success_total"]++
		ours["prompt_tokens_total"] += float64(r.InputTokens)
		ours["generation_tokens_total"] += float64(r.OutputTokens)
	}
	if got, want := ours.counts(), l.whole.counts(); got != want {
		t.Errorf("%s here, without calibration, and by vLLM's page %s", got, want)
	}
}

// times are ours, in milliseconds.
type times struct {
	ttft, e2e, after, tpot, gap float64
	gaps, joined                int
}

func (l *looked) ours() times {
	var m times
	n := float64(len(l.requests))
	for i := range l.requests {
		r := &l.requests[i]
		ttft, _ := r.TTFT()
		e2e, _ := r.E2E()
		tpot, _ := r.TPOT()
		m.ttft += float64(ttft) / n / 1e6
		m.e2e += float64(e2e) / n / 1e6
		m.after += float64(e2e-ttft) / n / 1e6
		m.tpot += tpot / n / 1e6
		m.gaps += len(r.Gaps)
		m.joined += r.OutputTokens - 1 - len(r.Gaps)
	}
	m.gap = m.after * n / float64(m.gaps)
	return m
}

// figures prints both sides in one line.
func (l *looked) figures(t *testing.T, what string) times {
	m, v := l.ours(), l.stage
	say(t, "%s: %s; ms ours/vLLM's: TTFT %.2f/%.2f, TPOT %.3f/%.3f, gap %.3f/%.3f, first to last %.2f/%.2f, E2E %.2f/%.2f; client %s",
		what, l.whole.counts(), m.ttft, v.mean("time_to_first_token"), m.tpot, v.mean("request_time_per_output_token"),
		m.gap, v.mean("inter_token_latency"), m.after, v.mean("request_decode_time"), m.e2e, v.mean("e2e_request_latency"), l.sum.Client.Certificate)
	return m
}

// agree holds times against vLLM's own. Speculating steps have several tokens.
func (l *looked) agree(t *testing.T, m times, speculates bool) error {
	t.Helper()
	v := l.stage
	errs := []error{
		within("Σ(E2E − TTFT), in ms a request", m.after, v["inter_token_latency_seconds_sum"]*1e3/float64(len(l.requests)), 0.01),
		within("TPOT", m.tpot, v.mean("request_time_per_output_token"), 0.01),
	}
	steps := int(v["inter_token_latency_seconds_count"])
	if err := within("mean arrival gap", m.gap, v.mean("inter_token_latency"), 0.01); err != nil {
		// Without speculation a step makes one token of a request: then as many
		// tokens share a chunk as there are steps without one of their own.
		if missing := steps - m.gaps; missing > 0 && (speculates || missing == m.joined) {
			say(t, "%v: vLLM's front end joined %d of %d steps with others, as the counts in its chunks show", err, missing, steps)
		} else {
			errs = append(errs, fmt.Errorf("%w (%d gaps, %d steps, %d tokens joined)", err, m.gaps, steps, m.joined))
		}
	}
	errs = append(errs, l.each(t))
	// Which side is off: vLLM's front end times the first token and the end too.
	if err := errors.Join(errs...); err != nil {
		front := v.mean("e2e_request_latency") - v.mean("time_to_first_token")
		return fmt.Errorf("%w\nfirst to last token: %.3f ms here, %.3f by vLLM's front end, %.3f by its core", err, m.after, front, v.mean("request_decode_time"))
	}
	return nil
}

// each holds every request against its own generation_time_ms.
func (l *looked) each(t *testing.T) error {
	t.Helper()
	type far struct {
		r   *assay.Request
		off float64
	}
	var all []far
	for i := range l.requests {
		r := &l.requests[i]
		if r.Engine == nil || r.Engine.Generation == 0 {
			return fmt.Errorf("request %s has no generation_time_ms", r.ID)
		}
		theirs := float64(r.Engine.Generation) / 1e6
		if off := float64(r.Last-r.First)/1e6 - theirs; !(math.Abs(off) <= max(1, 0.02*theirs)) {
			all = append(all, far{r, off})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b far) int { return -int(math.Abs(a.off)*1e3) + int(math.Abs(b.off)*1e3) })
	for _, f := range all[:min(5, len(all))] {
		say(t, "request %s: first to last %+.2f ms off %.2f; TTFT %.2f, E2E %.2f ms; %d reads, %d merged by the client, lag of the first %d µs, of any %d µs",
			f.r.ID, f.off, float64(f.r.Engine.Generation)/1e6, float64(f.r.First-f.r.Sent)/1e6, float64(f.r.Last-f.r.Sent)/1e6,
			f.r.Reads, f.r.MergedReads, f.r.FirstLag, f.r.MaxLag)
	}
	// The arrivals are the kernel's. Where the client merged none of a request's
	// reads they are exact, and what is off was off before it arrived: vLLM takes
	// its times before its front end writes, which waits for a processor now and
	// then. So a request may be off by the engine, never by the client; the sums
	// above and half of the requests must agree all the same.
	guilty := 0
	for _, f := range all {
		if f.r.MergedReads > 0 || f.r.FirstMerged {
			guilty++
		}
	}
	if guilty == 0 && len(all) <= len(l.requests)/2 {
		say(t, "%d of %d requests are off their generation_time_ms, and none by the client: their arrivals are exact", len(all), len(l.requests))
		return nil
	}
	return fmt.Errorf("%d of %d requests are off their generation_time_ms by more than max(1 ms, 2 %%), %d with reads that the client merged", len(all), len(l.requests), guilty)
}

// Must show 1: what hammer says of vLLM is what vLLM says of itself.
func TestRealVLLM(t *testing.T) {
	url := engineURL(t, "ASSAY_VLLM_URL")
	for _, backend := range []string{"openai", "openai-chat"} {
		for _, load := range []struct{ streams, requests string }{{"1", "24"}, {"8", "96"}, {"32", "192"}} {
			name := backend + "/" + load.streams
			t.Run(name, func(t *testing.T) {
				stillness.Timed(t, name, func() error {
					l := hammerVLLM(t, url, "--backend", backend, "--max-concurrency", load.streams, "--num-prompts", load.requests,
						"--num-warmups", "2", "--random-input-len", "32", "--random-output-len", "64")
					return l.agree(t, l.figures(t, name), false)
				})
			})
		}
	}
}

// A tool call's first tokens are held back by vLLM's parser, so there is a count
// and an end to compare.
func TestRealVLLMToolCall(t *testing.T) {
	url := engineURL(t, "ASSAY_VLLM_NGRAM_URL")
	const body = `{"tool_choice":"required","tools":[{"type":"function","function":{"name":"look","description":"look",
"parameters":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}}]}`
	stillness.Timed(t, "tool call", func() error {
		l := hammerVLLM(t, url, "--backend", "openai-chat", "--max-concurrency", "4", "--num-prompts", "32", "--num-warmups", "2",
			"--random-input-len", "32", "--random-output-len", "48", "--extra-body", body)
		m := l.figures(t, "tool call")
		held := 0
		for i := range l.requests {
			held += l.requests[i].FirstTokens() - 1
		}
		say(t, "tool call: %d tokens came with the first chunk of their answer", held)
		if held == 0 {
			return errors.New("no token was held back: no tool was called")
		}
		return atLeast("E2E's excess in ms", m.e2e-l.stage.mean("e2e_request_latency"), 0)
	})
}

// Steps that make several tokens: counts, times a token and times a step.
func TestRealVLLMSpeculates(t *testing.T) {
	url := engineURL(t, "ASSAY_VLLM_NGRAM_URL")
	data := filepath.Join(t.TempDir(), "repeats.jsonl")
	var b strings.Builder
	for i := range 64 {
		fmt.Fprintf(&b, "{\"prompt\": \"%d %s\"}\n", i, strings.Repeat(fmt.Sprintf("the cat %d sat on the mat; ", i), 4))
	}
	if err := os.WriteFile(data, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	stillness.Timed(t, "n-gram", func() error {
		l := hammerVLLM(t, url, "--backend", "openai", "--max-concurrency", "4", "--num-prompts", "48", "--num-warmups", "2",
			"--dataset-name", "custom", "--dataset-path", data, "--custom-output-len", "64", "--temperature", "0")
		m := l.figures(t, "n-gram")
		accepted := l.whole["spec_decode_num_accepted_tokens_total"]
		say(t, "n-gram: %.0f of %.0f proposed tokens accepted, %d tokens shared a chunk", accepted, l.whole["spec_decode_num_draft_tokens_total"], m.joined)
		if accepted == 0 || m.joined == 0 {
			return errors.New("nothing was accepted, so nothing was seen of speculation")
		}
		return l.agree(t, m, true)
	})
}

func atLeast(what string, got, least float64) error {
	if !(got >= least) {
		return fmt.Errorf("%s is %.3f, want at least %g", what, got, least)
	}
	return nil
}
