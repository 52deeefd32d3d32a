package assay

// Request is one line of requests.jsonl: everything that is known of one
// request. Times are Unix nanoseconds; zero means that it did not happen, and
// is absent from the line.
type Request struct {
	ID    string `json:"id"`
	Stage string `json:"stage"` // name of the stage that it belongs to
	// Warmup requests are recorded and not judged.
	Warmup bool `json:"warmup,omitempty"`
	// Stream is the number of the closed loop's stream that sent it, from 1;
	// zero for every other kind of load.
	Stream int `json:"stream,omitempty"`

	Scheduled int64 `json:"scheduled_ns,omitempty"` // when the schedule wanted it out
	Eligible  int64 `json:"eligible_ns,omitempty"`  // when schedule and concurrency cap both allowed it
	Connect   int64 `json:"connect_ns,omitempty"`   // when its new connection was ready; absent on a kept one
	Sent      int64 `json:"sent_ns,omitempty"`      // just before its first byte was written
	First     int64 `json:"first_ns,omitempty"`     // arrival of the first token of any kind
	Answer    int64 `json:"answer_ns,omitempty"`    // arrival of the answer's first visible text, where it differs from First
	Last      int64 `json:"last_ns,omitempty"`      // arrival of the last token
	End       int64 `json:"end_ns,omitempty"`       // when our code was done with it, whatever the outcome

	// NoAnswer: tokens came, and none of them was visible text of the answer.
	NoAnswer bool `json:"no_answer,omitempty"`

	// Gaps between consecutive token chunks in whole microseconds, such that
	// First plus their sum is the arrival of each within a microsecond. A
	// negative entry v is a marked gap of -1-v µs: it leads to a token chunk of
	// a read that the client merged, and so is only an upper bound.
	Gaps []int32 `json:"gaps_us,omitempty"`
	// ChunkTokens is the number of tokens in each token chunk, one more entry
	// than Gaps; nil when every chunk held one.
	ChunkTokens []int32 `json:"chunk_tokens,omitempty"`
	// Other has a letter for each chunk that carried no token, OtherUS their
	// arrival in microseconds since Sent: r role, e empty, f finish, u usage, d [DONE].
	Other   string  `json:"other,omitempty"`
	OtherUS []int32 `json:"other_us,omitempty"`

	AskedInput   int `json:"asked_input_tokens,omitempty"` // length that the prompt was made for
	AskedOutput  int `json:"asked_output_tokens,omitempty"`
	InputTokens  int `json:"input_tokens,omitempty"`
	OutputTokens int `json:"output_tokens,omitempty"`
	CachedTokens int `json:"cached_tokens,omitempty"`
	// Unplaced are output tokens that no chunk showed; they are taken to have
	// come with the finish chunk.
	Unplaced int `json:"unplaced_tokens,omitempty"`
	// TokensFrom says who counted OutputTokens: "usage" (the engine) or
	// "chunks" (we counted token chunks).
	TokensFrom string `json:"tokens_from,omitempty"`

	Error  Failure `json:"error,omitempty"`
	Detail string  `json:"error_detail,omitempty"` // bounded, escaped
	Status int     `json:"http_status,omitempty"`
	// Address is the address that it was sent to, where the engine's name has
	// several.
	Address string `json:"address,omitempty"`

	Reads int `json:"reads,omitempty"` // reads that brought token chunks
	// MergedReads are reads that held several token chunks because the client
	// was late, BurstReads those whose chunks the engine sent together, and
	// BurstChunks the token chunks in these.
	MergedReads int   `json:"merged_reads,omitempty"`
	BurstReads  int   `json:"burst_reads,omitempty"`
	BurstChunks int   `json:"burst_chunks,omitempty"`
	FirstMerged bool  `json:"first_merged,omitempty"` // the first token's read was merged: First is an upper bound
	FirstLag    int64 `json:"first_lag_us,omitempty"` // read − arrived of the first token
	MaxLag      int64 `json:"max_lag_us,omitempty"`   // the largest read − arrived of the request
	ClockStep   bool  `json:"clock_step,omitempty"`   // the wall clock was stepped while it was under way

	Engine *EngineTimings `json:"engine,omitempty"`
	// Prompt is the number of the prompt in the run's data, so that a resumed
	// run goes on where the first one stopped.
	Prompt int    `json:"prompt"`
	Text   string `json:"text,omitempty"` // the answer, only when it was asked for
}

