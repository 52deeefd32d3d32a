package hammer

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
)

var updateHammer = flag.Bool("update-hammer", false, "rewrite the golden files of the flags and docs/vllm.md's table")

// resolve goes the whole way of a command line, without the process around it.
func resolve(args []string, env map[string]string) (hammer.Config, hammerOutputs, []string, error) {
	set := pflag.NewFlagSet("hammer", pflag.ContinueOnError)
	var f hammerFlags
	f.register(set)
	if err := set.Parse(Words(append([]string{"hammer"}, args...))[1:]); err != nil {
		return hammer.Config{}, hammerOutputs{}, nil, err
	}
	if set.NArg() > 0 {
		return hammer.Config{}, hammerOutputs{}, nil, fmt.Errorf("unexpected words %q", set.Args())
	}
	return f.config(set, func(k string) string { return env[k] }, func(name string) ([]byte, error) {
		return os.ReadFile(filepath.Join("testdata", name))
	})
}

func hammerGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateHammer {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no %s yet; run with -update-hammer", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestHammerDryRun holds the resolved configuration of whole command lines.
func TestHammerDryRun(t *testing.T) {
	tests := []struct {
		name string
		args []string
	}{
		{"nothing", nil},
		{"target-only", []string{"--base-url", "http://gpu:8000/v1/", "--model", "m", "--backend", "openai-chat", "--out", "d", "--quiet"}},
		{"profile", []string{"--profile", "small_model"}},
		{"vllm-plain", strings.Fields("--backend vllm --model m --num-prompts 200 --request-rate 10 --save-result --tokenizer t --host gpu")},
		{"vllm-full", append(strings.Fields("--backend openai-chat --endpoint /v1/chat/completions --base_url http://gpu:8000 --model org/m --served-model-name served --max_concurrency=64"+
			" --num-prompts 500 --random-input-len 512 --random-output-len=64 --random-prefix-len 16 --num-warmups 4 --temperature 0 --top-p 0.9 --top-k 5 --min-p 0.1"+
			" --frequency-penalty 0.1 --presence-penalty 0.2 --repetition-penalty 1.1 --goodput ttft:200 tpot:50 e2el:5000 --percentile-metrics ttft,e2el --metric-percentiles 50,99.9"+
			" --header X-A=b Authorization=secret --metadata v=1 tp=2=3 --seed 7 --save-result --save-detailed --append-result --result-dir out --result-filename r.json"+
			" --label l --ready-check-timeout-sec 5 --request-id-prefix p- --insecure --disable-tqdm --trust-remote-code --extra-body.a.b 1 --extra-body.c x"),
			"--random-range-ratio", `{"input": 0.1, "output": 0.2}`, "--extra-body", `{"min_tokens": 9007199254740993}`)},
		{"vllm-inf", strings.Fields("--num-prompts 100")},
		{"vllm-constant-duration", strings.Fields("--request-rate 5 --burstiness inf --duration 30s --max-concurrency 8")},
		{"vllm-ramp", strings.Fields("--ramp-up-strategy exponential --ramp-up-start-rps 1 --ramp-up-end-rps 20 --num-prompts 300")},
		{"vllm-sharegpt", strings.Fields("--dataset-name sharegpt --dataset-path s.json --sharegpt-output-len 32 --disable-shuffle --no-oversample --max-concurrency 4")},
		{"vllm-custom", strings.Fields("--dataset-name custom --dataset-path c.jsonl --custom-output-len -1 --request-rate 2")},
		{"vllm-timed-trace", strings.Fields("--dataset-name timed_trace --dataset-path t.jsonl --timed-trace-sec-multiplier 0.001 --self-timed --num-prompts 50")},
		{"sweep", strings.Fields("--sweep 1,2,4,8 --duration 10s --input-len 128 --output-len 32 --num-runs 3")},
		{"sweep-rate", strings.Fields("--sweep rate:0.5,1,2 --num-prompts 40 --max-concurrency 16")},
		{"saturate", strings.Fields("--saturate --max-concurrency 128")},
		{"find-max", strings.Fields("--find-max rate --slo ttft_p99<200ms,error_rate<1% --slo tpot_p50<20ms --duration 5s")},
		{"sustain", strings.Fields("--sustain 0.8 --ignore-eos=false --grace 5s --timeout-gap 2s --connection fresh --user-clock --keep-text")},
		{"batch", strings.Fields("--batch 1,4,8 --batch-mode request --backend openai")},
		{"replay", strings.Fields("--replay t.csv --max-concurrency 32 --duration 1m")},
		{"scenario-scaled", strings.Fields("--scenario baseline_capacity --duration 30s --max-concurrency 4")},
		{"seed-file", strings.Fields("--config hammer_seed.yaml --profile medium_model --scenario sustained_load --duration 100s")},
		{"own-file", strings.Fields("--config hammer_own.yaml --export vllm=x.json --format json")},
		{"sequential-file", strings.Fields("--config hammer_patterns.yaml --scenario one_by_one")},
		{"sequential-duration", strings.Fields("--config hammer_patterns.yaml --scenario five_minutes --duration 20s")},
		{"saturation-file", strings.Fields("--config hammer_patterns.yaml --scenario cliff --max-concurrency 32")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, out, notes, err := resolve(tt.args, map[string]string{"OPENAI_API_KEY": "sk-secret"})
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			fmt.Fprintf(&b, "$ assay hammer %s\n", strings.Join(tt.args, " "))
			for _, n := range notes {
				fmt.Fprintf(&b, "note: %s\n", n)
			}
			var config bytes.Buffer
			if err := writeConfig(&config, c); err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"sk-secret", `"secret"`, "=secret"} {
				if strings.Contains(config.String(), secret) {
					t.Errorf("the configuration shows %s", secret)
				}
			}
			b.Write(config.Bytes())
			o, err := json.MarshalIndent(out, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(o, '\n'))
			hammerGolden(t, "hammer_"+tt.name+".golden", b.Bytes())
		})
	}
}

