package hammer

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/cmd/internal/cli/publish"
)

// hammerFlags are the flags of `assay hammer`. They do nothing but fill a
// hammer.Config and the hammerOutputs beside it; see config.
//
// A value that was not given must stay apart from one that was given as the
// default: config asks the FlagSet which flags were changed.
type hammerFlags struct {
	// Target.
	baseURL, host, backend, endpoint, model, servedModel string
	port                                                 int
	headers, loraModules                                 []string
	insecure                                             bool
	caCert, cert, key                                    string
	connection                                           string
	timeoutConnect, timeoutFirst, timeoutGap             time.Duration
	timeoutTotal                                         time.Duration
	readyCheckSec                                        int
	requestIDs                                           string

	// Load.
	profile, scenario, file          string
	duration, grace                  time.Duration
	numPrompts, maxConcurrency       int
	requestRate, burstiness          float64
	rampStrategy                     string
	rampStart, rampEnd               float64
	warmups, numRuns                 int
	seed                             int64
	userClock, selfTimed             bool
	priority                         string
	goodput                          []string
	sweep, findMax, batch, batchMode string
	saturate                         bool
	sustain                          float64
	replay                           string
	traceMultiplier                  float64
	traceBlock                       int
	slo                              []string

	// Data.
	datasetName, datasetPath        string
	inputLen, outputLen             int
	randomInput, randomOutput       int
	rangeRatio                      string
	prefixLen, randomBatch          int
	customOutput, sharegptOutput    int
	disableShuffle, noOversample    bool
	ignoreEOS                       bool
	temperature, topP, minP         float64
	frequency, presence, repetition float64
	topK, logprobs                  int
	extraBody                       []string
	keepText                        bool

	// Output.
	out, resume, again                     string
	saveResult, saveDetailed, appendResult bool
	resultDir, resultFilename              string
	exports, metadata                      []string
	label                                  string
	allowInvalid, dryRun, quiet, verbose   bool
	helpAll                                bool
	disableTqdm                            bool
	format                                 string
	percentileMetrics, metricPercentiles   string

	// Node health and cost.
	sampleInterval              time.Duration
	dcgm                        string
	metrics                     metricsOutput
	verify                      bool
	checks                      string
	baseline, saveBaseline      string
	price, energyRate, currency string

	// Signature.
	sign    bool
	signKey keys.SignerFlags
	nonce   string

	publish publish.Flags

	// What vLLM's other flags led to, in the order given.
	notes, refusals []string
}

// helpAllFlag asks for the help with every flag.
const helpAllFlag = "help-all"

// groupAnnotation is the annotation that holds a flag's section of the help.
const groupAnnotation = "assay_group"

// The sections of the help, in order.
const (
	groupTarget = "Target"
	groupLoad   = "Load"
	groupSearch = "Searches"
	groupData   = "Data"
	groupHealth = "Node health and cost"
	groupSign   = "Signature"
	groupOutput = "Output"
	groupVLLM   = "vLLM's, accepted without effect"
)

// basicFlags are those that the help shows first, in this order: what most people
// need of more than a hundred.
var basicFlags = []string{
	"base-url", "model", "profile", "scenario", "duration", "max-concurrency", "request-rate", "num-prompts", "input-len", "output-len",
	"sweep", "saturate", "find-max", "slo", "verify", "baseline", "price", "sign", "out", "resume", "again", "format", "quiet", "verbose", "dry-run",
}

// register adds every flag to fs. Names may be written with "_" for "-".
func (f *hammerFlags) register(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cli.Dashed(name))
	})
	fs.SortFlags = false
	inGroup(fs, groupTarget, f.registerTarget)
	inGroup(fs, groupLoad, f.registerLoad)
	inGroup(fs, groupSearch, f.registerSearches)
	inGroup(fs, groupData, f.registerData)
	inGroup(fs, groupHealth, f.registerHealth)
	inGroup(fs, groupSign, f.registerSign)
	inGroup(fs, groupSign, f.publish.Register)
	inGroup(fs, groupOutput, f.registerOutput)
	inGroup(fs, groupVLLM, f.registerVLLM)
}

