package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// listener is an engine that remembers what it was asked. It always gives one
// answer.
type listener struct {
	mu    sync.Mutex
	asked map[string]int
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"sky-1b","object":"model"}]}`)
	case "/v1/chat/completions":
		var body struct {
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) == 0 {
			http.Error(w, "no messages", http.StatusBadRequest)
			return
		}
		l.mu.Lock()
		l.asked[body.Messages[len(body.Messages)-1].Content]++
		l.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"It", " scatters", "."} {
			fmt.Fprintf(w, `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", word)
		}
		fmt.Fprint(w, `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")
		fmt.Fprint(w, `data: {"id":"1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":6,"completion_tokens":3,"total_tokens":9}}`+"\n\ndata: [DONE]\n\n")
	default:
		http.NotFound(w, r)
	}
}

// command "asked WORDS" checks that the engine was asked those words since the
// last time: more often than twice, as the load asks them too when they are the
// user's own, and ours not then.
func (l *listener) command(ts *testscript.TestScript, _ bool, args []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const ours = "Count from one to ten."
	switch n := l.asked[args[0]]; {
	case args[0] == ours && n != 2:
		ts.Fatalf("%q was asked %d times, not twice", ours, n)
	case args[0] != ours && (n < 8 || l.asked[ours] > 0):
		ts.Fatalf("%q was asked %d times, and ours %d times", args[0], n, l.asked[ours])
	}
	clear(l.asked)
}

// A model's execution is verified with a prompt of the user's own.
func TestVerifyWithYourOwnPrompt(t *testing.T) {
	l := &listener{asked: map[string]int{}}
	srv := httptest.NewServer(l)
	t.Cleanup(srv.Close)
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/prompt",
		Setup: func(env *testscript.Env) error { env.Setenv("ENGINE", srv.URL); return nil },
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"asked": l.command},
	})
}
