package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
)

var update = flag.Bool("update", false, "rewrite the generated files of testdata")

var manifest = assay.Manifest{Engine: assay.Engine{Backend: "openai-chat", Model: "org/tiny"}}

func seq(list []*assay.Request) iter.Seq2[*assay.Request, error] {
	return func(yield func(*assay.Request, error) bool) {
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func write(t *testing.T, opts VLLMOptions, list []*assay.Request) (string, map[string]any) {
	t.Helper()
	var b bytes.Buffer
	if err := VLLM(&b, manifest, opts, seq(list)); err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b.Bytes(), &m); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	return b.String(), m
}

// invented makes requests with everything in them that a rule speaks of: role,
// empty, finish and usage chunks, merged reads, several tokens a chunk, single
// tokens, failures of each kind, warm-ups, two stages, out of order.
func invented() []*assay.Request {
	rnd := rand.New(rand.NewPCG(3, 9))
	const t0 = int64(1_790_000_000_123_456_789)
	var list []*assay.Request
	for i := range 120 {
		r := &assay.Request{ID: fmt.Sprintf("r-%03d", i), Stage: "main", Prompt: i, AskedInput: 64, InputTokens: 60 + rnd.IntN(9)}
		r.Warmup = i < 5
		if i%17 == 3 {
			r.Stage = "other"
		}
		r.Scheduled = t0 + int64(i)*73_111_003 + rnd.Int64N(50_000_000)
		r.Sent = r.Scheduled + rnd.Int64N(30_000_000)
		r.First = r.Sent + 40_000_000 + rnd.Int64N(300_000_000)
		tokens := 1 + rnd.IntN(40)
		for range tokens - 1 {
			us := 5_000 + rnd.Int32N(40_000)
			switch rnd.IntN(12) {
			case 0:
				us = assay.MarkGap(us)
			case 1:
				us = 0
			}
			r.Gaps = append(r.Gaps, us)
		}
		r.Last = r.First
		for _, g := range r.Gaps {
			us, _ := assay.Gap(g)
			r.Last += int64(us) * 1000
		}
		since := func(ns int64) int32 { return int32((ns - r.Sent) / 1000) }
		r.Other, r.OtherUS = "r", []int32{since(r.First) - 1 - rnd.Int32N(900)}
		if i%5 == 0 {
			r.Other, r.OtherUS = r.Other+"e", append(r.OtherUS, since((r.First+r.Last)/2))
		}
		r.Other, r.OtherUS = r.Other+"fud", append(r.OtherUS, since(r.Last)+rnd.Int32N(3_000), since(r.Last)+5_000, since(r.Last)+5_100)
		r.End = r.Last + 5_300_000
		r.OutputTokens, r.TokensFrom = tokens, "usage"
		r.Text = fmt.Sprintf("answer %d „ü“ 🙂", i)
		switch {
		case i%10 == 4:
			r.OutputTokens *= 2 // two tokens a chunk
		case i%29 == 6:
			r.InputTokens, r.OutputTokens = 0, 0 // an engine without usage
		case i%13 == 8:
			r.Error, r.Detail = assay.FailTruncated, "no end of the stream"
		case i == 50:
			r.Error, r.Detail, r.Status = assay.FailHTTP5xx, "HTTP 503 „busy“", 503
			r.First, r.Last, r.Gaps, r.Other, r.OtherUS, r.Text = 0, 0, nil, "", nil, ""
			r.InputTokens, r.OutputTokens = 0, 0
		case i == 119:
			*r = assay.Request{ID: r.ID, Stage: r.Stage, Prompt: i, AskedInput: 64, Scheduled: r.Scheduled, Error: assay.FailNeverSent}
		}
		list = append(list, r)
	}
	rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

var inventedOptions = VLLMOptions{
	Label: "try", Date: time.Date(2026, 8, 22, 15, 45, 9, 0, time.UTC),
	NumPrompts: 120, RequestRate: 13.5, Burstiness: 1, MaxConcurrency: 64,
	Metadata: [][2]string{{"version", "0.1"}, {"gpu", "none „here“"}},
	Metrics:  []string{"e2el", "ttft", "tpot", "itl"}, Percentiles: []float64{50, 90, 99, 99.9},
	Goodput:  []assay.Limit{{Metric: "ttft", MaxMS: 250}, {Metric: "tpot", MaxMS: 24.5}, {Metric: "e2el", MaxMS: 900}},
	Detailed: true, Stages: []string{"main"},
}

func testdata(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update && got != nil {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAgainstIndependent compares our numbers with those of a Python program
// that was written from the same description, by another route.
func TestAgainstIndependent(t *testing.T) {
	var lines bytes.Buffer
	for _, r := range invented() {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(b, '\n'))
	}
	if *update {
		testdata(t, "requests.jsonl", lines.Bytes())
		o := inventedOptions
		goodput := map[string]float64{}
		for _, l := range o.Goodput {
			goodput[l.Metric] = l.MaxMS
		}
		b, err := json.MarshalIndent(map[string]any{"stages": o.Stages, "metrics": o.Metrics, "percentiles": o.Percentiles, "goodput": goodput}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		testdata(t, "options.json", append(b, '\n'))
	}
	// The committed lines are the fixture, so that later versions read them.
	var list []*assay.Request
	for line := range bytes.Lines(testdata(t, "requests.jsonl", nil)) {
		r := new(assay.Request)
		if err := json.Unmarshal(line, r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}

	independent := runPython(t)
	if *update {
		if independent == nil {
			t.Fatal("python3 is needed to update independent.golden.json")
		}
		testdata(t, "independent.golden.json", independent)
	}
	golden := testdata(t, "independent.golden.json", nil)
	if independent != nil && !bytes.Equal(independent, golden) {
		t.Error("independent.py no longer gives independent.golden.json; run with -update if that is meant")
	}
	var want map[string]any
	if err := json.Unmarshal(golden, &want); err != nil {
		t.Fatal(err)
	}

	text, got := write(t, inventedOptions, list)
	validate(t, text)
	for key, value := range want {
		if diff := cmp.Diff(value, got[key], cmpopts.EquateApprox(1e-11, 1e-12)); diff != "" {
			t.Errorf("%s (-independent +ours):\n%s", key, diff)
		}
	}
	// And nothing that the other one does not have, but what was asked.
	asked := strings.Fields("date endpoint_type backend label model_id tokenizer_id num_prompts version gpu request_rate burstiness max_concurrency")
	for key := range got {
		if _, ok := want[key]; !ok && !slices.Contains(asked, key) {
			t.Errorf("%s is in our file only", key)
		}
	}
	if diff := cmp.Diff(string(testdata(t, "detailed.golden.json", []byte(text))), text); diff != "" {
		t.Errorf("detailed.golden.json (-want +got):\n%s", diff)
	}
}

func runPython(t *testing.T) []byte {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Logf("independent.py was not run, its committed output is used: %v", err)
		return nil
	}
	cmd := exec.Command(python, "testdata/independent.py", "testdata/requests.jsonl", "testdata/options.json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run independent.py: %v", err)
	}
	return out
}

func validate(t *testing.T, text string) {
	t.Helper()
	if err := valid(text); err != nil {
		t.Errorf("not by the schema: %v", err)
	}
}

func valid(text string) error {
	s, err := jsonschema.NewCompiler().Compile("../../docs/formats/schema/vllm-result.schema.json")
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// TestAgainstExample rebuilds requests from the arrays of an example of vLLM's
// layout, and wants the example's own figures back, in its order of keys.
func TestAgainstExample(t *testing.T) {
	text := string(testdata(t, "example.json", nil))
	var ex struct {
		InputLens  []int       `json:"input_lens"`
		OutputLens []int       `json:"output_lens"`
		TTFTs      []float64   `json:"ttfts"`
		ITLs       [][]float64 `json:"itls"`
		Starts     []float64   `json:"start_times"`
		Texts      []string    `json:"generated_texts"`
		Errors     []string    `json:"errors"`
	}
	if err := json.Unmarshal([]byte(text), &ex); err != nil {
		t.Fatal(err)
	}
	var list []*assay.Request
	for i := range ex.Starts {
		r := &assay.Request{
			ID: fmt.Sprint(i), Stage: "s", Sent: int64(ex.Starts[i] * 1e9), InputTokens: ex.InputLens[i],
			OutputTokens: ex.OutputLens[i], Text: ex.Texts[i], Error: assay.Failure(ex.Errors[i]),
		}
		if ex.TTFTs[i] > 0 {
			r.First = r.Sent + int64(ex.TTFTs[i]*1e9)
		}
		for _, s := range ex.ITLs[i] {
			r.Gaps = append(r.Gaps, int32(s*1e6))
		}
		list = append(list, r)
	}
	got, _ := write(t, VLLMOptions{
		Backend: "openai", ModelID: "example/tiny-model", Date: time.Date(2026, 8, 22, 15, 45, 9, 0, time.UTC),
		NumPrompts: 4, RequestRate: 2, MaxConcurrency: 8, Metadata: [][2]string{{"version", "0.28.0"}, {"tp", "1"}},
		Metrics: []string{"ttft", "tpot", "itl", "e2el"}, Percentiles: []float64{50, 99, 99.9},
		Goodput:  []assay.Limit{{Metric: "ttft", MaxMS: 200}, {Metric: "e2el", MaxMS: 1000}},
		Detailed: true, Start: 1000_500_000_000, End: 1002_500_000_000,
	}, list)
	validate(t, got)
	validate(t, text)

	wantKeys := keysOf(t, text)
	gotKeys := slices.DeleteFunc(keysOf(t, got), func(k string) bool { return k == "latencies" })
	if diff := cmp.Diff(wantKeys, gotKeys); diff != "" {
		t.Errorf("keys (-example +ours):\n%s", diff)
	}
	var a, b map[string]any
	if err := errors.Join(json.Unmarshal([]byte(text), &a), json.Unmarshal([]byte(got), &b)); err != nil {
		t.Fatal(err)
	}
	// Ours begins at 0, and no tokenizer was loaded.
	for _, m := range []map[string]any{a, b} {
		delete(m, "tokenizer_id")
		delete(m, "latencies")
		starts := m["start_times"].([]any)
		for i := len(starts) - 1; i >= 0; i-- {
			starts[i] = starts[i].(float64) - starts[0].(float64)
		}
	}
	if diff := cmp.Diff(a, b, cmpopts.EquateApprox(1e-12, 1e-12)); diff != "" {
		t.Errorf("(-example +ours):\n%s", diff)
	}
	if head := `{"date": "20260822-154509", "endpoint_type": "openai", "backend": "openai", "label": null,`; !strings.HasPrefix(got, head) || strings.Contains(got, "\n") {
		t.Errorf("not written as Python does: %.200s", got)
	}
}

func keysOf(t *testing.T, text string) (keys []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// TestRoleAndFinishCount: the two rules that most set vLLM's figures apart.
func TestRoleAndFinishCount(t *testing.T) {
	const ms = 1_000_000
	r := &assay.Request{
		ID: "a", Stage: "s", Sent: 1_000 * ms, First: 1_050 * ms, Last: 1_070 * ms, End: 1_090 * ms,
		Gaps: []int32{10_000, 10_000}, Other: "rfud", OtherUS: []int32{20_000, 75_000, 76_000, 77_000}, OutputTokens: 3,
	}
	_, got := write(t, VLLMOptions{Metrics: []string{"ttft", "tpot", "itl", "e2el"}, Detailed: true}, []*assay.Request{r})
	want := map[string]any{
		"mean_ttft_ms": 20.0, // the role, not the first token at 50
		"mean_e2el_ms": 75.0, // the finish, not the usage at 76
		"mean_tpot_ms": 27.5, // (75 − 20) ÷ 2
		"itls":         []any{[]any{0.03, 0.01, 0.01, 0.005}},
	}
	for k, v := range want {
		if diff := cmp.Diff(v, got[k], cmpopts.EquateApprox(1e-12, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", k, diff)
		}
	}
}

func TestPlainFile(t *testing.T) {
	opts := inventedOptions
	opts.Detailed, opts.Goodput, opts.Metrics, opts.Percentiles = false, nil, nil, nil
	opts.RequestRate, opts.Burstiness, opts.MaxConcurrency, opts.Label = 0, math.Inf(1), 0, ""
	opts.Ramp = &VLLMRamp{"linear", 1, 20}
	text, got := write(t, opts, invented())
	validate(t, text)
	for _, k := range strings.Fields("input_lens output_lens ttfts itls latencies start_times generated_texts errors mean_e2el_ms") {
		if _, ok := got[k]; ok {
			t.Errorf("%s is in the plain file", k)
		}
	}
	for k, want := range map[string]any{"request_rate": "inf", "burstiness": "inf", "max_concurrency": nil, "label": nil, "request_goodput": nil} {
		if v, ok := got[k]; !ok || v != want {
			t.Errorf("%s is %v, want %v", k, v, want)
		}
	}
	if _, ok := got["p99_ttft_ms"]; !ok {
		t.Error("p99_ttft_ms is not there by default")
	}
}

// TestMetadataPlaces: as with a dict, the first place and the last value win.
func TestMetadataPlaces(t *testing.T) {
	text, got := write(t, VLLMOptions{Metadata: [][2]string{{"backend", "mine"}, {"duration", "long"}, {"z", "1"}}}, invented())
	keys := keysOf(t, text)
	if got["backend"] != "mine" || keys[2] != "backend" {
		t.Errorf("metadata does not replace backend in its place: %v, %v", got["backend"], keys[:5])
	}
	if got["duration"] == "long" || slices.Index(keys, "duration") > slices.Index(keys, "request_rate") {
		t.Errorf("the result does not replace metadata in its place: %v", got["duration"])
	}
}

func TestNothingSucceeded(t *testing.T) {
	for _, list := range [][]*assay.Request{
		nil,
		{{ID: "a", Stage: "s", Scheduled: 5, Error: assay.FailNeverSent}},
		{{ID: "a", Stage: "s", Sent: 5, End: 9, Error: assay.FailRefused}},
	} {
		opts := VLLMOptions{Detailed: true, Goodput: []assay.Limit{{Metric: "ttft", MaxMS: 1}}}
		text, got := write(t, opts, list)
		validate(t, text)
		if got["completed"] != 0.0 || got["failed"] != float64(len(list)) || got["mean_ttft_ms"] != 0.0 {
			t.Errorf("%d requests: completed %v, failed %v, ttft %v", len(list), got["completed"], got["failed"], got["mean_ttft_ms"])
		}
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("torn")
	bad := func(yield func(*assay.Request, error) bool) { yield(nil, broken) }
	if err := VLLM(new(bytes.Buffer), manifest, VLLMOptions{}, bad); !errors.Is(err, broken) {
		t.Errorf("the reader's error became %v", err)
	}
	if err := VLLM(new(bytes.Buffer), manifest, VLLMOptions{Metrics: []string{"x"}}, seq(nil)); err == nil {
		t.Error("an unknown metric is no error")
	}
	far := []*assay.Request{
		{ID: "a", Sent: 1, First: 2, OutputTokens: 1},
		{ID: "b", Sent: math.MaxInt64 / 2, First: math.MaxInt64/2 + 1, OutputTokens: 1},
	}
	if err := VLLM(new(bytes.Buffer), manifest, VLLMOptions{}, seq(far)); err == nil {
		t.Error("a century of one-second buckets is no error")
	}
	if err := VLLM(full{}, manifest, VLLMOptions{}, seq(nil)); err == nil {
		t.Error("a full disk is no error")
	}
	if err := valid(`{"date": "today"}`); err == nil {
		t.Error("the schema lets everything through")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestFileName(t *testing.T) {
	date := time.Date(2026, 8, 22, 15, 45, 9, 0, time.UTC)
	tests := []struct {
		opts VLLMOptions
		want string
	}{
		{VLLMOptions{}, "openai-chat-infqps-tiny-20260822-154509.json"},
		{VLLMOptions{Label: "l", RequestRate: 10, MaxConcurrency: 8}, "l-10.0qps-concurrency8-tiny-20260822-154509.json"},
		{VLLMOptions{Ramp: &VLLMRamp{"linear", 1, 20}, MaxConcurrency: 8}, "openai-chat-ramp-up-linear-1qps-20qps-concurrency8-tiny-20260822-154509.json"},
		{VLLMOptions{Label: "../x", ModelID: "a/b\\..\x00c"}, ".._x-infqps-b_.._c-20260822-154509.json"},
	}
	for _, tt := range tests {
		tt.opts.Date = date
		if got, err := VLLMFileName(manifest, tt.opts); err != nil || got != tt.want {
			t.Errorf("%+v gives %q, %v, want %q", tt.opts, got, err, tt.want)
		}
	}
	if _, err := VLLMFileName(manifest, VLLMOptions{ModelID: "a/"}); !errors.Is(err, ErrNoName) {
		t.Errorf("a model without a name gives %v", err)
	}
}

func TestPythonFloat(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.0", 2: "2.0", 0.1: "0.1", 1e-4: "0.0001", 1.5e-5: "1.5e-05", 1e16: "1e+16", 123456789012: "123456789012.0",
		62.25000000000003: "62.25000000000003", math.Inf(1): "inf",
	} {
		if got := pythonFloat(v); got != want {
			t.Errorf("pythonFloat(%g) = %s, want %s", v, got, want)
		}
	}
}
