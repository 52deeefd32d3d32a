package inference

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{
		{URL: ""}, {URL: "localhost:8000"}, {URL: "ftp://x"}, {URL: "http://"}, {URL: "http://h/?a=b"},
		{URL: "http://h", Backend: "tgi"},
		{URL: "http://h", Headers: map[string]string{"a b": "c"}},
		{URL: "http://h", Headers: map[string]string{"a": "b\r\nEvil: yes"}},
		{URL: "http://h", Headers: map[string]string{"Content-Length": "7"}},
		{URL: "http://h", APIKey: "a\nb"},
		{URL: "http://h", Endpoint: "/a b"},
	} {
		if c, err := New(cfg); err == nil {
			c.Close()
			t.Errorf("accepted %+v", cfg)
		} else if cfg.APIKey != "" && strings.Contains(err.Error(), cfg.APIKey) {
			t.Errorf("the key is in the error: %v", err)
		}
	}
}

func TestPath(t *testing.T) {
	for _, tt := range [][3]string{
		{"", "/v1/completions", "/v1/completions"},
		{"/", "/v1/completions", "/v1/completions"},
		{"/v1", "/v1/completions", "/v1/completions"},
		{"/proxy/v1/", "/v1/completions", "/proxy/v1/completions"},
		{"/proxy", "/api/chat", "/proxy/api/chat"},
		{"", "generate", "/generate"},
	} {
		if got := joinPath(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%q + %q = %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}

// What the engine receives is a request that net/http understands.
func TestRequestOnTheWire(t *testing.T) {
	var seen atomic.Pointer[http.Request]
	d := dialects()[0]
	url := serve(t, d, transports()[0], func(w *wire) {
		seen.Store(w.req)
		w.stream()
		w.token("a")
		w.finish()
	})
	c := client(t, url+"/prefix", d, transports()[0], func(cfg *Config) {
		cfg.APIKey = "sk-1"
		cfg.Headers = map[string]string{"X-A": "1"}
	})
	job := &Job{Prompt: "p", Headers: map[string]string{"X-B": "2"}}
	if r := ask(t, c, job); !r.OK() {
		t.Fatal(r.Error, r.Detail)
	}
	got := seen.Load()
	for name, want := range map[string]string{
		"X-Request-Id": "req-1", "Authorization": "Bearer sk-1", "X-A": "1", "X-B": "2",
		"Accept-Encoding": "identity", "Content-Type": "application/json",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	if got.URL.Path != "/prefix/v1/chat/completions" || got.Method != "POST" || "http://"+got.Host != url {
		t.Errorf("%s %s %s", got.Method, got.Host, got.URL)
	}
	for _, r := range []*assay.Request{{ID: "a\r\nb"}, {ID: "ok"}} {
		job.Headers = map[string]string{"Bad Name": ""}
		c.Do(context.Background(), job, r)
		if r.Error != assay.FailNeverSent || r.Sent != 0 {
			t.Errorf("%q: %s", r.ID, r.Error)
		}
	}
}

func TestDialFailures(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := "http://" + ln.Addr().String()
	ln.Close()
	d, tr := dialects()[0], transports()[0]
	fails := func(err error) func(*Client) {
		return func(c *Client) {
			c.dialer.Control = func(string, string, syscall.RawConn) error { return os.NewSyscallError("socket", err) }
		}
	}
	for _, tt := range []struct {
		name, url string
		change    func(*Client)
		want      assay.Failure
		detail    string
		limits    Limits
	}{
		{"nobody listens", addr, nil, assay.FailRefused, "refused", Limits{}},
		{"no such host", "http://no-such-host.invalid:1", nil, assay.FailRefused, "no-such-host.invalid", Limits{}},
		{"descriptors", addr, fails(syscall.EMFILE), assay.FailNeverSent, "file descriptors: ", Limits{FileDescriptors: 1}},
		{"descriptors of the machine", addr, fails(syscall.ENFILE), assay.FailNeverSent, "file descriptors: ", Limits{FileDescriptors: 1}},
		{"ports", addr, fails(syscall.EADDRNOTAVAIL), assay.FailNeverSent, "ports: ", Limits{Ports: 1}},
		{"memory", addr, fails(syscall.ENOBUFS), assay.FailNeverSent, "memory: ", Limits{Memory: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, tt.url, d, tr, nil)
			if tt.change != nil {
				tt.change(c)
			}
			r := ask(t, c, &Job{Prompt: "p"})
			if r.Error != tt.want || !strings.Contains(r.Detail, tt.detail) || r.Sent != 0 || r.Connect != 0 {
				t.Fatalf("%s: %s", r.Error, r.Detail)
			}
			if c.Limits() != tt.limits {
				t.Fatalf("limits %+v", c.Limits())
			}
		})
	}
}

// A peer that accepts and says nothing holds up a TLS handshake.
func TestConnectTimeout(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := client(t, "https://"+ln.Addr().String(), dialects()[0], transports()[3], func(cfg *Config) {
		cfg.Timeouts.Connect = 50 * time.Millisecond
	})
	if r := ask(t, c, &Job{Prompt: "p"}); r.Error != assay.FailTimeout || r.Detail != "connect: no connection within 50ms" {
		t.Fatalf("%s: %s", r.Error, r.Detail)
	}
}

func TestUntrustedCertificate(t *testing.T) {
	d, tr := dialects()[0], transports()[3]
	c := client(t, serve(t, d, tr, func(w *wire) { w.stream() }), d, tr, func(cfg *Config) { cfg.TLS = nil })
	if r := ask(t, c, &Job{Prompt: "p"}); r.Error != assay.FailRefused || !strings.Contains(r.Detail, "certificate") {
		t.Fatalf("%s: %s", r.Error, r.Detail)
	}
}

// Many at once, over few and many connections: no request hears another's answer.
func TestMany(t *testing.T) {
	d, tr := dialects()[0], transports()[0]
	c := client(t, serve(t, d, tr, func(w *wire) {
		w.stream()
		for range 5 {
			w.token(w.req.Header.Get("X-Request-Id"))
		}
		w.finish()
	}), d, tr, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for k := range 20 {
				id := strings.Repeat(string(rune('a'+i%26)), 1+k)
				r := assay.Request{ID: id}
				ctx := context.Background()
				var stop context.CancelFunc = func() {}
				if (i+k)%5 == 0 {
					ctx, stop = context.WithTimeout(ctx, time.Duration(k)*100*time.Microsecond)
				}
				c.Do(ctx, &Job{Prompt: "p", MaxTokens: 5}, &r)
				stop()
				if r.OK() && r.Text != strings.Repeat(id, 5) || !r.OK() && r.Error != assay.FailCancelled {
					t.Errorf("%s: %q %s %s", id, r.Text, r.Error, r.Detail)
				}
			}
		})
	}
	wg.Wait()
}

