// Package webhook tells people's programs what a server decided: one signed POST
// a message, in the manner of standardwebhooks.com, so that libraries that people
// have can check it. docs/webhooks.md has the format.
//
// What it promises: what is sent is signed with its id and time, so that nobody
// else can send it and nobody can send it later; one try is bounded in time and in
// what is read; an answer other than 2xx is a failure, redirects too.
//
// What it refuses: to retry. The messages are rows, and who holds them tries again
// when Wait says.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Format names the format of the body.
const Format = "assay/webhook/v1"

// Kinds are for whom a message can be.
var Kinds = []string{"page", "ticket", "reset", "transition"}

// Bounds of a message and of a try.
const (
	minSecret = 24
	maxURL    = 2000
	maxAnswer = 4 << 10
)

// Message is the body.
type Message struct {
	Format string    `json:"format"`
	ID     string    `json:"id"`
	Kind   string    `json:"kind"`
	Time   time.Time `json:"time"`
	Server string    `json:"server"`
	Node   string    `json:"node"` // empty: it is about the network
	Owner  string    `json:"owner"`
	// Key is the same for all messages about one matter of a node, and Resolved ends
	// it: what a pager needs to put them together.
	Key      string `json:"key"`
	Resolved bool   `json:"resolved"`
	Text     string `json:"text"`
	// Transition is what changed; nil: the message is about no one change.
	Transition *Transition `json:"transition,omitempty"`
}

// Transition is a fact that changed.
type Transition struct {
	ID            string   `json:"id"` // of its statement, in the log
	Replica       string   `json:"replica"`
	Fact          string   `json:"fact"`
	From          string   `json:"from"`
	To            string   `json:"to"`
	Reasons       []string `json:"reasons"`
	Actor         string   `json:"actor"`
	PolicyVersion int64    `json:"policy_version"`
}

// Encode is the body's bytes.
func (m Message) Encode() ([]byte, error) {
	m.Format, m.Time = Format, m.Time.UTC()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("encode a webhook: %w", err)
	}
	return foreign.JSON(b.Bytes()), nil
}

// Secret signs. It prints as nothing.
type Secret struct{ key []byte }

// ParseSecret reads a secret: whsec_ and base64, as the libraries have it, or any
// other text as it is. Space around it is not part of it.
func ParseSecret(text []byte) (Secret, error) {
	text = bytes.TrimSpace(text)
	key := bytes.Clone(text)
	if b64, ok := bytes.CutPrefix(text, []byte("whsec_")); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(string(b64)); err != nil {
			return Secret{}, errors.New("the webhooks' secret begins with whsec_ and is not base64 behind it")
		}
	}
	if len(key) < minSecret {
		return Secret{}, fmt.Errorf("the webhooks' secret has %d bytes; at least %d are needed, for example: echo whsec_$(openssl rand -base64 32)", len(key), minSecret)
	}
	return Secret{key}, nil
}

// String hides the secret.
func (Secret) String() string { return "(a secret)" }

// GoString hides the secret.
func (Secret) GoString() string { return "(a secret)" }

// Sign gives the signature header of a message.
func (s Secret) Sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Targets are where each kind goes.
type Targets map[string]string

// ParseTarget reads KIND=URL and adds it.
func (t Targets) ParseTarget(text string) error {
	kind, address, ok := strings.Cut(text, "=")
	if !ok || !slices.Contains(Kinds, kind) {
		return fmt.Errorf("webhook %q: write KIND=URL, with KIND one of %s", foreign.Line(text, 100), strings.Join(Kinds, ", "))
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || len(address) > maxURL:
		return fmt.Errorf("webhook %s: its URL is not http:// or https:// with a host", kind)
	case u.User != nil:
		return fmt.Errorf("webhook %s: a user in the URL is not supported; the message is signed", kind)
	case t[kind] != "":
		return fmt.Errorf("webhook %s is there twice", kind)
	}
	t[kind] = address
	return nil
}

// Send tries once. Now is the time that is signed; a receiver refuses old ones.
func Send(ctx context.Context, c *http.Client, to string, s Secret, id string, body []byte, now time.Time) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("make a request: the URL of the webhook is none")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "assay-server")
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", s.Sign(id, now, body))
	resp, err := c.Do(req)
	if err != nil {
		// Its own message repeats the URL, which may hold a key of the receiver's.
		if ue := (*url.Error)(nil); errors.As(err, &ue) {
			err = ue.Err
		}
		return fmt.Errorf("send to %s: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // only for the message
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("send to %s: it answered %d: %s", req.URL.Host, resp.StatusCode, foreign.Line(said, 200))
	}
	return nil
}

// Waits of a message that was not taken: doubled from the first to the longest.
const (
	firstWait   = 5 * time.Second
	longestWait = 15 * time.Minute
	MaxAttempts = 120 // more than a day; then it is given up, and said
)

// Wait is how long to wait after that many tries. Spread is from 0 to 1 and keeps
// messages that failed together from coming together again.
func Wait(attempts int, spread float64) time.Duration {
	d := longestWait
	if attempts < 20 {
		d = min(longestWait, firstWait<<max(0, attempts-1))
	}
	return d/2 + time.Duration(float64(d/2)*min(max(spread, 0), 1))
}
