package operate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestListenRule(t *testing.T) {
	for _, c := range []struct {
		f    listenFlags
		want string // the address; empty: refused
	}{
		{listenFlags{address: "127.0.0.1:1"}, "127.0.0.1:1"},
		{listenFlags{address: ":1"}, "127.0.0.1:1"},
		{listenFlags{address: "localhost:1"}, "localhost:1"},
		{listenFlags{address: "[::1]:1"}, "[::1]:1"},
		{listenFlags{address: "0.0.0.0:1"}, ""},
		{listenFlags{address: "[::]:1"}, ""},
		{listenFlags{address: "192.0.2.1:1"}, ""},
		{listenFlags{address: "log.example.org:1"}, ""},
		{listenFlags{address: "0.0.0.0:1", insecure: true}, "0.0.0.0:1"},
		{listenFlags{address: "0.0.0.0:1", cert: "c", key: "k"}, "0.0.0.0:1"},
		{listenFlags{address: "0.0.0.0:1", cert: "c"}, ""},
		{listenFlags{address: "127.0.0.1:1", key: "k"}, ""},
		{listenFlags{address: "1"}, ""},
	} {
		got, err := c.f.check()
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v; want %q", c.f, got, err, c.want)
		}
	}
}

// A request that is under way when the service is told to end gets its answer.
func TestListenEndsInOrder(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := listenFlags{address: "127.0.0.1:0"}
	began, url, done := make(chan struct{}), make(chan string, 1), make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		time.Sleep(200 * time.Millisecond)
		fmt.Fprint(w, "ok")
	})
	go func() { done <- f.listen(ctx, h, func(u string) { url <- u }) }()
	got := make(chan string, 1)
	u := <-url
	go func() {
		resp, err := http.Get(u)
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		got <- string(b)
	}()
	<-began
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if words := <-got; words != "ok" {
		t.Errorf("the request under way got %q", words)
	}
}

func TestListenAddressTaken(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := listenFlags{address: "127.0.0.1:0"}
	url := make(chan string, 1)
	go func() { _ = f.listen(ctx, http.NotFoundHandler(), func(u string) { url <- u }) }()
	second := listenFlags{address: strings.TrimPrefix(<-url, "http://")}
	if err := second.listen(ctx, http.NotFoundHandler(), nil); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("second: %v", err)
	}
}
