package parttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Proxy is a network that can be made bad: a toxiproxy of the test's own.
type Proxy struct {
	tb    testing.TB
	url   string
	names []string
	bad   []string // toxics that are in force, as paths
}

// StartProxy starts one without a route.
func StartProxy(tb testing.TB) *Proxy {
	tb.Helper()
	Install(tb, "toxiproxy")
	serve, dir := filepath.Join(Scripts(tb), "toxiproxy-serve"), tb.TempDir()
	StopAtEnd(tb, serve, dir)
	tb.Cleanup(func() {
		if b, err := os.ReadFile(filepath.Join(dir, "log")); tb.Failed() && err == nil {
			tb.Logf("the end of toxiproxy's log:\n%s", b[max(0, len(b)-4000):])
		}
	})
	return &Proxy{tb: tb, url: Run(tb, nil, serve, "start", dir)}
}

// Route lets connections to listen through to upstream, both HOST:PORT, and gives
// where it listens: port 0 is any that is free.
func (p *Proxy) Route(listen, upstream string) string {
	p.tb.Helper()
	name := fmt.Sprintf("route-%d", len(p.names)+1)
	b := p.call(http.MethodPost, "/proxies", map[string]any{"name": name, "listen": listen, "upstream": upstream, "enabled": true})
	p.names = append(p.names, name)
	var made struct{ Listen string }
	if err := json.Unmarshal(b, &made); err != nil {
		p.tb.Fatal(err)
	}
	return made.Listen
}

// Cut ends every connection and refuses new ones.
func (p *Proxy) Cut() { p.tb.Helper(); p.enable(false) }

// Hang keeps connections open and lets nothing through, as a lost route does.
func (p *Proxy) Hang() {
	p.tb.Helper()
	p.Spoil("timeout", map[string]any{"timeout": 0})
}

// Slow delays everything in both directions.
func (p *Proxy) Slow(by time.Duration) {
	p.tb.Helper()
	p.Spoil("latency", map[string]any{"latency": by.Milliseconds()})
}

// Spoil adds one of toxiproxy's faults to every route, in both directions.
func (p *Proxy) Spoil(kind string, attributes map[string]any) {
	p.tb.Helper()
	for _, name := range p.names {
		for _, stream := range []string{"upstream", "downstream"} {
			toxic := fmt.Sprintf("%s-%s-%d", kind, stream, len(p.bad))
			p.call(http.MethodPost, "/proxies/"+name+"/toxics", map[string]any{
				"name": toxic, "type": kind, "stream": stream, "attributes": attributes,
			})
			p.bad = append(p.bad, "/proxies/"+name+"/toxics/"+toxic)
		}
	}
}

// Restore ends all faults.
func (p *Proxy) Restore() {
	p.tb.Helper()
	for _, path := range p.bad {
		p.call(http.MethodDelete, path, nil)
	}
	p.bad = nil
	p.enable(true)
}

func (p *Proxy) enable(on bool) {
	p.tb.Helper()
	for _, name := range p.names {
		p.call(http.MethodPost, "/proxies/"+name, map[string]any{"enabled": on})
	}
}

func (p *Proxy) call(method, path string, body any) []byte {
	p.tb.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		p.tb.Fatal(err)
	}
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader(b))
	if err != nil {
		p.tb.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.StatusCode >= 300 {
		p.tb.Fatalf("%s %s: %s: %s %v", method, path, resp.Status, out, err)
	}
	return out
}