func (f *hammerFlags) registerTarget(fs *pflag.FlagSet) {
	fs.StringVar(&f.baseURL, "base-url", "", "the engine's `URL`; without it, --host and --port: looked for on the usual local ports")
	fs.StringVar(&f.host, "host", "127.0.0.1", "the engine's host, in place of --base-url")
	fs.IntVar(&f.port, "port", 8000, "the engine's port")
	fs.StringVar(&f.backend, "backend", "", "`protocol`: openai (or vllm), openai-chat, ollama, ollama-chat")
	cli.Values(fs, "backend", "openai", "openai-chat", "ollama", "ollama-chat", "vllm")
	fs.StringVar(&f.endpoint, "endpoint", "", "`path` of the requests; by default the backend's")
	fs.StringVar(&f.model, "model", "", "the model's name; by default the first that the engine lists")
	fs.StringVar(&f.servedModel, "served-model-name", "", "the `name` that is sent, where it differs from --model")
	fs.StringArrayVar(&f.loraModules, "lora-modules", nil, "an adapter's `name`, sent as the model")
	fs.StringArrayVar(&f.headers, "header", nil, "further headers, `KEY=VALUE` …; values are never recorded")
	fs.BoolVar(&f.insecure, "insecure", false, "do not verify TLS certificates")
	fs.StringVar(&f.caCert, "cacert", "", "trust the authorities in this PEM `file`, in place of the system's")
	fs.StringVar(&f.cert, "cert", "", "the client's own certificate, a PEM `file`, for mutual TLS")
	fs.StringVar(&f.key, "key", "", "the key of --cert, a PEM `file` (default: in the same file)")
	fs.StringVar(&f.connection, "connection", "keep", "keep connections between requests, or fresh: one a request")
	cli.Values(fs, "connection", "keep", "fresh")
	cli.SecondsVar(fs, &f.timeoutConnect, "timeout-connect", 10*time.Second, "give up connecting after this (default 6h with vLLM's load flags)")
	cli.SecondsVar(fs, &f.timeoutFirst, "timeout-first-token", 30*time.Minute, "give up waiting for the first token after this; by default as long as --timeout-total")
	cli.SecondsVar(fs, &f.timeoutGap, "timeout-gap", time.Minute, "give up waiting for the next token after this (default 6h with vLLM's load flags)")
	cli.SecondsVar(fs, &f.timeoutTotal, "timeout-total", 30*time.Minute, "give up on a request after this (default 6h with vLLM's load flags, as vLLM does)")
	fs.IntVar(&f.readyCheckSec, "ready-check-timeout-sec", 0, "wait this many `seconds` for the engine to answer; 0: do not wait")
	fs.StringVar(&f.requestIDs, "request-id-prefix", "", "`prefix` of X-Request-Id; by default made from the run's id")
}

