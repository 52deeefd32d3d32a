package assay

// Names of what an engine has counted since it was started, as the events
// engine_before and engine_after keep it, whatever its own names are. A time is
// a pair: the sum in seconds and the number of values in it.
const (
	TotalRequests     = "requests"         // answered in full
	TotalAborted      = "requests_aborted" // ended by the client or by an error
	TotalPromptTokens = "prompt_tokens"
	TotalOutputTokens = "output_tokens"
	TotalStarted      = "started_seconds" // when its process began
	// The names of times; _seconds and _count follow.
	TotalTTFT       = "ttft"
	TotalE2E        = "e2e"
	TotalAfterFirst = "after_first" // from the first token to the last
	TotalStep       = "step"        // between two steps that made tokens of one request
	TotalTPOT       = "tpot"        // a token after the first, one value a request
	TotalTokenTime  = "token_time"  // a token, prompt included, one value a request
	TotalQueue      = "queue"
)

// EngineCheck compares what we measured in a stage with what the engine says of
// the same requests. All requests of the stage are in it, warm-ups too, as the
// engine knows no difference.
type EngineCheck struct {
	// Engine is the kind of the engine's page (vllm, sglang, tgi, llama.cpp);
	// empty: only figures in its answers were compared.
	Engine string `json:"engine,omitempty"`
	// Verdict is pass when all that could be compared agrees, fail when
	// something does not, unknown when nothing could be compared or the engine
	// served others too.
	Verdict Verdict `json:"verdict"`
	// Why says what could not be compared, or what is off.
	Why      string     `json:"why,omitempty"`
	Compared []Compared `json:"compared"`
}

// Compared is one figure, ours beside the engine's.
type Compared struct {
	What string `json:"what"` // requests, input_tokens, output_tokens, ttft, e2e, after_first, tpot, gap, token_time, prompt
	// From says where the engine's figure is from: metrics (its page, after
	// less before) or answers (what it said in each answer).
	From string `json:"from"`
	Unit string `json:"unit"` // 1, tokens, ms
	// Ours and Theirs are counts, or means over N values; null: not known.
	Ours    *float64 `json:"ours"`
	Theirs  *float64 `json:"theirs"`
	OursN   int64    `json:"ours_n,omitempty"`
	TheirsN int64    `json:"theirs_n,omitempty"`
	// Off is ours − theirs, and Low to High is what transport explains of it; a
	// null High has no bound.
	Off     *float64 `json:"off"`
	Low     *float64 `json:"low"`
	High    *float64 `json:"high"`
	Verdict Verdict  `json:"verdict"`
	Note    string   `json:"note,omitempty"`
}

// Find gives the comparison of one figure by its page or its answers.
func (c *EngineCheck) Find(what, from string) (Compared, bool) {
	if c != nil {
		for _, x := range c.Compared {
			if x.What == what && x.From == from {
				return x, true
			}
		}
	}
	return Compared{}, false
}
