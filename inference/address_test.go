package inference

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// Connections are spread over all addresses of a name, an address that refuses
// is passed over, and each request says where it went.
func TestAddressesAreSpread(t *testing.T) {
	d, tr := dialects()[0], transports()[0]
	var served [3]atomic.Int64
	script := func(i int) func(*wire) {
		return func(w *wire) { served[i].Add(1); w.stream(); w.token("a"); w.token("b"); w.finish() }
	}
	first, err := url.Parse(serve(t, d, tr, script(0)))
	if err != nil {
		t.Fatal(err)
	}
	// Two more engines on the same port of other loopback addresses, and a
	// fourth address where nobody listens.
	for i, host := range []string{"127.0.0.2", "127.0.0.3"} {
		ln, err := net.Listen("tcp", net.JoinHostPort(host, first.Port()))
		if err != nil {
			t.Skipf("no further loopback address: %v", err)
		}
		serveOn(t, d, ln, script(i+1))
	}
	c := client(t, "http://engine.example:"+first.Port(), d, tr, func(cfg *Config) { cfg.Fresh = true })
	var looked atomic.Int64
	c.addrs.lookup = func(context.Context, string) ([]string, error) {
		looked.Add(1)
		return []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"}, nil
	}
	at := map[string]int{}
	for range 30 {
		r := ask(t, c, &Job{Prompt: "p"})
		if !r.OK() {
			t.Fatalf("%s %s", r.Error, r.Detail)
		}
		at[r.Address]++
	}
	for i := range served {
		if n := served[i].Load(); n < 7 {
			t.Errorf("engine %d served %d of 30 requests", i, n)
		}
	}
	if len(at) != 3 || at["127.0.0.2:"+first.Port()] < 7 {
		t.Errorf("the record says %v", at)
	}
	if looked.Load() != 1 {
		t.Errorf("the name was looked up %d times", looked.Load())
	}
}

func TestNoAddressAnswers(t *testing.T) {
	d, tr := dialects()[0], transports()[0]
	c := client(t, "http://engine.example:1", d, tr, func(cfg *Config) { cfg.Timeouts.Connect = time.Second })
	c.addrs.lookup = func(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }
	if r := ask(t, c, &Job{Prompt: "p"}); r.Error != assay.FailRefused {
		t.Errorf("%s %s", r.Error, r.Detail)
	}
	c.addrs.lookup = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1", "127.0.0.2"}, nil }
	if r := ask(t, c, &Job{Prompt: "p"}); r.Error != assay.FailRefused {
		t.Errorf("%s %s", r.Error, r.Detail)
	}
}