func (f *hammerFlags) registerLoad(fs *pflag.FlagSet) {
	fs.StringVar(&f.profile, "profile", "", "a workload by `name`: small_model, medium_model, large_model, or one of --config")
	cli.Values(fs, "profile", "small_model", "medium_model", "large_model")
	fs.StringVar(&f.scenario, "scenario", "", "a load by `name`: quick, baseline_capacity, sustained_load, batch_optimization, or one of --config")
	cli.Values(fs, "scenario", "quick", "baseline_capacity", "sustained_load", "batch_optimization")
	fs.StringVar(&f.file, "config", "", "a YAML `file` with workload_profiles and test_scenarios")
	cli.SecondsVar(fs, &f.duration, "duration", 0, "how long: the whole of a scenario, each level of --sweep and --batch, each step of --saturate and --find-max, the hold of --sustain, else the load")
	fs.IntVar(&f.numPrompts, "num-prompts", 1000, "number of requests; of each stage where there are several")
	fs.Float64Var(&f.requestRate, "request-rate", 0, "requests a second, or inf (the default): all at once or as --max-concurrency allows")
	fs.Lookup("request-rate").DefValue = "inf"
	fs.Float64Var(&f.burstiness, "burstiness", 1, "evenness of arrivals: 1 Poisson, below 1 burstier, inf constant gaps")
	fs.IntVar(&f.maxConcurrency, "max-concurrency", 0, "requests under way at most; with searches the highest to try")
	fs.StringVar(&f.rampStrategy, "ramp-up-strategy", "", "a rising rate: linear or exponential")
	cli.Values(fs, "ramp-up-strategy", "linear", "exponential")
	fs.Float64Var(&f.rampStart, "ramp-up-start-rps", 0, "requests a second at the ramp's start")
	fs.Float64Var(&f.rampEnd, "ramp-up-end-rps", 0, "requests a second at the ramp's end")
	fs.StringVar(&f.sweep, "sweep", "", "one stage for each number of streams, `1,2,4`; or of requests a second, rate:0.5,1,2")
	fs.StringVar(&f.batch, "batch", "", "batches of these sizes, `1,4,8`, each when the one before has ended")
	fs.StringVar(&f.batchMode, "batch-mode", "parallel", "a batch goes out as parallel requests, or in one request")
	cli.Values(fs, "batch-mode", "parallel", "request")
	fs.StringVar(&f.replay, "replay", "", "a trace `file` to replay at its own times")
	fs.IntVar(&f.warmups, "num-warmups", 0, "requests before the load, recorded and not judged")
	fs.IntVar(&f.numRuns, "num-runs", 1, "repeat the whole load this often")
	cli.SecondsVar(fs, &f.grace, "grace", 30*time.Second, "how long requests under way may take at a stage's end; by default as long as --timeout-total where the load ends by count")
	fs.Int64Var(&f.seed, "seed", 0, "seed of prompts, lengths and arrivals")
	fs.StringVar(&f.priority, "priority", "high", "of this client beside an engine on the same machine: high (nice -10 where permitted), normal, or realtime, which could starve the engine")
	cli.Values(fs, "priority", "high", "normal", "realtime")
	fs.BoolVar(&f.userClock, "user-clock", false, "take arrivals by our own clock, not by the kernel's stamps")
}

func (f *hammerFlags) registerSearches(fs *pflag.FlagSet) {
	fs.BoolVar(&f.saturate, "saturate", false, "raise the load until goodput stops rising")
	fs.StringVar(&f.findMax, "find-max", "", "the highest `rate|concurrency` that keeps --slo")
	cli.Values(fs, "find-max", "rate", "concurrency")
	fs.Float64Var(&f.sustain, "sustain", 0, "measure capacity, then hold this `share` of it, for example 0.8, for --duration (default 1m)")
	fs.StringArrayVar(&f.slo, "slo", nil, "what a stage must keep, `OBJECTIVE` such as ttft_p99<200ms or error_rate<1%; several with commas")
	fs.StringArrayVar(&f.goodput, "goodput", nil, "what a request must keep to be good, `NAME:MS` …, for example ttft:200 tpot:50")
}

