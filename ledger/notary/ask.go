package notary

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxAnswer bounds what a witness may answer: a cosignature has 150 bytes.
const maxAnswer = 64 << 10

var (
	errLongAnswer = fmt.Errorf("the witness answers with more than %d bytes", maxAnswer)
	errElsewhere  = errors.New("the witness sends us elsewhere: put the address that answers into the policy")
)

// witnessClient asks witnesses. They are somebody else's, so each answer has an
// end in bytes and in time, and comes from the address that the policy names.
func witnessClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout, // for all of it, the body too
		Transport: bounded{&http.Transport{
			TLSHandshakeTimeout: timeout, ResponseHeaderTimeout: timeout, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: maxAnswer, MaxConnsPerHost: 4, DisableCompression: true,
		}},
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			return fmt.Errorf("%w (it named %s)", errElsewhere, r.URL.Redacted())
		},
	}
}

// bounded is a transport whose answers have at most maxAnswer bytes. Tessera
// reads all of an answer before it looks at it.
type bounded struct{ *http.Transport }

// RoundTrip sends one request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > maxAnswer {
		return nil, errors.Join(errLongAnswer, resp.Body.Close())
	}
	resp.Body = &boundedBody{resp.Body, maxAnswer}
	return resp, nil
}

// boundedBody fails when there is more than left, rather than to end there: half
// an answer is not an answer.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errLongAnswer
	}
	return n, err
}
