package acceptance

import (
	"fmt"
	"os"
	"testing"

	"github.com/assay-bench/assay"
)

// The three real engines in one table, ours beside their own figures; the lines
// go into docs/benchmarks.md.
func TestRealEnginesBesideOurs(t *testing.T) {
	say(t, "| engine | streams | requests | TTFT ms, ours / its own | TPOT ms | E2E ms | compared with | agree |")
	for _, e := range []struct{ name, variable, backend, model string }{
		{"vLLM 0.32", "ASSAY_VLLM_URL", "openai-chat", "tiny"},
		{"llama.cpp", "ASSAY_LLAMACPP_URL", "openai-chat", ""},
		{"Ollama", "ASSAY_OLLAMA_URL", "ollama", "mid"},
	} {
		t.Run(e.name, func(t *testing.T) {
			s := &simulator{url: engineURL(t, e.variable)}
			for _, streams := range []string{"1", "4"} {
				best(t, e.name+" at "+streams, func() error { return besideOurs(t, s, e.name, streams, e.backend, e.model) })
			}
		})
	}
}

func besideOurs(t *testing.T, s *simulator, name, streams, backend, model string) error {
	t.Helper()
	args := []string{"--backend", backend, "--max-concurrency", streams, "--num-prompts", "32", "--num-warmups", "2",
		"--random-input-len", "32", "--random-output-len", "64"}
	if model != "" {
		args = append(args, "--model", model)
	}
	if name == "llama.cpp" {
		// It closes a connection after a streamed answer although it says that
		// it keeps it, sometimes after the next request was sent.
		args = append(args, "--connection", "fresh")
	}
	if os.Getenv("FIGURES") == "" {
		t.Log("FIGURES is not set: the table is in the log only")
	}
	r, _, sum := hammer(t, s, args...)
	if r.exit != 0 {
		return fmt.Errorf("exit %d: %s", r.exit, r.stderr)
	}
	st := sum.Stages[0]
	c := st.EngineCheck
	if c == nil {
		return fmt.Errorf("%s: nothing was compared", name)
	}
	pair := func(what string) string {
		for _, from := range []string{"metrics", "answers"} {
			if x, ok := c.Find(what, from); ok && x.Ours != nil && x.Theirs != nil {
				return fmt.Sprintf("%.2f / %.2f", *x.Ours, *x.Theirs)
			}
		}
		return "–"
	}
	from := "its answers"
	if c.Engine != "" {
		from = "its /metrics"
		if _, ok := c.Find("tpot", "answers"); ok {
			from += " and answers"
		}
	}
	say(t, "| %s | %s | %d | %s | %s | %s | %s | %s |", name, streams, st.OK, pair("ttft"), pair("tpot"), pair("e2e"), from, c.Verdict)
	if st.OK != 32 || c.Verdict == assay.Fail {
		return fmt.Errorf("%d of 32 succeeded (%v); %s: %s", st.OK, st.Errors, c.Verdict, c.Why)
	}
	return nil
}
