// Package remote lets commands ask an assay server: where it is, who asks, and
// what its refusals mean.
//
// It promises that a token goes to the server that was named and to no other: over
// TLS, or to this machine, and never after a redirect.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

// Variables of the environment that stand for the flags.
const (
	ServerVariable = "ASSAY_SERVER"
	TokenVariable  = "ASSAY_TOKEN_FILE"
)

// Flags say which server a command asks, and with whose token.
type Flags struct {
	Server    string
	TokenFile string
	CA        string
}

// Register adds the flags.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.Server, "server", "", "the server's `URL`; by default "+ServerVariable+" in the environment")
	fs.StringVar(&f.TokenFile, "token-file", "", "`file` with an API token, for its owner only; by default "+TokenVariable+" in the environment")
	fs.StringVar(&f.CA, "tls-ca", "", "trust the certificates of these authorities, a PEM `file`, in place of the system's")
}

// Client asks a server.
type Client struct {
	*api.ClientWithResponses
	server string
}

// Open reads the token and makes a client. It asks nothing yet.
func (f Flags) Open() (*Client, error) {
	if f.Server == "" {
		f.Server = os.Getenv(ServerVariable)
	}
	if f.TokenFile == "" {
		f.TokenFile = os.Getenv(TokenVariable)
	}
	switch {
	case f.Server == "":
		return nil, fmt.Errorf("which server? Give --server URL, or set %s", ServerVariable)
	case f.TokenFile == "":
		return nil, fmt.Errorf("with whose token? Give --token-file FILE, or set %s", TokenVariable)
	}
	if err := checkURL(f.Server); err != nil {
		return nil, err
	}
	token, err := cli.ReadToken(f.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	h, err := f.http()
	if err != nil {
		return nil, err
	}
	bearer := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	c, err := api.NewClientWithResponses(f.Server, api.WithHTTPClient(h), api.WithRequestEditorFn(bearer))
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	return &Client{c, f.Server}, nil
}

// checkURL refuses to send a token where others can read it.
func checkURL(server string) error {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "":
		return fmt.Errorf("--server %q: write https://HOST[:PORT]", foreign.Line(server, 200))
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return fmt.Errorf("--server %s: everybody on the way would read the token; use https", foreign.Line(server, 200))
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (f Flags) http() (*http.Client, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute,
		DialContext:     (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if f.CA != "" {
		b, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("--tls-ca: %s has no certificate in PEM form", f.CA)
		}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: t, Timeout: 2 * time.Minute, CheckRedirect: stay}, nil
}

// maxWords bounds what is shown of a server's words.
const maxWords = 1000

// Answer says what is wrong with an answer, if something is: the first two values
// that every generated call has, and its error.
func (c *Client) Answer(r *http.Response, body []byte, err error) error {
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.server, plain(err))
	}
	if r.StatusCode < 300 {
		return nil
	}
	var p api.Problem
	detail := r.Status
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(body, &p) == nil && p.Detail != nil {
		detail = foreign.Line(*p.Detail, maxWords)
		if p.Instance != nil && r.StatusCode >= 500 {
			detail += " (request " + foreign.Line(*p.Instance, 100) + ")"
		}
	}
	switch r.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("%s does not know the token: %s", c.server, detail)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return fmt.Errorf("%s has no time now: %s; try again in %s s", c.server, detail, foreign.Line(r.Header.Get("Retry-After"), 20))
	}
	return fmt.Errorf("%s refused: %s", c.server, detail)
}

// plain takes the URL away that the client's errors repeat.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
