// Package simulate is the command simulate.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/simulate"
)

const simulateLong = `Simulate runs an inference engine that computes nothing and whose truth is
known. It speaks OpenAI's and Ollama's APIs, gives each token at the moment
that a law says, and writes down when it really did (--truth), so that a load
tester can be checked against it.

Law fixed gives token k at read + ttft + k·itl, whatever the load. Law batching
is one engine loop with slots, prefill, shared decode steps and a KV cache; its
throughput, knee and cliff are known in closed form.

Faults are off unless asked for. Shares are of requests, 0 to 1; the same seed
gives the same faults to the same sequence of requests.

Habits are what real engines do on the wire: --like switches on those of one
engine, --habit one by one, for both APIs or after chat: or completions: for
one of them.

The manual, with the formulas and every endpoint, is docs/simulate.md.`

const simulateExample = `  assay simulate --ttft 50ms --itl 10ms --truth truth.jsonl
  assay simulate --law batching --slots 64 --kv-tokens 20000 --swap-per-token 1us
  assay simulate --fault-status 500=0.01,429=0.02 --fault-reset 0.01 --seed 7
  assay simulate --like vllm --habit eos-after=40
  assay simulate --habit silent-every=3 --habit buffer=4096/50ms
  curl -X POST 'http://127.0.0.1:8000/control/stall?ms=2000'`

// simulateFlags are what the command line adds to a Config.
type simulateFlags struct {
	config   simulate.Config
	listen   string
	portFile string
	truth    string
	keyFile  string
	status   []string
	law      string
	role     string
	like     string
	habits   []string
}

