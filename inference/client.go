package inference

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/clock"
)

// Config says how to speak to an engine.
type Config struct {
	URL     string  // of the engine: http://localhost:8000; with a path prefix if it has one
	Backend Backend // zero: OpenAIChat
	// Endpoint replaces the backend's own path.
	Endpoint string
	Model    string
	Headers  map[string]string
	APIKey   string // sent as a bearer token
	// TLS is used for https URLs; nil: the system's defaults. HTTP/1.1 is
	// always what is spoken.
	TLS *tls.Config
	// Fresh makes a new connection for each request. Otherwise they are kept.
	Fresh    bool
	Timeouts Timeouts
	// UserClock makes arrivals those of our own clock even where the kernel
	// stamps. The lag is then still measured by its stamps.
	UserClock bool
	// Usage is what the engine is asked to count (OpenAI dialect only).
	Usage    Usage
	KeepText bool // keep the answer in Request.Text
	// Clock is the run's time-line, whose owner measures its offset each
	// second. nil: the client has its own.
	Clock *clock.Clock

	noStamps bool // tests: as on a system that does not stamp
}

// Usage is how often an OpenAI-like engine is asked to tell its token counts.
type Usage uint8

// How often counts are asked for. An engine that refuses the question
// (stream_options) needs UsageNever.
const (
	UsageOnce  Usage = iota // at the end
	UsageEach               // with each chunk as well, which vLLM can
	UsageNever              // not at all
)

// Client speaks to one engine. It is safe for use by many goroutines.
type Client struct {
	backend   Backend
	model     string
	usage     Usage
	fresh     bool
	keepText  bool
	timeouts  Timeouts
	gapNS     int64
	tlsConfig *tls.Config

	addrs  addresses
	dialer net.Dialer
	head   []byte // of each request, up to what differs

	secrets secrets

	counting, timingsPerToken bool
	sentinel                  sentinel

	clock    *clock.Clock
	ownClock bool
	source   assay.ClockSource
	stamps   bool
	probe    *os.File

	lag     lag
	limits  struct{ fds, ports, memory atomic.Int64 }
	room    int64        // connections that there are descriptors for; 0: unknown
	open    atomic.Int64 // connections
	extra   atomic.Pointer[extra]
	idle    idle
	streams streams

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// New makes a client. It connects to nothing yet. Close it after use.
func New(cfg Config) (*Client, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.wg.Go(func() { c.watchdog(ctx) })
	c.wg.Go(func() { c.watchSelf(ctx) })
	return c, nil
}

// newClient makes a client that nobody watches yet.
func newClient(cfg Config) (*Client, error) {
	u, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("engine's address %q: it may have a path, and nothing behind it", cfg.URL)
	}
	if cfg.Backend == "" {
		cfg.Backend = OpenAIChat
	}
	if _, err := ParseBackend(string(cfg.Backend)); err != nil {
		return nil, err
	}
	c := &Client{
		backend: cfg.Backend, model: cfg.Model, usage: cfg.Usage, fresh: cfg.Fresh, keepText: cfg.KeepText,
		timeouts: cfg.Timeouts.filled(),
		clock:    cfg.Clock, ownClock: cfg.Clock == nil,
		source: assay.ClockUser,
		room:   descriptorRoom(),
		lag:    newLag(min(runtime.GOMAXPROCS(0), 8)),
		// Keep-alive probes cost three system calls a connection, and the time
		// limits find a dead peer sooner.
		dialer: net.Dialer{KeepAlive: -1},
	}
	c.sentinel.wake = make(chan struct{}, 1)
	c.secrets = newSecrets(cfg)
	c.gapNS = int64(c.timeouts.Gap)
	c.streams.c = c
	if c.ownClock {
		c.clock = clock.New()
	}
	if err := c.target(u, cfg); err != nil {
		return nil, err
	}
	if !cfg.noStamps {
		c.probe = stampProbe()
	}
	if c.stamps = c.probe != nil; c.stamps && !cfg.UserClock {
		c.source = assay.ClockKernel
	}
	return c, nil
}

