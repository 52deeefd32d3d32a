package inference

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestScanEvent(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     event
	}{
		{"content", `{"id":"x","choices":[{"index":0,"delta":{"content":" hi"},"finish_reason":null}]}`, event{content: true, choices: true}},
		{"role and nothing", `{"choices":[{"delta":{"role":"assistant","content":""}}]}`, event{role: true, choices: true}},
		{"role and null", `{"choices":[{"delta":{"role":"assistant","content":null}}]}`, event{role: true, choices: true}},
		{"reasoning_content", `{"choices":[{"delta":{"reasoning_content":"a"}}]}`, event{reasoning: true, choices: true}},
		{"reasoning", `{"choices":[{"delta":{"reasoning":"a","content":null}}]}`, event{reasoning: true, choices: true}},
		{"tool", `{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`, event{tool: true, choices: true}},
		{"no tool", `{"choices":[{"delta":{"tool_calls":[ ]}}]}`, event{choices: true}},
		{"completion", `{"choices":[{"text":"a","logprobs":null,"finish_reason":null}]}`, event{content: true, choices: true}},
		{"finish", `{"choices":[{"delta":{},"finish_reason":"length"}]}`, event{finished: 1, choices: true}},
		{"two finishes", `{"choices":[{"text":"","finish_reason":"length"},{"text":"","finish_reason":"stop"}]}`, event{finished: 2, choices: true}},
		{"usage", `{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":8,"total_tokens":20,"prompt_tokens_details":{"cached_tokens":4}}}`, event{usage: true, prompt: 12, completion: 8, cached: 4}},
		{"usage null", `{"choices":[],"usage":null}`, event{}},
		{"usage lies", `{"usage":{"prompt_tokens":-3,"completion_tokens":1e400}}`, event{}},
		{"usage of floats", `{"usage":{"prompt_tokens":3.0,"completion_tokens":0}}`, event{usage: true, prompt: 3}},
		{"timings", `{"timings":{"prompt_n":12,"prompt_ms":27.5,"predicted_n":8,"predicted_ms":52}}`, event{timings: true, promptN: 12, promptNS: 27_500_000, evalN: 8, evalNS: 52_000_000}},
		{"error", `{"error":{"message":"m"}}`, event{failed: true, from: 9, to: 24}},
		{"error null", `{"error":null,"response":"x"}`, event{content: true, line: true}},
		{"escaped name", `{"\u0063hoices":[{"te\u0078t":"\n"}]}`, event{content: true, choices: true}},
		{"ollama", `{"model":"m","response":"a","done":false}`, event{content: true, line: true}},
		{"ollama thinking", `{"model":"m","response":"","thinking":"t","done":false}`, event{reasoning: true, line: true}},
		{"ollama chat", `{"message":{"role":"assistant","content":"","thinking":"t"},"done":false}`, event{reasoning: true, role: true, line: true}},
		{"ollama tool", `{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]},"done":false}`, event{tool: true, role: true, line: true}},
		{"ollama done", `{"response":"","done":true,"done_reason":"length","total_duration":5,"load_duration":1,"prompt_eval_count":7,"prompt_eval_duration":2,"eval_count":8,"eval_duration":3}`,
			event{line: true, done: true, usage: true, timings: true, total: 5, load: 1, prompt: 7, promptNS: 2, completion: 8, evalNS: 3}},
		{"kinds that are wrong", `{"choices":{"text":"a"},"usage":[1],"timings":"x","message":7,"done":"true","response":["a"],"metrics":3}`, event{line: true}},
		{"choice", `{"choices":[{"index":3,"text":"a"},{"index":4}],"usage":{"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}}`,
			event{content: true, choices: true, index: 3, usage: true, completion: 2, details: true}},
		{"no details", `{"choices":[],"usage":{"completion_tokens":2,"completion_tokens_details":null}}`, event{usage: true, completion: 2}},
		{"vLLM's metrics", `{"choices":[],"metrics":{"time_to_first_token_ms":46.25,"generation_time_ms":59,"queue_time_ms":0.05,"mean_itl_ms":11.8}}`,
			event{timings: true, firstNS: 46_250_000, generationNS: 59_000_000, queuedNS: 50_000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var e event
			if !scanEvent([]byte(tt.in), &e, nil) {
				t.Fatal("refused")
			}
			if e != tt.want {
				t.Fatalf("\ngot  %+v\nwant %+v", e, tt.want)
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	for _, in := range []string{
		``, `7`, `[]`, `"x"`, `{`, `{}x`, `{"a":}`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`,
		`{"a":tru}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":\"\n\"}", `{"a":"`, `{"a":[1,]}`, `{"a":[1 2]}`, `{"a":nul`,
		`{"choices":[{"delta":{"content":"x"}}`, `{"a":` + strings.Repeat("[", 1<<20),
	} {
		var e event
		if scanEvent([]byte(in), &e, nil) {
			t.Errorf("accepted %.40q", in)
		}
	}
}

// walk is the same reading of an event by encoding/json's tokens: another road
// to the same result, for the fuzzer.
type walk struct {
	d    *json.Decoder
	e    event
	text []byte
	nth  int // of the choices
}

func (w *walk) value(path []string) {
	tok, err := w.d.Token()
	if err != nil {
		return
	}
	at := strings.Join(path, ".")
	switch at {
	case "response", "message":
		w.e.line = true
	case "usage.completion_tokens_details":
		w.e.details = tok == json.Delim('{')
	}
	switch v := tok.(type) {
	case json.Delim:
		if v == '[' {
			if strings.HasSuffix(at, "tool_calls") && (at == "choices.*.delta.tool_calls" || at == "message.tool_calls") && w.d.More() {
				w.e.tool = true
			}
			for w.d.More() {
				if at == "choices" {
					w.e.choices = true
					w.nth++
				}
				w.value(append(path, "*"))
			}
		} else {
			for w.d.More() {
				key, err := w.d.Token()
				if err != nil {
					return
				}
				w.value(append(path, strings.ReplaceAll(key.(string), ".", "\x00")))
			}
		}
		w.d.Token()
	case string:
		if v == "" {
			return
		}
		switch at {
		case "choices.*.delta.content", "choices.*.text", "message.content", "response":
			w.e.content = true
			w.text = append(w.text, v...)
		case "choices.*.delta.reasoning", "choices.*.delta.reasoning_content", "choices.*.delta.thinking", "thinking",
			"message.reasoning", "message.reasoning_content", "message.thinking":
			w.e.reasoning = true
		case "choices.*.delta.role", "message.role":
			w.e.role = true
		case "choices.*.finish_reason":
			w.e.finished++
		}
	case bool:
		if at == "done" {
			w.e.done = v
		}
	case json.Number:
		f, err := v.Float64()
		if err != nil || len(v) > 64 || f < 0 {
			return
		}
		if f <= maxCount {
			n := int64(f)
			switch at {
			case "usage.prompt_tokens", "prompt_eval_count":
				w.e.prompt = n
			case "usage.completion_tokens", "eval_count":
				w.e.completion, w.e.usage = n, true
			case "usage.prompt_tokens_details.cached_tokens":
				w.e.cached = n
			case "choices.*.index":
				if w.nth == 1 {
					w.e.index = int(min(n, maxChoices))
				}
			case "total_duration":
				w.e.total, w.e.timings = n, true
			case "load_duration":
				w.e.load, w.e.timings = n, true
			case "prompt_eval_duration":
				w.e.promptNS, w.e.timings = n, true
			case "eval_duration":
				w.e.evalNS, w.e.timings = n, true
			case "timings.prompt_n":
				w.e.promptN = n
			case "timings.predicted_n":
				w.e.evalN = n
			}
		}
		if f*1e6 <= maxCount {
			switch at {
			case "timings.prompt_ms":
				w.e.promptNS = int64(f * 1e6)
			case "timings.predicted_ms":
				w.e.evalNS, w.e.timings = int64(f*1e6), true
			case "metrics.time_to_first_token_ms":
				w.e.firstNS, w.e.timings = int64(f*1e6), true
			case "metrics.generation_time_ms":
				w.e.generationNS, w.e.timings = int64(f*1e6), true
			case "metrics.queue_time_ms":
				w.e.queuedNS = int64(f * 1e6)
			}
		}
	}
}

func FuzzScanEvent(f *testing.F) {
	f.Add([]byte(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"a\u00e9\ud83d\ude00","tool_calls":[{}],"reasoning":"r"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}},"timings":{"prompt_n":1,"prompt_ms":1.5,"predicted_n":2,"predicted_ms":2e1}}`))
	f.Add([]byte(`{"model":"m","message":{"content":"x","thinking":"y"},"response":"z","done":true,"total_duration":1,"load_duration":2,"prompt_eval_count":3,"prompt_eval_duration":4,"eval_count":5,"eval_duration":6}`))
	f.Add([]byte(`{"choices":[{"index":2},{"index":1}],"usage":{"completion_tokens_details":{"a":1}},"metrics":{"time_to_first_token_ms":1.5,"generation_time_ms":2,"queue_time_ms":3}}`))
	f.Add([]byte(`{"error":"boom","done":false,"eval_count":1.0}`))
	f.Add([]byte(` { "a" : [ true , false , null , -0.5E+3 , "\\\"\/\b" ] } `))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e event
		var text []byte
		ok := scanEvent(b, &e, &text)
		object := len(bytes.TrimLeft(b, " \t\r\n")) > 0 && bytes.TrimLeft(b, " \t\r\n")[0] == '{'
		if depth(b) > maxDepth {
			return // refused by us alone, on purpose
		}
		if want := json.Valid(b) && object; ok != want {
			t.Fatalf("accepted %v, encoding/json %v: %q", ok, want, b)
		}
		if !ok {
			return
		}
		w := walk{d: json.NewDecoder(bytes.NewReader(b))}
		w.d.UseNumber()
		w.value(nil)
		w.e.failed, w.e.from, w.e.to = e.failed, e.from, e.to
		if e != w.e {
			t.Fatalf("%q\nscanner %+v\nwalk    %+v", b, e, w.e)
		}
		if got := strings.ToValidUTF8(string(text), "\uFFFD"); got != strings.ToValidUTF8(string(w.text), "\uFFFD") &&
			!bytes.ContainsRune(w.text, '\uFFFD') {
			t.Fatalf("text %q, want %q", text, w.text)
		}
		if e.failed && !json.Valid(b[e.from:e.to]) {
			t.Fatalf("error %q of %q", b[e.from:e.to], b)
		}
	})
}

// depth is how deep brackets nest at most, strings not looked at: an upper bound.
func depth(b []byte) int {
	d, most := 0, 0
	for _, c := range b {
		switch c {
		case '{', '[':
			d++
			most = max(most, d)
		case '}', ']':
			d--
		}
	}
	return most
}

const vllmEvent = `{"id":"chatcmpl-7IiFvNTpbOtPmsXU7ZXJkNYmRuqdtB19","object":"chat.completion.chunk","created":1794707954,"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"delta":{"content":" bosano"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`

func BenchmarkScanEvent(b *testing.B) {
	data := []byte(vllmEvent)
	var e event
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if !scanEvent(data, &e, nil) || !e.content {
			b.Fatal("not read")
		}
	}
}