// New is the command `assay simulate`.
func New() *cobra.Command {
	f := simulateFlags{config: simulate.DefaultConfig()}
	cmd := &cobra.Command{
		Use:     "simulate",
		Short:   "Run an engine whose truth is known",
		Long:    simulateLong + "\n\nHabits:\n" + habitTable(),
		Example: simulateExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	c, b, x := &f.config, &f.config.Batching, &f.config.Faults
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8000", "address to listen on; port 0 takes a free one")
	fs.StringVar(&f.portFile, "port-file", "", "write the bound address to this file once it listens")
	fs.StringVar(&f.truth, "truth", "", "write one JSON line a request with the times of its tokens to this file")
	fs.StringVar(&c.Model, "model", c.Model, "served model name")
	fs.StringVar(&f.keyFile, "api-key-file", "", "ask /v1 requests for the key that is in this file")
	fs.Uint64Var(&c.Seed, "seed", 0, "seed of faults and words")

	fs.StringVar(&f.law, "law", string(c.Law), "when tokens are due: fixed or batching")
	fs.DurationVar(&c.TTFT, "ttft", c.TTFT, "law fixed: time to the first token")
	fs.DurationVar(&c.ITL, "itl", c.ITL, "law fixed: time between tokens")
	fs.IntVar(&b.Slots, "slots", b.Slots, "law batching: sequences that run at once")
	fs.Float64Var(&b.PrefillRate, "prefill-rate", b.PrefillRate, "law batching: prompt tokens a second; 0 takes no time")
	fs.DurationVar(&b.StepBase, "step-base", b.StepBase, "law batching: time of a decode step")
	fs.DurationVar(&b.StepPerSeq, "step-per-seq", b.StepPerSeq, "law batching: and for each running sequence")
	fs.IntVar(&b.KVTokens, "kv-tokens", b.KVTokens, "capacity of the KV cache in tokens; 0 is unlimited")
	fs.DurationVar(&b.SwapPerToken, "swap-per-token", b.SwapPerToken, "law batching: step time for each token beyond the KV cache")

	fs.IntVar(&c.OutputTokens, "output-tokens", c.OutputTokens, "length of an answer whose request sets no limit")
	fs.IntVar(&c.MaxModelLen, "max-model-len", c.MaxModelLen, "longest prompt and answer together")
	fs.IntVar(&c.TokensPerChunk, "tokens-per-chunk", c.TokensPerChunk, "law fixed: tokens in one event")
	fs.IntVar(&c.Reasoning, "reasoning", 0, "the first N tokens are reasoning")
	fs.StringVar(&c.ReasoningField, "reasoning-field", c.ReasoningField, "name of the reasoning field in OpenAI's API")
	fs.BoolVar(&c.ToolCall, "tool-call", false, "chat answers are one tool call")
	fs.StringVar(&f.role, "role-chunk", string(c.Role), "the chunk with only a role comes: first (just before the first token), early (at once) or off")
	fs.BoolVar(&c.PrefixCache, "prefix-cache", false, "remember prompts and report cached_tokens")

	fs.StringVar(&f.like, "like", "", "have the habits of an engine: vllm, sglang, llama.cpp, ollama or tgi")
	fs.StringArrayVar(&f.habits, "habit", nil, "NAME[=VALUE]: one habit of the table above, after those of --like; repeatable")

	fs.StringSliceVar(&f.status, "fault-status", nil, "share of requests answered by an error status, as 500=0.01,429=0.02")
	fs.Float64Var(&x.Reset, "fault-reset", 0, "share of connections reset after some tokens")
	fs.Float64Var(&x.Truncate, "fault-truncate", 0, "share of streams that end properly, but too early")
	fs.Float64Var(&x.Cut, "fault-cut", 0, "share of connections closed in the middle of a chunk")
	fs.Float64Var(&x.Malformed, "fault-malformed", 0, "share of streams with an event of broken JSON")
	fs.Float64Var(&x.Empty, "fault-empty", 0, "share of answers without a token")
	fs.Float64Var(&x.StreamError, "fault-stream-error", 0, "share of streams with an error event")
	fs.Float64Var(&x.Hang, "fault-hang", 0, "share of requests that are never answered")
	fs.Float64Var(&x.Usage, "fault-usage", 0, "multiply the token counts in usage; 0 leaves them true")
	fs.DurationVar(&x.SlowStart, "slow-start", 0, "answer 503 for so long after the start")
	fs.DurationVar(&x.ColdStart, "cold-start", 0, "the first request waits so much longer")
	fs.Float64Var(&x.Drift, "drift", 0, "gaps grow by this ratio a minute")
	fs.DurationVar(&x.SlowAt, "slow-at", 0, "from so long after the start on …")
	fs.Float64Var(&x.SlowBy, "slow-by", 0, "… gaps are this many times as long")
	fs.IntVar(&x.Leak, "leak", 0, "bytes kept for good for each request")
	fs.DurationVar(&x.StallAt, "stall-at", 0, "hold all tokens back, this long after the start …")
	fs.DurationVar(&x.StallFor, "stall-for", 0, "… for so long")
	return cmd
}

// habitTable is the list of habits as the help prints it.
func habitTable() string {
	var b strings.Builder
	for _, h := range simulate.HabitList() {
		name := h.Name
		if h.Value != "" {
			name += "=" + h.Value
		}
		fmt.Fprintf(&b, "  %-20s %s\n", name, h.Help)
	}
	return strings.TrimRight(b.String(), "\n")
}

// resolve turns the flags that are text into the Config's types.
func (f *simulateFlags) resolve() error {
	f.config.Law, f.config.Role = simulate.Law(f.law), simulate.Role(f.role)
	if f.like != "" {
		if err := f.config.Like(f.like); err != nil {
			return fmt.Errorf("--like: %w", err)
		}
	}
	for _, h := range f.habits {
		if err := f.config.SetHabit(h); err != nil {
			return fmt.Errorf("--habit: %w", err)
		}
	}
	if f.keyFile != "" {
		b, err := os.ReadFile(f.keyFile)
		if err != nil {
			return fmt.Errorf("read the API key: %w", err)
		}
		if f.config.APIKey = strings.TrimSpace(string(b)); f.config.APIKey == "" {
			return fmt.Errorf("read the API key: %s is empty", f.keyFile)
		}
	}
	if len(f.status) > 0 {
		f.config.Faults.Status = map[int]float64{}
	}
	for _, s := range f.status {
		code, share, ok := strings.Cut(s, "=")
		n, err1 := strconv.Atoi(code)
		p, err2 := strconv.ParseFloat(share, 64)
		if !ok || err1 != nil || err2 != nil {
			return fmt.Errorf("--fault-status %q: want STATUS=SHARE, as 500=0.01", s)
		}
		f.config.Faults.Status[n] = p
	}
	return nil
}

func (f *simulateFlags) run(ctx context.Context, stderr io.Writer) (err error) {
	if err := f.resolve(); err != nil {
		return err
	}
	if f.truth != "" {
		file, ferr := os.Create(f.truth)
		if ferr != nil {
			return fmt.Errorf("create the truth file: %w", ferr)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		f.config.Truth = file
	}
	e, err := simulate.New(f.config)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, e.Close())
		if l := e.Lateness(); l.Tokens > 0 {
			fmt.Fprintf(stderr, "%d tokens, own lateness p50 %v, p99 %v, max %v\n", l.Tokens, l.P50, l.P99, l.Max)
		}
	}()
	ln, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", f.listen, err)
	}
	if err := writePort(f.portFile, ln.Addr().String()); err != nil {
		ln.Close()
		return err
	}
	fmt.Fprintf(stderr, "listening on http://%s\n", ln.Addr())
	return e.Serve(ctx, ln)
}

// writePort writes the address in one piece: who waits for the file never
// reads half of it.
func writePort(name, address string) error {
	if name == "" {
		return nil
	}
	if err := disk.Swap(name, 0o644, disk.Bytes([]byte(address+"\n"))); err != nil {
		return fmt.Errorf("write the port file: %w", err)
	}
	return nil
}