// TestHammerErrors holds that each wrong command line says what to do next.
func TestHammerErrors(t *testing.T) {
	tests := []struct{ args, want string }{
		{"--sweep 1,2 --saturate", "--sweep and --saturate exclude each other"},
		{"--config hammer_patterns.yaml --scenario one_by_one --max-concurrency 4", "one stream"},
		{"--config hammer_patterns.yaml --scenario cliff --num-prompts 5", "timed by --duration"},
		{"--config hammer_badsize.yaml", "profile chat: model_size \"huge\" is not a number of parameters; write 7B"},
		{"--scenario quick --batch 1", "exclude each other"},
		{"--replay f --dataset-name timed_trace", "exclude each other"},
		{"--sweep 1,x", "for example 1,2,4"},
		{"--sweep 0", "at least 1"},
		{"--sweep rate:0,1", "requests a second"},
		{"--sweep 1 --max-concurrency 4", "leave it out"},
		{"--sweep 1 --request-rate 4", "leave it out"},
		{"--batch 1 --batch-mode both", "parallel or request"},
		{"--batch 1 --batch-mode request --backend openai-chat", "--backend openai"},
		{"--batch-mode request", "goes with --batch"},
		{"--find-max rate", `--slo "ttft_p99<200ms"`},
		{"--find-max speed --slo ttft_p99<1s", "rate or concurrency"},
		{"--find-max rate --slo ttft<1s", "for example ttft_p99<200ms"},
		{"--saturate --num-prompts 5", "--duration"},
		{"--sustain 1.5", "(0,1]"},
		{"--sustain 0.5 --duration 0s", "more than 0"},
		{"--dataset-name timed_trace --dataset-path f", "--timed-trace-sec-multiplier 0.001"},
		{"--dataset-name timed_trace --timed-trace-sec-multiplier 0.001", "needs --dataset-path"},
		{"--self-timed", "only with --dataset-name timed_trace"},
		{"--no-self-timed", "--no-self-timed is not supported"},
		{"--dataset-name hf", "--dataset-name custom"},
		{"--dataset-name nothing", "known are random"},
		{"--dataset-name custom", "needs --dataset-path"},
		{"--dataset-name random --dataset-path f", "--dataset-path does not go with random data"},
		{"--dataset-name custom --dataset-path f --profile small_model", "leave one out"},
		{"--backend vllm-rerank", "use openai"},
		{"--backend tgi", "known are openai"},
		{"--backend openai-chat --endpoint /v1/completions", "leave out --endpoint"},
		{"--backend vllm --endpoint /v1/chat/completions", "use --backend openai-chat"},
		{"--endpoint v1/completions", "begins with /"},
		{"--base-url ftp://gpu:8000", "write http://HOST:PORT"},
		{"--duration soon", "a number of seconds"},
		{"--again d --resume d", "leave one out"},
		{"--again no-such-run", "--again: "},
		{"--base-url http://u:p@gpu:8000", "use --header"},
		{"--base-url http://gpu --port 1", "leave out --port"},
		{"--host gpu --port 70000", "between 1 and 65535"},
		{"--header nothing", "write KEY=VALUE"},
		{"--metadata nothing", "write KEY=VALUE"},
		{"--goodput itl:5", "for example ttft:200"},
		{"--goodput --seed 3", "for example ttft:200"},
		{"--profile --save-result", "POST to /start_profile"},
		{"--profile tiny", "known are small_model"},
		{"--scenario tiny", "known are quick"},
		{"--lora-modules a b", "run once for each of a b"},
		{"--probe-request-rate 1", "second hammer"},
		{"--hf-subset x --random_mm_base_items_per_request 2", "--random-mm-base-items-per-request is not supported"},
		{"--no-reranker", "only generation"},
		{"--random-batch-size 4", "--batch-mode request"},
		{"--random-range-ratio 1.5", "[0,1)"},
		{"--random-range-ratio {}", "write a number"},
		{"--max-concurrency 0", "leave it out for no limit"},
		{"--request-rate 0", "inf is no limit"},
		{"--request-rate nan", "inf is no limit"},
		{"--burstiness -1 --request-rate 3", "more than 0"},
		{"--num-prompts 0", "at least 1"},
		{"--input-len 0", "at least 1"},
		{"--duration 5s --dataset-name random", "add --max-concurrency"},
		{"--ramp-up-strategy linear", "needs --ramp-up-start-rps"},
		{"--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 2 --request-rate 3", "leave out --request-rate"},
		{"--ramp-up-end-rps 2", "needs --ramp-up-strategy"},
		{"--ramp-up-strategy steep --ramp-up-start-rps 1 --ramp-up-end-rps 2", "linear, exponential"},
		{"--ramp-up-strategy linear --ramp-up-start-rps 3 --ramp-up-end-rps 2", "must rise"},
		{"--extra-body [1]", "write a JSON object"},
		{"--extra-body {", "not JSON"},
		{"--extra-body.a+ 1", "write JSON"},
		{"--percentile-metrics ttft,x", "known are ttft"},
		{"--percentile-metrics client_queue_time", "ttft_intended_ms"},
		{"--metric-percentiles 101", "for example 50,99,99.9"},
		{"--export csv=f", "known is vllm"},
		{"--export vllm", "vllm=result.json"},
		{"--format xml", "text or json"},
		{"--quiet --verbose", "leave one out"},
		{"--connection slow", "keep or fresh"},
		{"--timeout-gap 0s", "more than 0"},
		{"--seed -1", "not be negative"},
		{"--num-runs 0", "at least 1"},
		{"--out a --resume b", "leave out --out"},
		{"--resume d --num-prompts 5 --model m", "leave out --num-prompts --model"},
		{"--config hammer_none.yaml", "read --config"},
		{"--config hammer_unknown_key.yaml", "[4:5]"},
		{"--config hammer_bad_pattern.yaml", "known are parallel, sequential, batch, saturation, sustained"},
		{"--config hammer_twice.yaml", "rename one"},
		{"--no-such-flag", "unknown flag"},
		{"stray", "unexpected words"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			_, _, _, err := resolve(strings.Fields(tt.args), nil)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
}

func TestHammerErrorsKeepSecrets(t *testing.T) {
	for _, args := range [][]string{
		{"--header", "Bearer hunter2"},
		{"--base-url", "http://me:hunter2@gpu"},
		{"--base-url", "me:hunter2@gpu"},
		{"--header", "A=hunter2\nB: c"},
	} {
		_, _, _, err := resolve(args, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error %v; it must be one, and not repeat the secret", args, err)
		}
	}
}

func TestHammerResume(t *testing.T) {
	c, out, _, err := resolve(strings.Fields("--resume d --header A=b --quiet"), map[string]string{"OPENAI_API_KEY": "k"})
	if err != nil {
		t.Fatal(err)
	}
	if out.Resume != "d" || c.APIKey != "k" || c.Headers["A"] != "b" || c.Load.Mode != "" {
		t.Errorf("resume gives %+v, %+v", c, out)
	}
}

// What a person types without thinking: an address without a scheme, a number of
// seconds.
func TestShortWords(t *testing.T) {
	c, _, _, err := resolve(strings.Fields("--base-url gpu:8000 --sweep 1,2 --duration 5 -f json"), nil)
	if err != nil || c.URL != "http://gpu:8000" || c.Load.Duration != assay.Duration(5*time.Second) {
		t.Errorf("%+v, %v", c, err)
	}
}

// A load in vLLM's words says which of its defaults are vLLM's.
func TestVLLMDefaultsAreTold(t *testing.T) {
	for args, want := range map[string]string{
		"--base-url gpu --request-rate 8":                                                           "openai's completions (--backend), 1024 tokens in (--input-len), 128 tokens out (--output-len)",
		"--base-url gpu --request-rate 8 --backend openai-chat --input-len 8":                       "has its defaults: 128 tokens out (--output-len)",
		"--base-url gpu --request-rate 8 --backend openai --input-len 8 --output-len 8":             "",
		"--base-url gpu --sweep 1,2":                                                                "",
		"--base-url gpu --request-rate 8 --backend vllm --random-input-len 8 --profile large_model": "",
	} {
		_, _, notes, err := resolve(strings.Fields(args), nil)
		if all := strings.Join(notes, "; "); err != nil || strings.Contains(all, "vllm bench serve") != (want != "") || !strings.Contains(all, want) {
			t.Errorf("%s: %q, %v", args, all, err)
		}
	}
}

// A run is made again as it was configured. Its directory says where the engine is, and
// anybody may have written it: a key is sent only to an address that was typed.
func TestHammerAgain(t *testing.T) {
	before, _, _, err := resolve(strings.Fields("--base-url http://gpu:8000 --backend openai --model m --sweep 2,3 --duration 4s --seed 7"), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	w, err := journal.Create(dir, assay.Manifest{Format: assay.RunFormat, ID: "01KA3ZX9V6E5J7M8N9P0Q1R2S3", Created: 1, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	key := map[string]string{"OPENAI_API_KEY": "k"}
	again := func(args ...string) (hammer.Config, []string, error) {
		c, _, notes, err := resolve(append([]string{"--again", dir}, args...), key)
		return c, notes, err
	}
	c, notes, err := again("--out", "new", "--quiet")
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "not sent") || c.APIKey != "" {
		t.Errorf("%q, key %q, %v", notes, c.APIKey, err)
	}
	before.APIKey, c.APIKey = "", ""
	if diff := cmp.Diff(before, c, cmpopts.IgnoreUnexported(hammer.Config{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("another run (-want +got):\n%s", diff)
	}
	c, notes, err = again("--base-url", "other:9", "--label", "second")
	if err != nil || len(notes) != 0 || c.URL != "http://other:9" || c.APIKey != "k" || c.Label != "second" || c.Load.Levels[1] != 3 {
		t.Errorf("%+v, %q, %v", c, notes, err)
	}
	if _, _, err := again("--sweep", "1"); err == nil || !strings.Contains(err.Error(), "leave out --sweep") {
		t.Errorf("%v", err)
	}
}

// TestDefaultIsQuick: with flags that name no load, the load is the default's.
func TestDefaultIsQuick(t *testing.T) {
	for _, args := range []string{"", "--base-url http://a", "--profile large_model", "--backend ollama --model m --seed 4 --num-warmups 2"} {
		c, _, _, err := resolve(strings.Fields(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := hammer.DefaultConfig().Load
		want.Warmups = c.Load.Warmups
		if diff := cmp.Diff(want, c.Load); diff != "" {
			t.Errorf("%q (-want +got):\n%s", args, diff)
		}
	}
}
