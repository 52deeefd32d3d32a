package tlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/oklog/ulid/v2"
	"github.com/transparency-dev/tessera/api/layout"
)

// httpLog reads a log over HTTP. Whoever answers is hostile: each answer has an
// end in bytes and in time, and stays where it was asked.
type httpLog struct {
	base   *url.URL
	client *http.Client
}

const (
	httpTimeout   = 30 * time.Second
	httpTries     = 3
	httpRedirects = 3
	httpPause     = 400 * time.Millisecond // before the second try
)

func openHTTP(where string, o OpenOptions) (*httpLog, error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("open log %s: give a URL with a host and without query or fragment", u.Redacted())
	}
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = httpTimeout
	}
	transport := o.Transport
	if transport == nil {
		t := &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			MaxIdleConnsPerHost:    ahead,
			IdleConnTimeout:        time.Minute,
			TLSHandshakeTimeout:    timeout,
			ResponseHeaderTimeout:  timeout,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		}
		transport = t
	}
	l := &httpLog{base: u}
	l.client = &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != u.Scheme || r.URL.Host != u.Host {
			return fmt.Errorf("%w: it sent us elsewhere, to %s", ErrAnswer, r.URL.Redacted())
		}
		if len(via) > httpRedirects {
			return fmt.Errorf("%w: it sent us on more than %d times", ErrAnswer, httpRedirects)
		}
		return nil
	}}
	return l, nil
}

func (l *httpLog) String() string { return l.base.Redacted() }

// Close ends connections that are kept for later.
func (l *httpLog) Close() error {
	l.client.CloseIdleConnections()
	return nil
}

func (l *httpLog) Checkpoint(ctx context.Context) ([]byte, error) {
	b, err := l.get(ctx, layout.CheckpointPath, maxCheckpoint)
	return b, err
}

func (l *httpLog) Tile(ctx context.Context, level, index uint64, partial uint8) ([]byte, error) {
	b, err := l.get(ctx, layout.TilePath(level, index, partial), tileWidth*hashSize)
	if partial != 0 && errors.Is(err, fs.ErrNotExist) {
		if b, err = l.get(ctx, layout.TilePath(level, index, 0), tileWidth*hashSize); err == nil {
			return cutTile(b, int(partial))
		}
	}
	return b, err
}

func (l *httpLog) Entries(ctx context.Context, index uint64, partial uint8) ([]byte, error) {
	b, err := l.get(ctx, layout.EntriesPath(index, partial), maxBundle)
	if partial != 0 && errors.Is(err, fs.ErrNotExist) {
		if b, err = l.get(ctx, layout.EntriesPath(index, 0), maxBundle); err == nil {
			return cutBundle(b, int(partial))
		}
	}
	return b, err
}

// lookup asks the notary.
func (l *httpLog) lookup(ctx context.Context, id ulid.ULID, keyID string) (uint64, error) {
	u := l.base.JoinPath("lookup", id.String())
	if keyID != "" {
		u.RawQuery = url.Values{"key": {keyID}}.Encode()
	}
	b, err := l.getURL(ctx, u, 4096)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, errNotListed
	case err != nil:
		return 0, err
	}
	var answer struct{ Index *uint64 }
	if err := json.Unmarshal(b, &answer); err != nil || answer.Index == nil {
		return 0, errNoHint
	}
	return *answer.Index, nil
}

// get reads one resource.
func (l *httpLog) get(ctx context.Context, path string, limit int64) ([]byte, error) {
	return l.getURL(ctx, l.base.JoinPath(strings.Split(path, "/")...), limit)
}

// getURL asks a server that is busy or broken again.
func (l *httpLog) getURL(ctx context.Context, u *url.URL, limit int64) ([]byte, error) {
	body, err := backoff.Retry(ctx, func() ([]byte, error) { return l.once(ctx, u, limit) },
		backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: httpPause, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: 2 * httpPause}),
		backoff.WithMaxTries(httpTries))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", u.Redacted(), err)
	}
	return body, nil
}

// once asks once. What another try cannot change is permanent.
func (l *httpLog) once(ctx context.Context, u *url.URL, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	res, err := l.client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) { // it repeats the address
			err = ue.Err
		}
		if errors.Is(err, ErrAnswer) {
			err = backoff.Permanent(err)
		}
		return nil, err
	}
	defer res.Body.Close()
	switch c := res.StatusCode; {
	case c == http.StatusNotFound:
		_, _ = io.CopyN(io.Discard, res.Body, 4096)
		return nil, backoff.Permanent(fs.ErrNotExist)
	case c == http.StatusTooManyRequests || c >= 500:
		return nil, fmt.Errorf("the answer was %s", res.Status)
	case c != http.StatusOK:
		return nil, backoff.Permanent(fmt.Errorf("the answer was %s", res.Status))
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, backoff.Permanent(fmt.Errorf("%w: it has more than %d bytes", ErrAnswer, limit))
	}
	return body, nil
}