func TestLag(t *testing.T) {
	for us := int64(0); us < 1<<40; us += 1 + us/37 {
		v := lagValue(lagBucket(us))
		if us < 1024 && v != us || us < 1<<36 && (v > us || float64(us-v) > 0.032*float64(us)) {
			t.Fatalf("%d is told as %d", us, v)
		}
	}
	if lagBucket(-5) != 0 || lagBucket(1<<62) != lagBuckets-1 {
		t.Fatal("values outside are not held in")
	}
	l := newLag(3)
	for i := range 9 {
		l.shards[i%3][lagBucket(int64(i%2*2000))].Add(1)
	}
	if got := l.take(nil); len(got) != 4 || got[0] != 0 || got[1] != 5 || got[3] != 4 {
		t.Fatalf("took %v", got)
	}
	if got := l.take(nil); len(got) != 0 {
		t.Fatalf("took again %v", got)
	}
}

func TestDiscover(t *testing.T) {
	page := func(m map[string]string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, ok := m[r.URL.Path]
			if !ok {
				http.NotFound(w, r)
				return
			}
			if strings.HasPrefix(body, "http") {
				http.Redirect(w, r, body, http.StatusFound)
				return
			}
			if s, ok := m["server"]; ok {
				w.Header().Set("Server", s)
			}
			w.Write([]byte(body))
		}))
	}
	for _, tt := range []struct {
		name  string
		pages map[string]string
		base  string
		want  string // backend, models, version
	}{
		{"ollama", map[string]string{"/api/version": `{"version":"0.17.4"}`, "/api/tags": `{"models":[{"name":"a:latest"},{"name":"b"}]}`, "/v1/models": `{}`}, "", "ollama a:latest,b 0.17.4"},
		{"ollama by its v1", map[string]string{"/api/version": `{"version":"0.17.4"}`, "/api/tags": `{"models":[]}`}, "/v1", "ollama  0.17.4"},
		{"vllm", map[string]string{"/v1/models": `{"data":[{"id":"org/m"}]}`, "/version": `{"version":"0.11"}`, "server": "uvicorn"}, "/v1/", "openai-chat org/m 0.11"},
		{"llama.cpp", map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`, "server": "llama.cpp"}, "", "openai-chat m llama.cpp"},
		{"no page", map[string]string{"/": `hello`}, "", ""},
		{"not JSON", map[string]string{"/v1/models": `<html>`}, "", ""},
		{"elsewhere", map[string]string{"/v1/models": `http://127.0.0.1:1/`}, "", ""},
		{"hostile", map[string]string{"/v1/models": `{"data":[{"id":"a\u0000\nb` + strings.Repeat("x", 1000) + `"}]}`}, "", "openai-chat a\ufffd b" + strings.Repeat("x", 191) + "… "},
		{"endless", map[string]string{"/v1/models": `{"data":[` + strings.Repeat(" ", discoverBody+10) + `]}`}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := page(tt.pages)
			defer s.Close()
			f, err := Discover(context.Background(), s.URL+tt.base, DiscoverOptions{})
			if (err != nil) != (tt.want == "") {
				t.Fatalf("%+v %v", f, err)
			}
			if got := string(f.Backend) + " " + strings.Join(f.Models, ",") + " " + f.Version; err == nil && got != tt.want {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// An engine that closes connections which it promised to keep is found out.
func TestKeptConnectionsThatAreClosed(t *testing.T) {
	d, tr := dialects()[0], transports()[0]
	for _, keeps := range []bool{true, false} {
		c := client(t, serve(t, d, tr, func(w *wire) {
			w.stream()
			w.token("a")
			w.token("b")
			w.finish()
			w.keep = keeps
		}), d, tr, nil)
		if r := ask(t, c, &Job{Prompt: "p"}); !r.OK() {
			t.Fatalf("%s %s", r.Error, r.Detail)
		}
		if got := c.Keeps(t.Context(), 100*time.Millisecond); got != keeps {
			t.Errorf("keeps %v, want %v", got, keeps)
		}
		c.Tune(Tuning{Fresh: !keeps})
		for range 5 {
			if r := ask(t, c, &Job{Prompt: "p"}); !r.OK() || (r.Connect == 0) != keeps {
				t.Errorf("keeps %v: %s %s, connected at %d", keeps, r.Error, r.Detail, r.Connect)
			}
		}
	}
}
