package assay

// Metric defines one number that Assay reports.
type Metric struct {
	Name   string // as in summary.json
	Unit   string
	Better Direction
	Help   string
}

// Direction says which way a metric is better.
type Direction int8

// The directions. A metric that is neither is a description, not a merit.
const (
	Lower   Direction = -1
	Neither Direction = 0
	Higher  Direction = 1
)

func (d Direction) String() string {
	switch d {
	case Lower:
		return "lower"
	case Higher:
		return "higher"
	}
	return "neither"
}

// metrics is the one table of metrics; docs/metrics.md is made from it.
var metrics = []Metric{
	{"ttft_ms", "ms", Lower, "Time to first token: arrival of the first token of any kind (content, reasoning, tool call) after the request's first byte was written."},
	{"ttft_intended_ms", "ms", Lower, "Time to first token from the moment at which the schedule wanted the request out. It holds the wait that a stalled server or a concurrency cap caused; TTFT by send time hides that wait."},
	{"ttfo_ms", "ms", Lower, "Time to first output: arrival of the first token of the answer itself, reasoning left out."},
	{"tpot_ms", "ms", Lower, "Time per output token after the first: (E2E − TTFT) ÷ (output tokens − 1), one value a request."},
	{"itl_ms", "ms", Lower, "Inter-token latency: gaps between token chunks, pooled over all requests. Gaps that lead to a token of a merged read are left out."},
	{"e2e_ms", "ms", Lower, "End to end: arrival of the last token after the request's first byte was written. The end marker of the stream is not in it."},
	{"e2e_intended_ms", "ms", Lower, "End to end from the scheduled moment."},
	{"requests_per_second", "1/s", Higher, "Requests that succeeded a second, over the steady window."},
	{"output_tokens_per_second", "1/s", Higher, "Output tokens that arrived a second, over the steady window."},
	{"total_tokens_per_second", "1/s", Higher, "Input and output tokens of requests that succeeded a second, over the steady window."},
	{"goodput_requests_per_second", "1/s", Higher, "Requests a second that kept every limit of --goodput; without limits, those that succeeded."},
	{"good_share", "ratio", Higher, "Share of the judged requests that kept every limit of --goodput."},
	{"output_tokens_per_second_per_user", "1/s", Higher, "Output tokens a second that one stream sees: 1 ÷ mean TPOT."},
	{"whole_requests_per_second", "1/s", Higher, "Requests a second over the whole stage, ramp and drain included."},
	{"whole_output_tokens_per_second", "1/s", Higher, "Output tokens a second over the whole stage, ramp and drain included."},
	{"error_rate", "ratio", Lower, "Failures of the engine over requests that the engine ended. Cancelled, censored and never-sent requests are counted apart."},
	{"late_sent", "1", Lower, "Requests that the concurrency cap held back for more than a millisecond after their scheduled moment."},
	{"never_sent", "1", Lower, "Requests that were scheduled and not sent before the stage ended."},
	{"censored", "1", Lower, "Requests still under way when the stage's grace ended; they were broken off by us."},
	{"input_tokens", "tokens", Neither, "Input tokens of a request, by the engine's own count where it gives one."},
	{"output_tokens", "tokens", Neither, "Output tokens of a request, by the engine's own count where it gives one."},
	{"cached_tokens", "tokens", Neither, "Input tokens that the engine took from its prefix cache, by its own word."},
	{"marked_gap_share", "ratio", Lower, "Share of gaps that are only upper bounds because their token shared a read with a later one."},
	{"lag_us", "µs", Lower, "The client's own lag: when our code got the bytes after they had arrived at the host, of every read."},
	{"send_lag_us", "µs", Lower, "How much later than the schedule, the cap and the connection allowed a request's first byte was written."},
	{"merged_share", "ratio", Lower, "Share of reads that held more than one token chunk, whose earlier tokens are only known to have come before."},
	{"knee", "streams", Higher, "X_max × R_min: the load beyond which more streams buy more waiting than throughput."},
	{"cliff", "streams", Higher, "The lowest load beyond the peak at which goodput is 10 % below its maximum."},
	{"degradation", "ratio", Higher, "X(N) ÷ (N × X(1)): what is left of perfect scaling at N streams."},
}

// Metrics gives the table of metrics in the order of the documentation.
func Metrics() []Metric { return append([]Metric(nil), metrics...) }