func (f *hammerFlags) registerData(fs *pflag.FlagSet) {
	fs.StringVar(&f.datasetName, "dataset-name", "random", "random, sharegpt, custom, or timed_trace (a replay)")
	cli.Values(fs, "dataset-name", "random", "sharegpt", "custom", "timed_trace")
	fs.StringVar(&f.datasetPath, "dataset-path", "", "the dataset's local `file`")
	fs.IntVar(&f.inputLen, "input-len", 0, "`tokens` of each prompt (default 256; 1024 with vLLM's load flags)")
	fs.IntVar(&f.outputLen, "output-len", 0, "`tokens` of each answer (default 64; 128 with vLLM's load flags)")
	fs.IntVar(&f.randomInput, "random-input-len", 0, "the same as --input-len, for random data")
	fs.IntVar(&f.randomOutput, "random-output-len", 0, "the same as --output-len, for random data")
	fs.StringVar(&f.rangeRatio, "random-range-ratio", "0", "lengths vary by this `share` to both sides; {\"input\": r, \"output\": r} for each apart")
	fs.IntVar(&f.prefixLen, "random-prefix-len", 0, "`tokens` that all prompts share, on top of their length")
	fs.IntVar(&f.randomBatch, "random-batch-size", 1, "1; see --batch-mode")
	fs.IntVar(&f.customOutput, "custom-output-len", 256, "`tokens` of each answer for custom data; -1: output_tokens of each row")
	fs.IntVar(&f.sharegptOutput, "sharegpt-output-len", 0, "`tokens` of each answer for sharegpt data; by default the data's")
	fs.BoolVar(&f.disableShuffle, "disable-shuffle", false, "take a dataset in its file's order")
	fs.BoolVar(&f.noOversample, "no-oversample", false, "do not repeat a dataset that is too short")
	fs.BoolVar(&f.ignoreEOS, "ignore-eos", false, "make the engine go on to the full length; random data implies it")
	fs.BoolVar(&f.selfTimed, "self-timed", false, "with timed_trace, where it is implied")
	fs.Float64Var(&f.traceMultiplier, "timed-trace-sec-multiplier", 1, "with timed_trace: 0.001, its timestamps are milliseconds")
	fs.IntVar(&f.traceBlock, "timed-trace-chunk-hash-size", 16, "`tokens` that one of a trace's hash_ids names; 512 with --replay")
	fs.Float64Var(&f.temperature, "temperature", 0, "sent when given")
	fs.Float64Var(&f.topP, "top-p", 0, "sent when given")
	fs.IntVar(&f.topK, "top-k", 0, "sent when given")
	fs.Float64Var(&f.minP, "min-p", 0, "sent when given")
	fs.Float64Var(&f.frequency, "frequency-penalty", 0, "sent when given")
	fs.Float64Var(&f.presence, "presence-penalty", 0, "sent when given")
	fs.Float64Var(&f.repetition, "repetition-penalty", 0, "sent when given")
	fs.IntVar(&f.logprobs, "logprobs", 0, "sent when given, by the completions endpoint")
	fs.StringArrayVar(&f.extraBody, "extra-body", nil, "a `JSON` object merged into every request's body; --extra-body.a.b 1 sets one value")
}

func (f *hammerFlags) registerOutput(fs *pflag.FlagSet) {
	fs.StringVar(&f.out, "out", "", "the run `directory` to make; by default a new one under runs")
	fs.StringVar(&f.resume, "resume", "", "go on with the run in this `directory`, as it was configured")
	fs.StringVar(&f.again, "again", "", "make the run in this `directory` once more, as it was configured; with --base-url against another engine")
	fs.StringVar(&f.label, "label", "", "a `name` for the run, kept with it")
	fs.StringArrayVar(&f.metadata, "metadata", nil, "kept with the run, `KEY=VALUE` …")
	fs.BoolVar(&f.keepText, "keep-text", false, "keep the answers' text")
	fs.StringArrayVar(&f.exports, "export", nil, "also write another tool's format, `vllm=FILE`")
	fs.BoolVar(&f.saveResult, "save-result", false, "write vLLM's result file")
	fs.BoolVar(&f.saveDetailed, "save-detailed", false, "with the arrays by request in it")
	fs.BoolVar(&f.appendResult, "append-result", false, "add to the result file as one more line")
	fs.StringVar(&f.resultDir, "result-dir", "", "`directory` of the result file")
	fs.StringVar(&f.resultFilename, "result-filename", "", "`name` of the result file; by default made as vLLM does")
	fs.StringVar(&f.percentileMetrics, "percentile-metrics", "ttft,tpot,itl", "metrics in the result file, of ttft, tpot, itl, e2el")
	fs.StringVar(&f.metricPercentiles, "metric-percentiles", "99", "percentiles in the result file, and in our summary besides 50, 90, 95, 99")
	fs.BoolVar(&f.allowInvalid, "allow-invalid", false, "do not fail when the client was the bottleneck")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the resolved configuration and stop")
	cli.FormatFlag(fs, &f.format, "of what is printed at the end: text or json", "text", "json")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print the result only")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "say more about what is done")
	fs.BoolVar(&f.helpAll, helpAllFlag, false, "print the help with every flag, by section")
	fs.BoolVar(&f.disableTqdm, "disable-tqdm", false, "show no progress")
}

