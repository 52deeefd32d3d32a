package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

const (
	maxAnswer     = 1 << 20
	maxProblem    = 500
	maxRetryAfter = time.Hour
	callTimeout   = 30 * time.Second
)

// ServerError is an answer that is no success. Detail is the server's own text,
// bounded and cleaned.
type ServerError struct {
	Doing      string
	Status     int
	Detail     string
	RetryAfter time.Duration // 0: the server did not say
}

func (e *ServerError) Error() string {
	s := fmt.Sprintf("%s: the server answered %d", e.Doing, e.Status)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// final reports whether the same request will get the same answer: what is wrong
// with it does not become right by waiting.
func (e *ServerError) final() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// link is the way to the server: what all calls share.
type link struct {
	base   *url.URL
	http   *http.Client
	client *api.Client
	clock  *clockWatch
	spread time.Duration // over which agents come back after an outage
	chance func() float64

	mu       sync.Mutex
	notUntil time.Time // the server asked for patience
	failures int       // in a row
	lastErr  error
	lastOK   time.Time
}

// newLink makes a way to a server. Nothing is sent yet.
func newLink(address, ca string, spread time.Duration, proxy func(*http.Request) (*url.URL, error)) (*link, error) {
	base, err := serverURL(address)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", foreign.Line(address, 200), err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read the server's authority: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the server's authority: %s has no certificate in PEM form", ca)
		}
	}
	l := &link{base: base, clock: &clockWatch{}, spread: spread, chance: rand.Float64}
	l.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  proxy,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:        config,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxIdleConns:           8,
			MaxIdleConnsPerHost:    4,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		},
		// Who was asked answers, or nobody does: a token goes nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	l.client, err = api.NewClient(base.String(), api.WithHTTPClient(l.http))
	return l, err
}

// call makes a request and reads its answer into a T. A nil body of 204 gives the
// zero T.
func call[T any](ctx context.Context, l *link, doing string, timeout time.Duration, do func(context.Context) (*http.Response, error)) (T, error) {
	var v T
	b, _, err := l.exchange(ctx, doing, timeout, do)
	if err != nil || len(b) == 0 {
		return v, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		err = fmt.Errorf("%s: the server's answer makes no sense: %w", doing, err)
		l.failed(err, 0)
		return v, err
	}
	return v, nil
}

// exchange makes a request and gives the bytes of a success.
func (l *link) exchange(ctx context.Context, doing string, timeout time.Duration, do func(context.Context) (*http.Response, error)) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := do(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
		l.failed(err, 0)
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
		l.failed(err, 0)
		return nil, nil, err
	}
	if res.StatusCode/100 == 2 {
		l.worked()
		return b, res.Header, nil
	}
	se := &ServerError{Doing: doing, Status: res.StatusCode, Detail: problem(res.Header, b), RetryAfter: retryAfter(res.Header, time.Now())}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		se.Detail = "a redirect, which is not followed: give the agent the server's own address"
	}
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests || res.StatusCode < 400 {
		l.failed(se, se.RetryAfter)
	} else {
		l.worked() // it is there, and says no
	}
	return nil, nil, se
}

// problem is what an answer says in words.
func problem(h http.Header, b []byte) string {
	if kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")); kind == "application/problem+json" || kind == "application/json" {
		var p api.Problem
		if json.Unmarshal(b, &p) == nil {
			text := p.Title
			if d := value(p.Detail); d != "" {
				text += ": " + d
			}
			return foreign.Line(text, maxProblem)
		}
	}
	return foreign.Line(b[:min(len(b), 4*maxProblem)], maxProblem)
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return min(max(0, time.Duration(n)*time.Second), maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

func (l *link) worked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures, l.lastErr, l.lastOK = 0, nil, time.Now()
}

func (l *link) failed(err error, patience time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	l.lastErr = err
	if patience > 0 {
		l.notUntil = time.Now().Add(patience)
	}
}

// contact says since when the server has not answered, and why.
func (l *link) contact() (ok time.Time, failures int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastOK, l.failures, l.lastErr
}

// pause is how long to wait after a failure. Many agents lose their server in one
// moment, and must not come back in one: each wait is drawn from the whole spread,
// and from twice the spread when the server stays away. What the server asked for
// comes first.
func pause(failures int, patience, spread time.Duration, chance float64) time.Duration {
	width := spread
	if failures > 3 {
		width = 2 * spread
	}
	return patience + time.Duration(chance*float64(width))
}

// rest waits after a failure, and reports false when ctx has ended.
func (l *link) rest(ctx context.Context) bool {
	l.mu.Lock()
	wait := pause(l.failures, max(0, time.Until(l.notUntil)), l.spread, l.chance())
	l.mu.Unlock()
	return sleep(ctx, wait)
}

// patient waits for as long as the server asked to be left alone.
func (l *link) patient(ctx context.Context) error {
	l.mu.Lock()
	wait := time.Until(l.notUntil)
	chance := l.chance()
	l.mu.Unlock()
	if wait > 0 && !sleep(ctx, wait+time.Duration(chance*float64(l.spread)/4)) {
		return context.Cause(ctx)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// status gives the status of a ServerError; 0: it is none.
func status(err error) int {
	var se *ServerError
	if errors.As(err, &se) {
		return se.Status
	}
	return 0
}
