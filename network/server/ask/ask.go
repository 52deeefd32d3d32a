// Package ask sends completions to a node by the way that customers' requests take:
// through the router, pinned to the node, or straight to its serving URL where no
// router is configured.
//
// What it promises: a request looks like a customer's. The header that pins it is
// taken off by the router ([PinHeader]), and nothing else in it says that it is ours.
// Connections are those of the caller's client, which is egress.Client in a server:
// a node names its own address, and must not make the server connect to another's.
// Whatever comes back is bounded in bytes and in time by the caller's context.
//
// What it refuses: to judge. When what arrived is all that it tells.
package ask

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/assay-bench/assay/network/control"
)

// PinHeader pins a request to a replica. deploy/haproxy.cfg looks its value up, and
// takes it off before anybody else sees it.
const PinHeader = "X-Assay-Pin"

// userAgent is that of the most usual client: ours would tell a node who asks.
const userAgent = "OpenAI/Python 1.99.9"

// Pin is the value of PinHeader for a replica. Who does not know the secret can
// neither guess it nor tell which replica it is of.
func Pin(secret []byte, replica string) string {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("assay/pin/v1 " + replica))
	return hex.EncodeToString(m.Sum(nil))
}

// MinSecret is how long the secret of pins is at least, in bytes.
const MinSecret = 16

// Target is who is asked.
type Target struct {
	Replica    string // its id
	ServingURL string // as the node told it
	Model      string
}

// Way is how nodes are asked. The zero Way asks straight, without a key.
type Way struct {
	Client *http.Client // nil: requests are refused; in a server, egress.Client
	Router string       // base URL of the router; empty: straight to the serving URL
	// ByRouter connects to the router, which is the operator's own; nil: Client.
	ByRouter *http.Client
	Secret   []byte // of the pins; needed with Router
	APIKey   string // that customers have; empty: none
}

// Check says what is missing.
func (w *Way) Check() error {
	if w.Client == nil {
		return errors.New("ask nodes: no client was given")
	}
	if w.Router == "" {
		return nil
	}
	u, err := url.Parse(w.Router)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the router's address: write http://HOST:PORT or https://HOST:PORT")
	case len(w.Secret) < MinSecret:
		return fmt.Errorf("the secret of the router's pins has %d bytes: give it at least %d", len(w.Secret), MinSecret)
	}
	return nil
}

// base is where requests for a target go.
func (w *Way) base(t Target) (string, error) {
	if w.Router != "" {
		return strings.TrimSuffix(w.Router, "/"), nil
	}
	s, err := control.ParseServing(t.ServingURL)
	if err != nil {
		return "", err
	}
	return s.URL(), nil
}

// Do sends a request to a target: a GET where there is no body, else a POST of JSON.
// The caller closes and bounds what comes back.
func (w *Way) Do(ctx context.Context, t Target, path string, body []byte) (*http.Response, error) {
	if w.Client == nil {
		return nil, w.Check()
	}
	base, err := w.base(t)
	if err != nil {
		return nil, err
	}
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", userAgent)
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if w.APIKey != "" {
		r.Header.Set("Authorization", "Bearer "+w.APIKey)
	}
	if w.Router != "" {
		r.Header.Set(PinHeader, Pin(w.Secret, t.Replica))
	}
	if w.Router != "" && w.ByRouter != nil {
		return w.ByRouter.Do(r)
	}
	return w.Client.Do(r)
}
