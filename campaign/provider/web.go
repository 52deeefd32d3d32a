package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Web makes the requests of a provider with an HTTP API and a bearer key: bounded,
// each after its turn, none of them twice, no redirect followed, since that would
// take the key along.
type Web struct {
	// Base is the API's URL, without a slash at its end.
	Base string
	// Key is the bearer key.
	Key string
	// Wait gives each request its turn.
	Wait Wait
	// Transport carries the requests; nil: http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout is for one request and its answer; 0: 30 s.
	Timeout time.Duration
	// MaxBody bounds an answer, in bytes; 0: 8 MiB.
	MaxBody int64
}

// maxSaid is how much of a provider's own words goes into an error.
const maxSaid = 200

// Answer is what a provider said.
type Answer struct {
	Status int
	Body   []byte
}

// Said is the beginning of the body as one line that can be shown.
func (a Answer) Said() string { return foreign.Line(a.Body, maxSaid) }

// JSON decodes the body, or gives [ErrMalformed].
func (a Answer) JSON(into any) error {
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("%w: HTTP %d, %s: %s", ErrMalformed, a.Status, foreign.Line(err.Error(), maxSaid), a.Said())
	}
	return nil
}

// Do makes one request, with body as JSON unless it is nil. Its error is of what
// stands in the way whatever was asked: the network, a key that was refused (401,
// 403), a rate (429), no money (402), a body without end. What any other status
// means is the adapter's to say.
func (w Web) Do(ctx context.Context, c Call, method, path string, body any) (Answer, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return Answer{}, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
	}
	if err := w.Wait.Turn(ctx, c); err != nil {
		return Answer{}, fmt.Errorf("%w: wait for a turn to %s: %w", ErrNotSent, c, err)
	}
	timeout := w.Timeout
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(w.Base, "/")+path, bytes.NewReader(data))
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	req.Header.Set("Authorization", "Bearer "+w.Key)
	req.Header.Set("Accept", "application/json")
	req.Close = true // on a connection that was used before, the library asks a second time by itself
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return w.send(req)
}

// send makes the request and reads its answer.
func (w Web) send(req *http.Request) (Answer, error) {
	client := http.Client{Transport: w.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)
	}
	defer res.Body.Close()
	limit := w.MaxBody
	if limit <= 0 {
		limit = 8 << 20
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	a := Answer{Status: res.StatusCode, Body: b}
	switch {
	case err != nil:
		return a, fmt.Errorf("%s %s: read the answer: %w", req.Method, req.URL.Path, err)
	case int64(len(b)) > limit:
		return Answer{Status: a.Status}, fmt.Errorf("%w: %s %s answered with more than %d bytes", ErrMalformed, req.Method, req.URL.Path, limit)
	}
	if err := a.refused(); err != nil {
		return a, fmt.Errorf("%s %s: HTTP %d: %w: %s", req.Method, req.URL.Path, a.Status, err, a.Said())
	}
	return a, nil
}

// refused is what a status means for every request.
func (a Answer) refused() error {
	switch a.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrKey
	case http.StatusPaymentRequired:
		return ErrNoMoney
	case http.StatusTooManyRequests:
		return ErrRate
	}
	return nil
}

// Unexpected is the error of a status that an adapter does not know.
func (a Answer) Unexpected() error {
	return fmt.Errorf("HTTP %d: %s", a.Status, a.Said())
}

// PlainID refuses an id that cannot stand in a path, a row or a log as it is.
func PlainID(id string) error {
	if id == "" || len(id) > 128 {
		return fmt.Errorf("%w: an id of %d bytes", ErrMalformed, len(id))
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r) {
			return fmt.Errorf("%w: an id with characters that none should have: %s", ErrMalformed, foreign.Line(id, maxSaid))
		}
	}
	if strings.Trim(id, ".") == "" {
		return errors.Join(ErrMalformed, errors.New("an id of dots"))
	}
	return nil
}
