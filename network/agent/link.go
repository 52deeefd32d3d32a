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
	away     time.Time // the server did not answer: until then nobody of us asks it
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
	b, err := l.exchange(ctx, doing, timeout, do)
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

// exchange makes a request of the server and gives the bytes of a success.
func (l *link) exchange(ctx context.Context, doing string, timeout time.Duration, do func(context.Context) (*http.Response, error)) ([]byte, error) {
	if err := l.hold(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	b, err := transfer(ctx, doing, timeout, do)
	var se *ServerError
	switch {
	case ctx.Err() != nil: // it is we who end
	case err == nil:
		l.worked()
	case !errors.As(err, &se):
		l.lost(err)
	case se.Status >= 500 || se.Status == http.StatusTooManyRequests || se.Status < 400:
		l.failed(err, se.RetryAfter)
	default:
		l.worked() // it is there, and says no
	}
	return b, err
}

// transfer makes a request of the server or of a storage.
func transfer(ctx context.Context, doing string, timeout time.Duration, do func(context.Context) (*http.Response, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := do(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if res.StatusCode/100 == 2 {
		return b, nil
	}
	se := &ServerError{Doing: doing, Status: res.StatusCode, Detail: problem(res.Header, b), RetryAfter: retryAfter(res.Header, time.Now())}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		se.Detail = "a redirect, which is not followed: give the agent the server's own address"
	}
	return nil, se
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

// lost notes that the server did not answer. Many agents lose their server in one
// moment, and must not come back in one. Each draws one time for all that it does:
// if each of its loops drew its own, the first of them would come soon.
func (l *link) lost(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	l.lastErr = err
	if now := time.Now(); now.After(l.away) {
		l.away = now.Add(pause(l.failures, l.lastOK.IsZero(), l.spread, l.chance()))
	}
}

// pause is how long to leave a server alone that did not answer: drawn from the
// whole spread, and from twice the spread when it stays away. An agent that never
// reached it is likely to have been started before it, by somebody who waits: it
// begins with a thirtieth.
func pause(failures int, never bool, spread time.Duration, chance float64) time.Duration {
	width := spread
	switch {
	case never && failures < 6:
		width = min(spread, spread/30<<failures)
	case failures > 3:
		width = 2 * spread
	}
	return time.Duration(chance * float64(width))
}

// rest waits after a failure, and reports false when ctx has ended.
func (l *link) rest(ctx context.Context) bool {
	l.mu.Lock()
	now := time.Now()
	wait := l.away.Sub(now)
	if wait <= 0 {
		wait = max(0, l.notUntil.Sub(now)) + time.Duration(l.chance()*float64(l.spread))
	}
	l.mu.Unlock()
	return sleep(ctx, wait)
}

// hold waits for the time that was drawn when the server did not answer.
func (l *link) hold(ctx context.Context) error {
	l.mu.Lock()
	wait := time.Until(l.away)
	l.mu.Unlock()
	if wait > 0 && !sleep(ctx, wait) {
		return context.Cause(ctx)
	}
	return nil
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
