package kafkatest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// Proxy is the network between clients and brokers.
type Proxy struct {
	tb    testing.TB
	url   string
	names []string
	bad   []string // toxics that are in force, as paths
}

func startProxy(tb testing.TB, parts string, listen, ports []string) *Proxy {
	tb.Helper()
	parttest.Install(tb, "toxiproxy")
	serve, dir := filepath.Join(parts, "toxiproxy-serve"), tb.TempDir()
	parttest.StopAtEnd(tb, serve, dir)
	p := &Proxy{tb: tb, url: parttest.Run(tb, nil, serve, "start", dir)}
	for i, from := range listen {
		name := fmt.Sprintf("broker-%d", i+1)
		p.call(http.MethodPost, "/proxies", map[string]any{
			"name": name, "listen": from, "upstream": net.JoinHostPort("127.0.0.1", ports[i]), "enabled": true,
		})
		p.names = append(p.names, name)
	}
	return p
}

// Cut ends every connection and refuses new ones.
func (p *Proxy) Cut() { p.tb.Helper(); p.enable(false) }

// Hang keeps connections open and lets nothing through, as a lost route does.
func (p *Proxy) Hang() {
	p.tb.Helper()
	p.spoil("timeout", map[string]any{"timeout": 0})
}

// Slow delays everything in both directions.
func (p *Proxy) Slow(by time.Duration) {
	p.tb.Helper()
	p.spoil("latency", map[string]any{"latency": by.Milliseconds()})
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

func (p *Proxy) spoil(kind string, attributes map[string]any) {
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

func (p *Proxy) call(method, path string, body any) {
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
	if resp.StatusCode >= 300 {
		out, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		p.tb.Fatalf("%s %s: %s: %s", method, path, resp.Status, out)
	}
}
