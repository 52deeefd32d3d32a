package assay

import "strings"

// Metric defines one number that Assay reports.
type Metric struct {
	Name   string
	Unit   string
	Better Direction
	Help   string
	In     string // the document that has it; empty: summary.json
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

// metrics is the one table of metrics; docs/metrics.md is made from it. Others say
// which of its rows they use, and take unit and direction from here.
var metrics = []Metric{
	{"ttft_ms", "ms", Lower, "Time to first token: arrival of the first token of any kind (content, reasoning, tool call) after the request's first byte was written.", ""},
	{"ttft_intended_ms", "ms", Lower, "Time to first token from the moment at which the schedule wanted the request out. It holds the wait that a stalled server or a concurrency cap caused; TTFT by send time hides that wait.", ""},
	{"ttfo_ms", "ms", Lower, "Time to first output: arrival of the first visible text of the answer. Unknown for a request whose answer had none.", ""},
	{"tpot_ms", "ms", Lower, "Time per output token after the first arrival: (last − first arrival) ÷ (output tokens − tokens of the first arrival), one value a request. Unknown when all tokens came at once.", ""},
	{"itl_ms", "ms", Lower, "Inter-token latency of each token after the first arrival, as delivered, pooled over all requests: of k tokens that arrive together one has the gap and k − 1 have 0, so that the mean is total time ÷ tokens. Percentiles leave out every gap that ends in a read that the client merged (marked_gap_share); n, mean, stddev, min and max leave out nothing.", ""},
	{"arrival_gap_ms", "ms", Lower, "Gaps between arrivals of tokens, pooled over all requests: tokens that come at the same moment are one arrival. Percentiles leave out what those of itl_ms do.", ""},
	{"e2e_ms", "ms", Lower, "End to end: arrival of the last token after the request's first byte was written. The end marker of the stream is not in it.", ""},
	{"e2e_intended_ms", "ms", Lower, "End to end from the scheduled moment.", ""},
	{"requests_per_second", "1/s", Higher, "Requests that succeeded a second, over the steady window, or the whole stage where rates_of says so. A request counts by the share of its tokens that arrived in it.", ""},
	{"output_tokens_per_second", "1/s", Higher, "Output tokens that arrived a second, whoever asked for them, over the steady window, or the whole stage where rates_of says so.", ""},
	{"total_tokens_per_second", "1/s", Higher, "Input and output tokens a second, over the steady window, or the whole stage where rates_of says so. Input tokens count when the first token came.", ""},
	{"goodput_requests_per_second", "1/s", Higher, "Requests a second that kept every limit of --goodput, counted as requests_per_second counts; without limits, those that succeeded.", ""},
	{"good_share", "ratio", Higher, "Share of the judged requests that the engine ended that kept every limit of --goodput.", ""},
	{"output_tokens_per_second_per_user", "1/s", Higher, "Output tokens a second that one stream sees while it is answered: 1 ÷ mean TPOT.", ""},
	{"whole_requests_per_second", "1/s", Higher, "Requests that succeeded a second over the whole stage, from the first send to the last token's arrival; of loads that are not closed without their warm-ups, which are over before.", ""},
	{"whole_output_tokens_per_second", "1/s", Higher, "Output tokens a second over the same time.", ""},
	{"error_rate", "ratio", Lower, "Failures of the engine over requests that the engine ended. Cancelled, censored and never-sent requests are counted apart.", ""},
	{"late_sent", "1", Lower, "Requests that the concurrency cap held back for more than a millisecond after their scheduled moment.", ""},
	{"never_sent", "1", Lower, "Requests that were scheduled and not sent before the stage ended.", ""},
	{"censored", "1", Lower, "Requests still under way when the stage's grace ended; we cancelled them.", ""},
	{"input_tokens", "tokens", Neither, "Input tokens of a request, by the engine's own count where it gives one.", ""},
	{"output_tokens", "tokens", Neither, "Output tokens of a request, by the engine's own count where it gives one.", ""},
	{"cached_tokens", "tokens", Neither, "Input tokens that the engine says it took from its prefix cache, of all judged requests together.", ""},
	{"marked_gap_share", "ratio", Lower, "Share of gaps between token chunks that are only upper bounds, because they end in a read that the client merged.", ""},
	{"burst_share", "ratio", Neither, "Share of reads whose several token chunks the engine sent together.", ""},
	{"burst_chunks_mean", "chunks", Neither, "Token chunks in such a read.", ""},
	{"lag_us", "µs", Lower, "The client's own lag: when our code got the bytes after they had arrived at the host, of every read.", ""},
	{"send_lag_us", "µs", Lower, "How much later than the schedule, the cap and the connection allowed a request's first byte was written.", ""},
	{"merged_share", "ratio", Lower, "Share of reads that held several token chunks because the client was late: the earlier ones are only known to have come before.", ""},
	{"knee", "streams", Higher, "X_max × R_min: the load beyond which more streams buy more waiting than throughput.", ""},
	{"cliff", "streams", Higher, "The lowest load beyond the peak at which goodput is 10 % below its maximum.", ""},
	{"degradation", "ratio", Higher, "X(N) ÷ (N × X(1)): what is left of perfect scaling at N streams.", ""},
	{"gpu_utilization_mean", "ratio", Neither, "Mean utilization of the GPUs under load, as the driver tells it: a duty cycle.", "experiment.json"},
	{"gpu_memory_peak_bytes", "bytes", Lower, "Highest device memory in use on one GPU.", "experiment.json"},
	{"memory_peak_bytes", "bytes", Lower, "Highest resident memory of the engine's processes.", "experiment.json"},
	{"tokens_per_joule", "1/J", Higher, "Output tokens in the steady window for a joule of the GPUs.", "experiment.json"},

	{"assay_agent_enrolled", "1", Neither, "1: the node has an id of the network; its label says which.", AgentPage},
	{"assay_agent_server_seen_timestamp_seconds", "s", Neither, "When the server last answered.", AgentPage},
	{"assay_agent_server_failures", "1", Lower, "Requests to the server that failed since the last that did not.", AgentPage},
	{"assay_agent_clock_skew_seconds", "s", Neither, "How far the clock is behind the server's. Beyond 60 s no run starts.", AgentPage},
	{"assay_agent_outbox_records", "1", Lower, "Records that wait for the server.", AgentPage},
	{"assay_agent_outbox_bytes", "bytes", Lower, "What they take.", AgentPage},
	{"assay_agent_records_total", "1", Neither, "Records that the server answered for, by outcome: taken, duplicate, refused.", AgentPage},
	{"assay_agent_runs_waiting", "1", Lower, "Runs whose files the server has not confirmed.", AgentPage},
	{"assay_agent_runs_refused", "1", Lower, "Runs that the server refused and that are kept for a person.", AgentPage},
	{"assay_agent_checks_total", "1", Neither, "Checks of the node by how they ended: done, failed, yielded, stopped, not started.", AgentPage},
	{"assay_agent_checking", "1", Neither, "1: a check is under way.", AgentPage},
	{"assay_agent_next_check_timestamp_seconds", "s", Neither, "When the next scheduled check is due.", AgentPage},
	{"assay_agent_last_check_timestamp_seconds", "s", Neither, "When the last check began that was done.", AgentPage},
	{"assay_agent_last_check_seconds", "s", Neither, "How long it took.", AgentPage},
	{"assay_agent_score", "1", Higher, "Overall health score of the last check, by the node's own word; absent: unknown.", AgentPage},
	{"assay_agent_verdict", "1", Neither, "1 for the verdict of the last check, by the node's own word; its label says which.", AgentPage},
	{"assay_agent_last_result", "any", Neither, "Figures of the last check, by stage, metric and stat; the unit is that of the metric.", AgentPage},
	{"assay_agent_engine_up", "1", Higher, "1: the engine answers.", AgentPage},
	{"assay_agent_engine_requests", "1", Neither, "Requests that the engine has and that are not of a check; absent: it does not tell.", AgentPage},

	{"assay_notary_log_entries", "1", Neither, "Entries in the log, published or not.", NotaryPage},
	{"assay_notary_logged_total", "1", Neither, "Entries logged since the start.", NotaryPage},
	{"assay_notary_events_total", "1", Neither, "Operation events passed over.", NotaryPage},
	{"assay_notary_duplicates_total", "1", Neither, "Records whose id is in the log already.", NotaryPage},
	{"assay_notary_reread_total", "1", Neither, "Records that were dealt with before this start.", NotaryPage},
	{"assay_notary_refused_total", "1", Lower, "Records refused, by reason.", NotaryPage},
	{"assay_notary_lag_records", "1", Lower, "Records of the partition that wait, as of the last look.", NotaryPage},
	{"assay_notary_checkpoint_entries", "1", Neither, "Entries under the published checkpoint.", NotaryPage},
	{"assay_notary_checkpoint_age_seconds", "s", Lower, "Time since the checkpoint was published.", NotaryPage},

	{"assay_witness_cosigned_total", "1", Neither, "Checkpoints cosigned since the start.", WitnessPage},
	{"assay_witness_found_total", "1", Lower, "Signed checkpoints that contradict what was cosigned: fork, mismatch of the proof, shrunk.", WitnessPage},
	{"assay_witness_healthy", "1", Higher, "1 while the witness can sign for the log, 0 after it could not by its own fault.", WitnessPage},
	{"assay_witness_refused_total", "1", Lower, "Requests not signed for, by status; without a log: of none that this witness knows.", WitnessPage},
	{"assay_witness_log_entries", "1", Neither, "Size of the tree that was cosigned last.", WitnessPage},
	{"assay_witness_cosigned_time_seconds", "s", Neither, "Unix time of the last cosignature.", WitnessPage},
}

// Where figures are that are in no document: the pages of what runs for long.
const (
	AgentPage   = "/metrics of the agent"
	NotaryPage  = "/metrics of the notary"
	WitnessPage = "/metrics of the witness"
)

// Metrics gives the table of metrics in the order of the documentation.
func Metrics() []Metric { return append([]Metric(nil), metrics...) }

// MetricOf finds the metric that a figure is of: ttft_ms_p99 is one of ttft_ms.
func MetricOf(figure string) (Metric, bool) {
	for _, name := range []string{figure, figure[:max(0, strings.LastIndexByte(figure, '_'))]} {
		for _, m := range metrics {
			if m.Name == name {
				return m, true
			}
		}
	}
	return Metric{}, false
}

// HelpOf is the help of a metric of the table, for the pages that show it.
func HelpOf(name string) string {
	for _, m := range metrics {
		if m.Name == name {
			return m.Help
		}
	}
	return ""
}
