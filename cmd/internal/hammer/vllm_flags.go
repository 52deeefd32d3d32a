package hammer

import (
	"strings"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

// disposition is what becomes of one of vLLM's flags.
type disposition string

const (
	honoured disposition = "honoured"
	noted    disposition = "noted"   // accepted; a note says that it has no effect here
	refused  disposition = "refused" // an error that gives the reason
)

// vllmFlag is one flag of `vllm bench serve`.
type vllmFlag struct {
	name        string
	disposition disposition
	takes       string // "" a switch, "1" a word, "+" several words
	why         string // one sentence for the docs, the note or the error
}

const (
	noTokenizer = "No tokenizer is ever loaded: lengths come from the engine's own usage."
	noMultimode = "Only text is sent; images, video and audio are not."
	noHub       = "Nothing is downloaded from a hub; bring a local file with --dataset-name custom."
	noRerank    = "Embedding and reranking are not measured, only generation."
	noTraceName = "The trace's fields must have their usual names; rename them in the file."
)

// vllmFlags is every flag of `vllm bench serve`, in the order of its help.
// docs/vllm.md is made from it, and it registers those that are not honoured.
var vllmFlags = []vllmFlag{
	{"trust-remote-code", noted, "", noTokenizer},
	{"seed", honoured, "1", "Seeds prompts, lengths and arrivals; the same seed gives other prompts than vLLM's does."},
	{"num-prompts", honoured, "1", "Default 1000 as there, unless --duration ends the load; with --sweep, --batch and scenarios it ends each stage."},
	{"dataset-name", honoured, "1", "random, sharegpt, custom, and timed_trace as a replay; the other names are refused, each with its reason."},
	{"no-stream", noted, "", "It is about how a hub's dataset is loaded, and none is; answers are always streamed."},
	{"dataset-path", honoured, "1", "A local file; a hub's name is not looked up."},
	{"no-oversample", honoured, "", "A dataset that is too short is not repeated."},
	{"skip-chat-template", noted, "", "No chat template is ever rendered here: that is the engine's work."},
	{"enable-multimodal-chat", noted, "", "The chat backends make messages of the prompts by themselves."},
	{"disable-shuffle", honoured, "", "The dataset is taken in its file's order."},
	{"label", honoured, "1", "Kept in the run and in the result, and the beginning of the result's file name."},
	{"backend", honoured, "1", "vllm, openai, openai-chat, and ours: ollama, ollama-chat; the others are refused by name."},
	{"base-url", honoured, "1", "As there; without it, --host and --port, an engine is looked for on the usual local ports."},
	{"host", honoured, "1", "Default 127.0.0.1 when --port is given."},
	{"port", honoured, "1", "Default 8000 when --host is given."},
	{"endpoint", honoured, "1", "Default by the backend, where vLLM's is always /v1/completions; one that contradicts the backend is an error."},
	{"header", honoured, "+", "As there; the values are secrets and only the names are recorded."},
	{"max-concurrency", honoured, "1", "With an infinite rate it is a closed loop, else a cap; with --saturate and --find-max the highest to try; 0 is an error."},
	{"model", honoured, "1", "As there; without it the first model that the engine lists."},
	{"input-len", honoured, "1", "Sets --random-input-len, over it."},
	{"output-len", honoured, "1", "Sets the output length of every kind of data, over their own flags."},
	{"tokenizer", noted, "1", noTokenizer},
	{"tokenizer-mode", noted, "1", noTokenizer},
	{"use-beam-search", noted, "", "vLLM accepts it and does not read it either."},
	{"logprobs", honoured, "1", "Sent by the completions endpoint only, as there."},
	{"request-rate", honoured, "1", "Default inf; arrivals are scaled to end at num-prompts ÷ rate exactly, as there."},
	{"burstiness", honoured, "1", "Shape of the gamma distribution, default 1 (Poisson); inf gives constant gaps."},
	{"probe-request-rate", refused, "1", "Probes beside the load are not made; run a second hammer at concurrency 1 beside this one."},
	{"disable-tqdm", honoured, "", "No progress is shown."},
	{"num-warmups", honoured, "1", "Sent before the load, recorded and not judged; vLLM does not record them."},
	{"profile", refused, "", "Here --profile NAME is a workload (small_model, …); the engine's profiler is started with a POST to /start_profile."},
	{"save-result", honoured, "", "Writes vLLM's result file beside our run directory."},
	{"save-detailed", honoured, "", "Keeps the arrays by request in that file, and the answers' text in the run."},
	{"append-result", honoured, "", "Adds the result to the file as one more line."},
	{"metadata", honoured, "+", "Kept in the run, and top-level keys of the result."},
	{"result-dir", honoured, "1", "As there; the directory is made."},
	{"result-filename", honoured, "1", "As there."},
	{"ignore-eos", honoured, "", "Implied by random data and by traces, on every backend; --ignore-eos=false takes it back."},
	{"self-timed", honoured, "", "With timed_trace, where it is the only way."},
	{"no-self-timed", refused, "", "A trace is replayed at its own times; for its lengths alone write them to a dataset."},
	{"percentile-metrics", honoured, "1", "Which of ttft, tpot, itl, e2el the result file has; our own summary has all."},
	{"metric-percentiles", honoured, "1", "Levels of the result file, default 99; our own summary has them besides 50, 90, 95, 99."},
	{"goodput", honoured, "+", "As there, in milliseconds; tpot, ttft and e2el by our definitions in our summary, by vLLM's in its file."},
	{"request-id-prefix", honoured, "1", "As there; the default is made from the run's id."},
	{"served-model-name", honoured, "1", "The name that is sent, also without --model."},
	{"lora-modules", honoured, "+", "One adapter: its name is sent as the model; several in one run are refused."},
	{"lora-assignment", noted, "1", "There is one adapter at most, so nothing to assign."},
	{"ramp-up-strategy", honoured, "1", "linear or exponential; an error together with a finite --request-rate, as there."},
	{"ramp-up-start-rps", honoured, "1", "As there; need not be whole."},
	{"ramp-up-end-rps", honoured, "1", "As there; need not be whole."},
	{"ready-check-timeout-sec", honoured, "1", "Waits this long for the engine to answer."},
	{"chat-template-kwargs", refused, "1", `Templates are the engine's work; send it with --extra-body '{"chat_template_kwargs": {…}}'.`},
	{"extra-body", honoured, "1", "As there, dotted names too (--extra-body.a.b 1); \"+\" for list items is not."},
	{"skip-tokenizer-init", noted, "", noTokenizer + " All times are reported all the same."},
	{"insecure", honoured, "", "TLS certificates are not verified."},
	{"plot-timeline", noted, "", "Drawing is `assay report`'s work, from the run directory."},
	{"timeline-itl-thresholds", noted, "1", "Drawing is `assay report`'s work, from the run directory."},
	{"plot-dataset-stats", noted, "", "Drawing is `assay report`'s work, from the run directory."},

	{"top-p", honoured, "1", "Sent when given."},
	{"top-k", honoured, "1", "Sent when given."},
	{"min-p", honoured, "1", "Sent when given."},
	{"temperature", honoured, "1", "Sent when given."},
	{"frequency-penalty", honoured, "1", "Sent when given."},
	{"presence-penalty", honoured, "1", "Sent when given."},
	{"repetition-penalty", honoured, "1", "Sent when given; vLLM's completions backend sends 1.0 without being asked."},

	{"custom-output-len", honoured, "1", "Default 256; -1 takes output_tokens of each row."},
	{"custom-ensure-client-side-data", refused, "", noMultimode},
	{"spec-bench-output-len", refused, "1", noHub},
	{"spec-bench-category", refused, "1", noHub},
	{"sonnet-input-len", refused, "1", "The sonnet data is not here; use --random-input-len."},
	{"sonnet-output-len", refused, "1", "The sonnet data is not here; use --random-output-len."},
	{"sonnet-prefix-len", refused, "1", "The sonnet data is not here; use --random-prefix-len."},
	{"sharegpt-output-len", honoured, "1", "A fixed output length instead of that of the data."},
	{"timed-trace-chunk-hash-size", honoured, "1", "Tokens that one of `hash_ids` names: 16 as there, and 512, as in Mooncake's traces, with --replay."},
	{"timed-trace-sec-multiplier", honoured, "1", "Must be 0.001: timestamps are milliseconds, as in Mooncake's traces."},
	{"timed-trace-label-timestamp", refused, "1", noTraceName},
	{"timed-trace-label-input-length", refused, "1", noTraceName},
	{"timed-trace-label-output-length", refused, "1", noTraceName},
	{"timed-trace-label-hash-ids", refused, "1", noTraceName},
	{"blazedit-min-distance", refused, "1", noHub},
	{"blazedit-max-distance", refused, "1", noHub},
	{"asr-max-audio-len-sec", refused, "1", noMultimode},
	{"asr-min-audio-len-sec", refused, "1", noMultimode},
	{"random-input-len", honoured, "1", "Default 1024 with vLLM's load flags, 256 otherwise; reached by the engine's own count, within a few tokens."},
	{"random-output-len", honoured, "1", "Default 128 with vLLM's load flags, 64 otherwise."},
	{"random-range-ratio", honoured, "1", "A number for both, or {\"input\": r, \"output\": r}."},
	{"random-prefix-len", honoured, "1", "Shared by all prompts, on top of the input length."},
	{"random-batch-size", honoured, "1", "1 only: more is for embeddings; several prompts in a request are --batch N --batch-mode request."},
	{"no-reranker", refused, "", noRerank},
	{"random-mm-base-items-per-request", refused, "1", noMultimode},
	{"random-mm-num-mm-items-range-ratio", refused, "1", noMultimode},
	{"random-mm-limit-mm-per-prompt", refused, "1", noMultimode},
	{"random-mm-bucket-config", refused, "1", noMultimode},
	{"hf-subset", refused, "1", noHub},
	{"hf-split", refused, "1", noHub},
	{"hf-name", refused, "1", noHub},
	{"hf-output-len", refused, "1", noHub},
	{"bfcl-categories", refused, "1", noHub},
	{"prefix-repetition-prefix-len", refused, "1", "One shared prefix is --random-prefix-len; several in one run are not made."},
	{"prefix-repetition-suffix-len", refused, "1", "The part that is not shared is --random-input-len."},
	{"prefix-repetition-num-prefixes", refused, "1", "One shared prefix is --random-prefix-len; several in one run are not made."},
	{"prefix-repetition-output-len", refused, "1", "Use --random-output-len."},
	{"speed-bench-dataset-subset", refused, "1", noHub},
	{"speed-bench-output-len", refused, "1", noHub},
	{"speed-bench-category", refused, "1", noHub},
}

// datasetRefusals says why a dataset of vLLM's is not here.
var datasetRefusals = map[string]string{
	"burstgpt":          "BurstGPT's trace is replayed instead: --replay FILE",
	"sonnet":            "use --dataset-name random with --random-prefix-len",
	"random-mm":         "only text is sent; images and video are not",
	"random-rerank":     "reranking is not measured, only generation",
	"hf":                "nothing is downloaded from a hub; bring a local file with --dataset-name custom",
	"custom_audio":      "only text is sent",
	"custom_image":      "only text is sent",
	"prefix_repetition": "use --dataset-name random with --random-prefix-len, which shares one prefix among all prompts",
	"spec_bench":        "nothing is downloaded from a hub; bring a local file with --dataset-name custom",
	"speed_bench":       "nothing is downloaded from a hub; bring a local file with --dataset-name custom",
}

// backendRefusals says why a backend of vLLM's is not here.
var backendRefusals = map[string]string{
	"openai-audio":              "only text is sent",
	"openai-embeddings":         noEmbeddings,
	"openai-embeddings-chat":    noEmbeddings,
	"openai-embeddings-clip":    noEmbeddings,
	"openai-embeddings-vlm2vec": noEmbeddings,
	"infinity-embeddings":       noEmbeddings,
	"infinity-embeddings-clip":  noEmbeddings,
	"vllm-pooling":              noEmbeddings,
	"vllm-rerank":               noEmbeddings,
}

const noEmbeddings = "embedding, pooling and reranking are not measured, only generation"

// severalWords are the flags that take several words.
func severalWords() map[string]bool {
	m := map[string]bool{}
	for _, f := range vllmFlags {
		if f.takes == "+" {
			m[f.name] = true
		}
	}
	return m
}

// Words makes vLLM's ways to write a command line into pflag's. Only what
// follows the word hammer is touched: args are the whole process's.
func Words(args []string) []string {
	for i, word := range args {
		switch {
		case word == "hammer":
			head := append([]string{}, args[:i+1]...)
			return append(head, cli.Words(cli.Dotted(args[i+1:], map[string]bool{"extra-body": true}), severalWords())...)
		case !strings.HasPrefix(word, "-"):
			return args // another command
		}
	}
	return args
}
