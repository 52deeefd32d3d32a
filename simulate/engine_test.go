package simulate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/tools/stillness"
)

// quick is an engine that does not make tests wait.
func quick() Config {
	return Config{TTFT: 5 * time.Millisecond, ITL: time.Millisecond, OutputTokens: 4}
}

// serve starts an engine on a free port and returns its base address.
func serve(t *testing.T, c Config) (*Engine, string) {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e, "http://" + ln.Addr().String()
}

// client is a client whose connections end with the test.
func client(t *testing.T) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func post(t *testing.T, c *http.Client, url, body string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "req-1")
	res, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

func TestBodies(t *testing.T) {
	const chat = `"messages":[{"role":"user","content":"one two  three"}],"max_tokens":3`
	for _, tt := range []struct {
		name, path, body string
		change           func(*Config)
	}{
		{"chat-stream", "/v1/chat/completions", `{"model":"sim",` + chat + `,"stream":true}`, nil},
		{"chat-stream-usage", "/v1/chat/completions", `{` + chat + `,"stream":true,"stream_options":{"include_usage":true}}`, nil},
		{"chat-stream-continuous", "/v1/chat/completions", `{` + chat + `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, nil},
		{"chat-whole", "/v1/chat/completions", `{"model":"sim",` + chat + `}`, nil},
		{"chat-parts", "/v1/chat/completions", `{"messages":[{"role":"system","content":null},{"role":"user","content":[{"type":"text","text":"a b"},{"type":"image_url","image_url":{}}]}],"max_completion_tokens":1}`, nil},
		{"chat-default-length", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, nil},
		{"chat-reasoning", "/v1/chat/completions", `{` + chat + `,"stream":true}`, func(c *Config) { c.Reasoning = 2 }},
		{"chat-reasoning-chunks", "/v1/chat/completions", `{` + chat + `,"stream":true}`, func(c *Config) { c.Reasoning, c.TokensPerChunk = 1, 3 }},
		{"chat-reasoning-whole", "/v1/chat/completions", `{` + chat + `}`, func(c *Config) { c.Reasoning, c.ReasoningField = 2, "reasoning" }},
		{"chat-tool", "/v1/chat/completions", `{` + chat + `,"stream":true}`, func(c *Config) { c.ToolCall = true }},
		{"chat-tool-whole", "/v1/chat/completions", `{` + chat + `}`, func(c *Config) { c.ToolCall, c.Reasoning = true, 1 }},
		{"chat-no-role", "/v1/chat/completions", `{` + chat + `,"stream":true}`, func(c *Config) { c.Role = RoleOff }},
		{"chat-role-early", "/v1/chat/completions", `{` + chat + `,"stream":true}`, func(c *Config) { c.Role = RoleEarly }},
		{"chat-batching", "/v1/chat/completions", `{` + chat + `,"stream":true}`, func(c *Config) { c.Law = LawBatching }},
		{"completion-stream", "/v1/completions", `{"prompt":"a b","max_tokens":2,"stream":true}`, nil},
		{"completion-array-stream", "/v1/completions", `{"prompt":["a b","c"],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`, nil},
		{"completion-array", "/v1/completions", `{"prompt":["a b","c"],"max_tokens":2}`, nil},
		{"completion-n", "/v1/completions", `{"prompt":"a b","n":2,"max_tokens":2}`, nil},
		{"completion-ids", "/v1/completions", `{"prompt":[[1,2,3],[4]],"max_tokens":1}`, nil},
		{"completion-chunks", "/v1/completions", `{"prompt":"a","max_tokens":5,"stream":true}`, func(c *Config) { c.TokensPerChunk = 2 }},
		{"wrong-usage", "/v1/completions", `{"prompt":"a b","max_tokens":2}`, func(c *Config) { c.Faults.Usage = 1.5 }},
		{"generate-stream", "/api/generate", `{"model":"sim:latest","prompt":"a b","options":{"num_predict":2}}`, nil},
		{"generate-whole", "/api/generate", `{"model":"sim","prompt":"a b","stream":false}`, nil},
		{"generate-load", "/api/generate", `{"model":"sim"}`, nil},
		{"ollama-chat", "/api/chat", `{"model":"sim","messages":[{"role":"user","content":"a b"}],"options":{"num_predict":3}}`, func(c *Config) { c.Reasoning = 1 }},
		{"ollama-chat-whole", "/api/chat", `{"model":"sim","messages":[{"role":"user","content":"a b"}],"stream":false}`, nil},
		{"bad-json", "/v1/chat/completions", `{"model":`, nil},
		{"bad-model", "/v1/completions", `{"model":"other","prompt":"a"}`, nil},
		{"bad-model-ollama", "/api/generate", `{"model":"other","prompt":"a"}`, nil},
		{"bad-prompt", "/v1/completions", `{"prompt":{"a":1}}`, nil},
		{"bad-max-tokens", "/v1/completions", `{"prompt":"a","max_tokens":0}`, nil},
		{"bad-no-messages", "/v1/chat/completions", `{}`, nil},
		{"bad-too-long", "/v1/completions", `{"prompt":"a","max_tokens":1000000}`, nil},
		{"bad-n", "/v1/completions", `{"prompt":"a","n":9223372036854775807}`, nil},
		{"bad-path", "/v1/embeddings", `{}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := quick()
			if tt.change != nil {
				tt.change(&c)
			}
			_, base := serve(t, c)
			res, body, err := post(t, client(t), base+tt.path, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name, fmt.Sprintf("%d %s\n%s", res.StatusCode, res.Header.Get("Content-Type"), mask(body)))
		})
	}
}

// golden compares with testdata; run with -update to write it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n--- got\n%s\n--- want\n%s", file, got, want)
	}
}

