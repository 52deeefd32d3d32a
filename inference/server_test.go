package inference

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-bench/assay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is the server's end of one request, at the level of bytes.
type wire struct {
	net.Conn
	t    testing.TB
	d    dialect
	req  *http.Request
	body []byte
	nth  int // of this connection, from 0
	conn int // number of the connection, from 0
	keep bool
}

func (w *wire) raw(s string) { io.WriteString(w.Conn, s) }

func (w *wire) head(status string, headers ...string) {
	w.raw("HTTP/1.1 " + status + "\r\n" + strings.Join(append(headers, "\r\n"), "\r\n"))
}

// stream begins a good reply.
func (w *wire) stream() {
	w.head("200 OK", "Content-Type: "+w.d.kind, "Transfer-Encoding: chunked")
}

func (w *wire) chunk(s string) { fmt.Fprintf(w.Conn, "%x\r\n%s\r\n", len(s), s) }

// event sends one event in one write.
func (w *wire) event(data string) { w.chunk(w.d.wrap(data)) }

func (w *wire) token(s string) { w.event(w.d.token(s)) }

func (w *wire) finish() {
	for _, e := range w.d.finish {
		w.event(e)
	}
	w.raw("0\r\n\r\n")
	w.keep = true
}

// hang waits for the client to give up.
func (w *wire) hang() { io.Copy(io.Discard, w.Conn) }

// reset breaks the connection with a RST.
func (w *wire) reset() {
	c := w.Conn
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// dialect is what the suite needs to know of a backend to play its engine. It
// shares nothing with the client's own reading of it.
type dialect struct {
	backend   Backend
	kind      string
	wrap      func(data string) string
	token     func(text string) string
	reasoning func(text string) string
	tool      string
	finish    []string // events that end an answer of two tokens
	letters   string   // what they leave in Request.Other
	failure   string   // an error in mid-stream
}

func sse(data string) string { return "data: " + data + "\n\n" }

func dialects() []dialect {
	q := func(format string) func(string) string {
		return func(s string) string { return fmt.Sprintf(format, s) }
	}
	line := func(data string) string { return data + "\n" }
	done := `"done":true,"done_reason":"stop","total_duration":9,"load_duration":1,"prompt_eval_count":5,"prompt_eval_duration":3,"eval_count":2,"eval_duration":4}`
	return []dialect{
		{
			OpenAIChat, "text/event-stream; charset=utf-8", sse,
			q(`{"id":"c","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`),
			q(`{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":%q},"finish_reason":null}]}`),
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`,
			[]string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, "[DONE]"},
			"fud", `{"error":{"message":"out of memory","code":500}}`,
		},
		{
			OpenAI, "text/event-stream", sse,
			q(`{"id":"c","choices":[{"index":0,"text":%q,"finish_reason":null}]}`), nil, "",
			[]string{`{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, "[DONE]"},
			"fud", `{"error":{"message":"out of memory"}}`,
		},
		{
			Ollama, "application/x-ndjson", line,
			q(`{"model":"m","response":%q,"done":false}`), q(`{"model":"m","response":"","thinking":%q,"done":false}`), "",
			[]string{`{"model":"m","response":"",` + done}, "f", `{"error":"out of memory"}`,
		},
		{
			OllamaChat, "application/x-ndjson", line,
			q(`{"model":"m","message":{"role":"assistant","content":%q},"done":false}`),
			q(`{"model":"m","message":{"role":"assistant","content":"","thinking":%q},"done":false}`),
			`{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]},"done":false}`,
			[]string{`{"model":"m","message":{"role":"assistant","content":""},` + done}, "f", `{"error":"out of memory"}`,
		},
	}
}

// transport is a way in which bytes reach the client.
type transport struct {
	name string
	tls  bool
	cfg  Config
}

func transports() []transport {
	return []transport{
		{"kernel", false, Config{}},
		{"user", false, Config{UserClock: true}},
		{"plain", false, Config{noStamps: true}},
		{"tls", true, Config{}},
		{"tls-plain", true, Config{noStamps: true}},
	}
}

// serve plays an engine by a script, which sees each request.
func serve(t testing.TB, d dialect, tr transport, script func(*wire)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	scheme := "http://"
	if tr.tls {
		scheme = "https://"
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{testCert(t)}})
	}
	serveOn(t, d, ln, script)
	return scheme + ln.Addr().String()
}

// serveOn plays an engine on a listener until the test ends.
func serveOn(t testing.TB, d dialect, ln net.Listener, script func(*wire)) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for nth := 0; ; nth++ {
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					body, err := io.ReadAll(req.Body)
					if err != nil {
						return
					}
					w := &wire{Conn: c, t: t, d: d, req: req, body: body, nth: nth, conn: n}
					script(w)
					if !w.keep {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

var certOnce = sync.OnceValue(func() tls.Certificate {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return s.TLS.Certificates[0]
})

func testCert(testing.TB) tls.Certificate { return certOnce() }

// client makes a client for a served engine.
func client(t testing.TB, url string, d dialect, tr transport, change func(*Config)) *Client {
	t.Helper()
	cfg := tr.cfg
	cfg.URL, cfg.Backend, cfg.Model = url, d.backend, "m"
	cfg.KeepText = true
	if tr.tls {
		cfg.TLS = &tls.Config{InsecureSkipVerify: true}
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// ask sends one request, and fails the test if that takes absurdly long.
func ask(t testing.TB, c *Client, job *Job) *assay.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r := &assay.Request{ID: "req-1"}
	c.Do(ctx, job, r)
	if ctx.Err() != nil {
		t.Errorf("the request hung: %q %s", r.Error, r.Detail)
	}
	if r.End == 0 {
		t.Error("no end mark")
	}
	if !r.OK() && r.Detail == "" {
		t.Errorf("%s without a detail", r.Error)
	}
	if len(r.Detail) > 4*maxDetail || bytes.ContainsFunc([]byte(r.Detail), func(c rune) bool { return c < ' ' }) {
		t.Errorf("detail is not fit to print: %q", r.Detail)
	}
	return r
}
