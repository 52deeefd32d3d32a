package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// page fetches one address of metrics again and again, at most once in
// slowEvery whatever the poll's interval is: a scrape costs the one who is
// scraped.
type page struct {
	url     string
	header  http.Header
	timeout time.Duration
	client  *http.Client
	next    time.Time
	closed  atomic.Bool
}

// errNotFound is a page that is not there: a status other than 200.
var errNotFound = errors.New("no metrics there")

func newPage(address string, header http.Header, timeout time.Duration, config *tls.Config) (*page, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the address of a page", address)
	}
	if timeout <= 0 {
		timeout = 2 * time.Second
	}
	return &page{url: u.String(), header: header, timeout: timeout, client: &http.Client{
		Transport: &http.Transport{
			DisableCompression:     true,
			TLSClientConfig:        config,
			MaxIdleConns:           1,
			MaxResponseHeaderBytes: 64 << 10,
			IdleConnTimeout:        time.Minute,
		},
		// Who was asked answers, or nobody does.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// read fetches the page and gives its wanted samples. It reports false when it
// is too early for another look.
func (p *page) read(ctx context.Context, wanted func(string) bool, f func(sample)) (bool, error) {
	if p.closed.Load() {
		return false, errClosed
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := time.Now()
	if now.Before(p.next) {
		return false, nil
	}
	p.next = now.Add(slowEvery - tickSlack)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return false, err
	}
	for k, v := range p.header {
		req.Header[k] = v
	}
	req.Host = p.header.Get("Host") // empty: that of the address
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	res, err := p.client.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%w: %s answers %d", errNotFound, p.url, res.StatusCode)
	}
	if err := parseText(res.Body, wanted, f); err != nil {
		return true, fmt.Errorf("reading %s: %w", p.url, err)
	}
	return true, nil
}

func (p *page) close() error {
	p.closed.Store(true)
	p.client.CloseIdleConnections()
	return nil
}

// maxWord bounds a name that a driver or an exporter gives, in bytes.
const maxWord = 128

// word makes a short, printable word of what a driver or an exporter says.
func word(s string) string { return foreign.Line(s, maxWord) }