func TestPagesOfTheEngine(t *testing.T) {
	_, base := serve(t, quick())
	c := client(t)
	for path, want := range map[string]string{
		"/v1/models":   `"id":"sim"`,
		"/api/tags":    `"name":"sim:latest"`,
		"/api/ps":      `"size_vram"`,
		"/api/version": `"version"`,
		"/health":      "",
		"/metrics":     "vllm:num_requests_running{model_name=\"sim\"} 0\n",
	} {
		res, err := c.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d %v %s", path, res.StatusCode, err, b)
		}
	}
	res, err := c.Get(base + "/v1/chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET on a POST path: %d", res.StatusCode)
	}
}

func TestOllamaTimings(t *testing.T) {
	c := quick()
	c.TTFT, c.ITL, c.Faults.ColdStart = 60*time.Millisecond, 10*time.Millisecond, 40*time.Millisecond
	stillness.Timed(t, "timings", func() error { return ollamaTimings(t, c) })
}

func ollamaTimings(t *testing.T, c Config) error {
	t.Helper()
	_, base := serve(t, c)
	cl := client(t)
	var errs []error
	for i, stream := range []bool{true, false, true} {
		_, body, err := post(t, cl, base+"/api/generate", fmt.Sprintf(`{"prompt":"a b","stream":%v,"options":{"num_predict":11}}`, stream))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(body), "\n")
		var raw map[string]any
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &raw); err != nil {
			t.Fatal(err)
		}
		ms := func(k string) int64 { return int64(raw[k].(float64)) / 1e6 }
		total, load, prompt, eval := ms("total_duration"), ms("load_duration"), ms("prompt_eval_duration"), ms("eval_duration")
		if eval < 80 || eval > 180 { // ten gaps, not eleven
			errs = append(errs, fmt.Errorf("eval_duration %d ms, want 100", eval))
		}
		if prompt < 59 || prompt > 140 {
			errs = append(errs, fmt.Errorf("prompt_eval_duration %d ms, want 60", prompt))
		}
		if sum := load + prompt + eval; total < sum || total > sum+3 {
			t.Errorf("total %d ms, its parts %d", total, sum)
		}
		if want := []int64{40, 0, 0}[i]; load != want {
			t.Errorf("request %d: load_duration %d ms, want %d", i, load, want)
		}
	}
	return errors.Join(errs...)
}