// EngineTimings are the engine's own figures, where it gives them.
type EngineTimings struct {
	Total        int64 `json:"total_ns,omitempty"`
	Load         int64 `json:"load_ns,omitempty"`
	Prompt       int64 `json:"prompt_ns,omitempty"`
	Eval         int64 `json:"eval_ns,omitempty"`
	PromptTokens int   `json:"prompt_tokens,omitempty"`
	EvalTokens   int   `json:"eval_tokens,omitempty"`
	// EvalIntervals is the number of tokens that Eval covers: one less than
	// EvalTokens on Ollama, whose clock starts after the first token.
	EvalIntervals int `json:"eval_intervals,omitempty"`
	// FirstToken is the time to the first token within the engine, Generation
	// that from the first token to the last, and Queued how long the request
	// waited in it.
	FirstToken int64 `json:"first_token_ns,omitempty"`
	Generation int64 `json:"generation_ns,omitempty"`
	Queued     int64 `json:"queued_ns,omitempty"`
}

// Gap splits an entry of Gaps into its length and whether it is marked.
func Gap(v int32) (us int32, marked bool) {
	if v < 0 {
		return -1 - v, true
	}
	return v, false
}

// MarkGap marks a gap as one that leads to a token of a merged read.
func MarkGap(us int32) int32 { return -1 - us }

// OK reports whether the request succeeded.
func (r *Request) OK() bool { return r.Error == "" }

// SendLag is how much later than allowed the request went out, in nanoseconds:
// the client's own lateness. Waiting for the concurrency cap or for a
// connection is not in it. It is negative when the request was not sent.
func (r *Request) SendLag() int64 {
	if r.Sent == 0 {
		return -1
	}
	return max(0, r.Sent-max(r.Scheduled, r.Eligible, r.Connect))
}

// TTFT is the time to the first token of any kind in nanoseconds, by send time;
// ok is false when there was none.
func (r *Request) TTFT() (ns int64, ok bool) { return since(r.First, r.Sent) }

// TTFTIntended is the time to the first token from the moment that the
// schedule wanted the request out.
func (r *Request) TTFTIntended() (ns int64, ok bool) { return since(r.First, r.Scheduled) }

// TTFO is the time to the first visible text of the answer; ok is false when
// there was none.
func (r *Request) TTFO() (ns int64, ok bool) {
	switch {
	case r.NoAnswer:
		return 0, false
	case r.Answer != 0:
		return since(r.Answer, r.Sent)
	}
	return since(r.First, r.Sent)
}

// E2E is the time to the last token's arrival, by send time.
func (r *Request) E2E() (ns int64, ok bool) { return since(r.Last, r.Sent) }

// E2EIntended is the time to the last token from the scheduled moment.
func (r *Request) E2EIntended() (ns int64, ok bool) { return since(r.Last, r.Scheduled) }

// FirstTokens is the number of tokens of the first arrival: those of the first
// chunk, and of the chunks that came at the same moment.
func (r *Request) FirstTokens() int {
	if r.First == 0 {
		return 0
	}
	n := r.chunkTokens(0)
	for i, v := range r.Gaps {
		if us, _ := Gap(v); us > 0 {
			break
		}
		n += r.chunkTokens(i + 1)
	}
	return n
}

// Later gives each token chunk after the first arrival: the gap before it, which
// is 0 for one that came at the same moment as the chunk before, the number of
// its tokens, and whether the gap is marked.
func (r *Request) Later(f func(us int32, tokens int, marked bool)) {
	first := true
	for i, v := range r.Gaps {
		us, marked := Gap(v)
		if first = first && us == 0; !first {
			f(us, r.chunkTokens(i+1), marked)
		}
	}
}

// chunkTokens is the number of tokens of one chunk.
func (r *Request) chunkTokens(i int) int {
	if i < len(r.ChunkTokens) {
		return int(max(0, r.ChunkTokens[i]))
	}
	return 1
}

// TPOT is the mean time per output token after the first arrival, in
// nanoseconds; ok is false when no token came after it.
func (r *Request) TPOT() (ns float64, ok bool) {
	later := r.OutputTokens - r.FirstTokens()
	if r.First == 0 || r.Last == 0 || later < 1 {
		return 0, false
	}
	return float64(r.Last-r.First) / float64(later), true
}

func since(mark, from int64) (int64, bool) {
	if mark == 0 || from == 0 {
		return 0, false
	}
	return mark - from, true
}