// target works out whom to dial and what each request begins with.
func (c *Client) target(u *url.URL, cfg Config) error {
	port := u.Port()
	if u.Scheme == "https" {
		if port == "" {
			port = "443"
		}
		c.tlsConfig = new(tls.Config)
		if cfg.TLS != nil {
			c.tlsConfig = cfg.TLS.Clone()
		}
		c.tlsConfig.NextProtos = []string{"http/1.1"}
		if c.tlsConfig.ServerName == "" {
			c.tlsConfig.ServerName = u.Hostname()
		}
	} else if port == "" {
		port = "80"
	}
	c.addrs.host, c.addrs.port = u.Hostname(), port

	path := cfg.Endpoint
	if path == "" {
		path = c.backend.Endpoint()
	}
	path = joinPath(u.EscapedPath(), path)
	if strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("endpoint %q: not a path", path)
	}
	accept := "text/event-stream"
	if !c.backend.sse() {
		accept = "application/x-ndjson"
	}
	host := u.Host
	if v, ok := header(cfg.Headers, "Host"); ok {
		if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return fmt.Errorf("header \"Host\": %q is not a host", v)
		}
		host = v
	}
	b := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: assay\r\nAccept: %s\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\n", path, host, accept)
	if c.fresh {
		b = append(b, "Connection: close\r\n"...)
	}
	var err error
	if _, own := header(cfg.Headers, "Authorization"); cfg.APIKey != "" && !own {
		if b, err = appendHeader(b, "Authorization", "Bearer "+cfg.APIKey); err != nil {
			return errors.New("the API key cannot be sent in a header")
		}
	}
	if b, err = appendHeaders(b, cfg.Headers); err != nil {
		return err
	}
	c.head = b
	return nil
}

// header finds a header whatever the case of its name.
func header(h map[string]string, name string) (value string, ok bool) {
	for k, v := range h {
		if strings.EqualFold(k, name) {
			return v, true
		}
	}
	return "", false
}

// joinPath puts an endpoint behind a base path. A base that ends in /v1, as
// other tools want it, is understood.
func joinPath(base, endpoint string) string {
	base = strings.TrimRight(base, "/")
	if !strings.HasPrefix(endpoint, "/") {
		endpoint = "/" + endpoint
	}
	if strings.HasPrefix(endpoint, "/v1/") {
		base = strings.TrimSuffix(base, "/v1")
	}
	return base + endpoint
}

func appendHeaders(b []byte, h map[string]string) ([]byte, error) {
	if len(h) == 0 {
		return b, nil
	}
	var err error
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if b, err = appendHeader(b, name, h[name]); err != nil {
			return b, err
		}
	}
	return b, nil
}

func appendHeader(b []byte, name, value string) ([]byte, error) {
	notToken := func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}
	if name == "" || strings.ContainsFunc(name, notToken) {
		return b, fmt.Errorf("header %q: not a header's name", name)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return b, fmt.Errorf("header %q: its value has control characters", name)
	}
	switch strings.ToLower(name) {
	case "host":
		return b, nil // it stands in the head's first lines already
	case "content-length", "transfer-encoding", "connection", "accept-encoding", "x-request-id":
		return b, fmt.Errorf("header %q is the client's own", name)
	}
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), '\r', '\n'), nil
}

// Heard is when an event of any stream last came, in Unix nanoseconds on the
// run's time-line; 0: never. An engine that sends tokens is alive, also when no
// answer is complete yet.
func (c *Client) Heard() (at int64) {
	for _, s := range c.streams.all() {
		at = max(at, s.watch.heard.Load())
	}
	return at
}

// Came is the number of tokens that came by all streams so far, also those of
// requests under way. Which chunk held how many is known at the end of a
// request only, so this is for watching and not for measuring: a chunk counts as
// one, unless the engine counts in each.
func (c *Client) Came() (tokens int64) {
	for _, s := range c.streams.all() {
		tokens += s.watch.came.Load()
	}
	return tokens
}

// Source says whose clock arrivals are by.
func (c *Client) Source() assay.ClockSource { return c.source }

// Limits gives how often the client met limits of its own.
func (c *Client) Limits() Limits {
	return Limits{c.limits.fds.Load(), c.limits.ports.Load(), c.limits.memory.Load()}
}

// TakeLag appends to dst how late our code was with each read since the last
// call: pairs of a value in microseconds and how often it was seen, for
// [assay.Reading]. Values are exact below 1024, and above that the lower bound
// of one of 32 steps to the next power of two. There are none where the kernel
// does not stamp.
func (c *Client) TakeLag(dst []int64) []int64 { return c.lag.take(dst) }

// Close closes idle connections and ends the client. Requests that are under
// way go on without time limits; end them first by their context.
func (c *Client) Close() error {
	c.stop()
	c.wg.Wait()
	c.idle.close()
	if c.probe != nil {
		return c.probe.Close()
	}
	return nil
}

// streams are all that were ever needed at once. They are never given up, so
// that the watchdog can go through them without a lock.
type streams struct {
	c    *Client
	mu   sync.Mutex
	made []*stream
	free []*stream
}

func (p *streams) take() *stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s
	}
	s := newStream(p.c, len(p.made))
	p.made = append(p.made, s)
	return s
}

func (p *streams) give(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s)
}

// all gives the streams; what is appended later does not change this slice.
func (p *streams) all() []*stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}