func TestColdStartOnlyOnce(t *testing.T) {
	c := quick()
	c.Faults.ColdStart = 150 * time.Millisecond
	_, base := serve(t, c)
	cl := client(t)
	var took [2]time.Duration
	for i := range took {
		start := time.Now()
		if _, _, err := post(t, cl, base+"/v1/completions", `{"prompt":"a"}`); err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	if took[0] < 150*time.Millisecond || took[1] > 130*time.Millisecond {
		t.Errorf("first %v, second %v", took[0], took[1])
	}
}

func TestPrefixCache(t *testing.T) {
	c := quick()
	c.PrefixCache = true
	_, base := serve(t, c)
	cl := client(t)
	shared := strings.Repeat("same ", 40)
	for i, want := range []string{`"cached_tokens":0`, `"cached_tokens":32`} {
		_, body, err := post(t, cl, base+"/v1/completions", fmt.Sprintf(`{"prompt":"%s own%d"}`, shared, i))
		if err != nil || !strings.Contains(body, want) {
			t.Errorf("request %d: %v %s, want %s", i, err, body, want)
		}
	}
}

func TestHandlerBehindAnotherServer(t *testing.T) {
	e, err := New(quick())
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range []func(http.Handler) *httptest.Server{httptest.NewServer, httptest.NewTLSServer} {
		s := start(e.Handler())
		for range 3 { // also on a kept connection
			res, err := s.Client().Post(s.URL+"/v1/completions", "", strings.NewReader(`{"prompt":"a","stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
				t.Errorf("%v: %s", err, b)
			}
		}
		s.Client().CloseIdleConnections()
		defer s.Close()
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	e.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/health", nil))
	if rec.Code != http.StatusHTTPVersionNotSupported {
		t.Errorf("without a connection: %d", rec.Code)
	}
}

// talk sends bytes and returns all that comes until the server closes.
func talk(t *testing.T, base, send string) string {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	go io.WriteString(nc, send)
	b, err := io.ReadAll(bufio.NewReader(nc))
	if err != nil {
		t.Logf("read: %v", err)
	}
	return string(b)
}

func TestRawHTTP(t *testing.T) {
	_, base := serve(t, quick())
	const body = `{"prompt":"a","max_tokens":1,"stream":true}`
	head := "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n"
	for _, tt := range []struct {
		name, send, want string
		times            int
	}{
		{"close", head + "Connection: close\r\n\r\n" + body, "[DONE]\n\n\r\n0\r\n\r\n", 1},
		{"pipelined", head + "\r\n" + body + head + "\r\n" + body + head + "Connection: close\r\n\r\n" + body, "[DONE]", 3},
		{"http 1.0", "POST /v1/completions HTTP/1.0\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n\r\n" + body, "data: [DONE]\n\n", 1},
		{"continue", head + "Expect: 100-continue\r\nConnection: close\r\n\r\n" + body, "100 Continue", 1},
		{"no request", "hello\r\n\r\n", "400 Bad Request", 1},
		{"body too large", "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", "413 Request Entity", 1},
		{"endless header", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 2<<20), "431 Request Header", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := talk(t, base, tt.send)
			if n := strings.Count(got, tt.want); n != tt.times {
				t.Errorf("%q %d times, want %d, in %.600s", tt.want, n, tt.times, got)
			}
		})
	}
}

func TestAPIKey(t *testing.T) {
	c := quick()
	c.APIKey = "secret"
	_, base := serve(t, c)
	res, _, err := post(t, client(t), base+"/v1/completions", `{"prompt":"a"}`)
	if err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %v %v", res, err)
	}
}

func TestConfigRefusals(t *testing.T) {
	for name, c := range map[string]Config{
		"law":        {Law: "murphy"},
		"role":       {Role: "late"},
		"ttft":       {TTFT: -1},
		"share":      {Faults: Faults{Reset: 1.5}},
		"sum":        {Faults: Faults{Reset: 0.6, Cut: 0.6}},
		"status":     {Faults: Faults{Status: map[int]float64{200: 1}}},
		"stall":      {Faults: Faults{StallFor: time.Hour}},
		"slots":      {Batching: Batching{Slots: -1}},
		"chunk":      {Law: LawBatching, TokensPerChunk: 2},
		"chunk size": {TokensPerChunk: 5000},
	} {
		if e, err := New(c); err == nil {
			e.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
