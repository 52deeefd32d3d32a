package inference

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func ptr(f float64) *float64 { return &f }

func TestBody(t *testing.T) {
	for _, tt := range []struct {
		name    string
		backend Backend
		usage   Usage
		job     Job
		want    string
	}{
		{"chat", OpenAIChat, UsageOnce, Job{Prompt: "say \"x\"\n", MaxTokens: 8, Temperature: ptr(0), TopP: ptr(0.9)},
			`{"model":"m","messages":[{"role":"user","content":"say \"x\"\n"}],"stream":true,"max_tokens":8,"temperature":0,"top_p":0.9,"stream_options":{"include_usage":true}}`},
		{"conversation", OpenAIChat, UsageNever, Job{Messages: []Message{{"system", "s"}, {"user", "u"}}, IgnoreEOS: true},
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}],"stream":true,"ignore_eos":true}`},
		{"completions", OpenAI, UsageEach, Job{Prompt: "p", MaxTokens: 8, IgnoreEOS: true},
			`{"model":"m","prompt":"p","stream":true,"max_tokens":8,"ignore_eos":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
		{"several prompts", OpenAI, UsageNever, Job{Prompts: []string{"a", "b"}}, `{"model":"m","prompt":["a","b"],"stream":true}`},
		{"extra", OpenAI, UsageNever, Job{Prompt: "p", MaxTokens: 8, Extra: json.RawMessage(`{"top_k": 5, "max_tokens": 9}`)},
			`{"model":"m","prompt":"p","stream":true,"max_tokens":9,"top_k":5}`},
		{"ollama", Ollama, UsageOnce, Job{Prompt: "p", MaxTokens: 8, IgnoreEOS: true, Temperature: ptr(0.5)},
			`{"model":"m","prompt":"p","stream":true,"options":{"num_predict":8,"temperature":0.5}}`},
		{"ollama, bare", Ollama, UsageOnce, Job{Prompt: "p"}, `{"model":"m","prompt":"p","stream":true}`},
		{"ollama, options merged", OllamaChat, UsageOnce, Job{Prompt: "p", MaxTokens: 8, Extra: json.RawMessage(`{"options":{"seed":1,"num_predict":4},"raw":true}`)},
			`{"model":"m","messages":[{"role":"user","content":"p"}],"stream":true,"options":{"num_predict":4,"seed":1},"raw":true}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &Client{backend: tt.backend, model: "m", usage: tt.usage}
			for range 2 { // the second time with what was remembered of Extra
				b, err := c.appendBody(nil, &tt.job)
				if err != nil {
					t.Fatal(err)
				}
				if string(b) != tt.want && !sameJSON(t, b, tt.want) || !json.Valid(b) {
					t.Fatalf("\ngot  %s\nwant %s", b, tt.want)
				}
			}
		})
	}
	for _, bad := range []struct {
		backend Backend
		job     Job
	}{
		{OpenAIChat, Job{Prompts: []string{"a"}}},
		{Ollama, Job{Messages: []Message{{"user", "x"}}}},
		{OpenAI, Job{Extra: json.RawMessage(`[1]`)}},
		{OllamaChat, Job{Extra: json.RawMessage(`{"options":3}`)}},
	} {
		c := &Client{backend: bad.backend}
		if b, err := c.appendBody(nil, &bad.job); err == nil {
			t.Errorf("%+v made %s", bad.job, b)
		}
	}
}

// sameJSON compares objects whose members may stand in another order.
func sameJSON(t *testing.T, a []byte, b string) bool {
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func FuzzString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\x1f\"\\\n\t\r\u2028é\xff\xed\xa0\x80😀")
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString(nil, s)
		var back string
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%q: %s: %v", s, b, err)
		}
		want := s
		if !utf8.ValidString(s) {
			var w strings.Builder
			for _, r := range s {
				w.WriteRune(r)
			}
			want = w.String()
		}
		if back != want {
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}
