package inference

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The sizes of models are read from what the engines really answer.
func TestDiscoverSizes(t *testing.T) {
	captured := func(t *testing.T, path ...string) string {
		t.Helper()
		f, err := os.Open(filepath.Join(append([]string{"..", "testdata", "wire"}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		resp, err := http.ReadResponse(bufio.NewReader(f), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct {
		name  string
		pages map[string]string
		model string
		want  ModelSize
	}{
		{"ollama", map[string]string{"/api/version": `{"version":"0.17.4"}`, "/api/tags": captured(t, "ollama-0.17.4", "api-tags.http")}, "mid:latest", ModelSize{28.01e6, 56088930}},
		{"llama.cpp", map[string]string{"/v1/models": captured(t, "llamacpp", "v1-models.http")}, "mid", ModelSize{28012032, 56041472}},
		{"vllm says none", map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`}, "m", ModelSize{}},
		{"nonsense is left out, and the engine is still one", map[string]string{"/v1/models": `{"data":[{"id":"m","meta":{"n_params":"many","size":-3}}]}`}, "m", ModelSize{}},
		{"of another shape", map[string]string{"/v1/models": `{"data":[{"id":"m","meta":[7]}]}`}, "m", ModelSize{}},
		{"too large to be true", map[string]string{"/v1/models": `{"data":[{"id":"m","meta":{"n_params":1e40,"size":7}}]}`}, "m", ModelSize{0, 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, ok := c.pages[r.URL.Path]
				if !ok {
					http.NotFound(w, r)
					return
				}
				w.Write([]byte(body))
			}))
			defer s.Close()
			f, err := Discover(t.Context(), s.URL, DiscoverOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Sizes[c.model]; got != c.want {
				t.Errorf("%s is %+v, want %+v", c.model, got, c.want)
			}
		})
	}
}

// Tokens of requests under way are counted, and no request counts twice.
func TestCame(t *testing.T) {
	d, tr := dialects()[0], transports()[0]
	sent, goOn := make(chan struct{}), make(chan struct{})
	c := client(t, serve(t, d, tr, func(w *wire) {
		w.stream()
		w.token("a")
		w.token("b")
		sent <- struct{}{}
		<-goOn
		w.token("c")
		w.finish()
	}), d, tr, nil)
	if n := c.Came(); n != 0 {
		t.Errorf("%d tokens before any request", n)
	}
	for round := range int64(2) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if r := ask(t, c, &Job{Prompt: "p"}); !r.OK() {
				t.Errorf("%s %s", r.Error, r.Detail)
			}
		}()
		<-sent
		had := round * 4 // three tokens, and the finish chunk, which may have held one
		for end := time.Now().Add(10 * time.Second); c.Came() < had+2 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if n := c.Came(); n != had+2 {
			t.Errorf("%d tokens came, %d were sent", n, had+2)
		}
		goOn <- struct{}{}
		<-done
		if n := c.Came(); n != had+4 {
			t.Errorf("%d tokens came at the end, want %d", n, had+4)
		}
	}
}