// registerVLLM adds those flags of vLLM's that do not exist here, so that they
// are recognised by name: each leaves its note or its refusal.
func (f *hammerFlags) registerVLLM(fs *pflag.FlagSet) {
	for _, v := range vllmFlags {
		if v.disposition == honoured || fs.Lookup(v.name) != nil {
			continue
		}
		flag := fs.VarPF(&vllmValue{f, v}, v.name, "", strings.ReplaceAll(v.why, "`", ""))
		if v.takes == "" {
			flag.NoOptDefVal = "true"
		}
		flag.Hidden = v.disposition == refused
	}
}

// vllmValue receives a flag that has no effect here.
type vllmValue struct {
	flags *hammerFlags
	flag  vllmFlag
}

func (v *vllmValue) String() string { return "" }

func (v *vllmValue) Type() string {
	if v.flag.takes == "" {
		return "bool"
	}
	return "string"
}

func (v *vllmValue) Set(value string) error {
	if v.flag.takes == "" && value == "false" {
		return nil
	}
	if v.flag.disposition == refused {
		v.flags.refusals = append(v.flags.refusals, fmt.Sprintf("--%s is not supported. %s", v.flag.name, v.flag.why))
	} else {
		v.flags.notes = append(v.flags.notes, fmt.Sprintf("--%s has no effect here. %s", v.flag.name, v.flag.why))
	}
	return nil
}

// inGroup marks all flags that add registers as one section of the help.
func inGroup(fs *pflag.FlagSet, group string, add func(*pflag.FlagSet)) {
	before := map[string]bool{}
	fs.VisitAll(func(fl *pflag.Flag) { before[fl.Name] = true })
	add(fs)
	fs.VisitAll(func(fl *pflag.Flag) {
		if !before[fl.Name] {
			_ = fs.SetAnnotation(fl.Name, groupAnnotation, []string{group}) // it exists: we are visiting it
		}
	})
}

// basicUsage is the help's list of the flags that most people need, and how to see
// the others.
func basicUsage(fs *pflag.FlagSet) string {
	basic := pflag.NewFlagSet("basic", pflag.ContinueOnError)
	basic.SortFlags = false
	for _, name := range basicFlags {
		basic.AddFlag(fs.Lookup(name))
	}
	more := 0
	fs.VisitAll(func(fl *pflag.Flag) {
		if !fl.Hidden && basic.Lookup(fl.Name) == nil {
			more++
		}
	})
	return fmt.Sprintf("Flags:\n%s\n%d more flags, by section: assay hammer --%s\n", basic.FlagUsages(), more, helpAllFlag)
}

// hammerUsage is the help's list of all flags, by section. Flags of no section,
// cobra's own, come last.
func hammerUsage(fs *pflag.FlagSet) string {
	var b strings.Builder
	for _, group := range []string{groupTarget, groupLoad, groupSearch, groupData, groupHealth, groupSign, groupOutput, groupVLLM, "Other"} {
		section := pflag.NewFlagSet(group, pflag.ContinueOnError)
		section.SortFlags = false
		fs.VisitAll(func(fl *pflag.Flag) {
			of := "Other"
			if a := fl.Annotations[groupAnnotation]; len(a) == 1 {
				of = a[0]
			}
			if of == group {
				section.AddFlag(fl)
			}
		})
		if section.HasAvailableFlags() {
			fmt.Fprintf(&b, "%s:\n%s\n", group, section.FlagUsages())
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
