package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/time/rate"

	"github.com/assay-bench/assay/network/server"
)

// Bounds of what the provider may take.
const (
	providerTimeout = 10 * time.Second
	maxAnswer       = 1 << 20
	maxAnswerHeader = 64 << 10
	discoverEvery   = 5 * time.Second
)

var (
	// errUnreachable: the provider cannot be asked now. Nothing is known of the
	// token that was shown.
	errUnreachable = fmt.Errorf("the OpenID provider: %w", server.ErrUnavailable)
	// errOften: the provider was asked a moment ago. Whoever shows tokens that no
	// key verifies makes us ask, and shall not keep the provider busy.
	errOften = errors.New("the provider's keys were fetched a moment ago")
)

// provider is what is known of the OpenID provider. It is asked when it is needed
// first, so that a server starts without it.
type provider struct {
	issuer, clientID string
	client           *http.Client
	now              func() time.Time

	mu       sync.Mutex
	tried    time.Time
	problem  error
	endpoint oauth2.Endpoint
	verifier *oidc.IDTokenVerifier // nil: not discovered yet
}

// checkIssuer says whether an issuer may be asked: over TLS, or on this machine.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("the issuer %q is not a URL such as https://accounts.example.org/realms/staff", issuer)
	}
	return checkURL(u)
}

// checkURL refuses what travels in the clear beyond this machine.
func checkURL(u *url.URL) error {
	if u.Scheme == "https" {
		return nil
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%s://%s is neither https nor on this machine", u.Scheme, u.Host)
}

// newClient is the HTTP client for the provider: bounded in time and size, and
// without redirects.
func newClient() *http.Client {
	base := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: providerTimeout}).DialContext,
		TLSHandshakeTimeout:    providerTimeout,
		ResponseHeaderTimeout:  providerTimeout,
		IdleConnTimeout:        time.Minute,
		MaxConnsPerHost:        8,
		MaxResponseHeaderBytes: maxAnswerHeader,
		ForceAttemptHTTP2:      true,
	}
	return &http.Client{
		Timeout:   providerTimeout,
		Transport: &bounded{base: base, reads: rate.NewLimiter(rate.Every(2*time.Second), 5)},
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			return fmt.Errorf("it redirects to %s, and is not followed", r.URL.Host)
		},
	}
}

// bounded is a transport that reads no endless answer, sends no secret in the
// clear, and fetches documents and keys only so often.
type bounded struct {
	base  http.RoundTripper
	reads *rate.Limiter
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := checkURL(r.URL); err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet && !b.reads.Allow() {
		return nil, errOften
	}
	resp, err := b.base.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	if resp.StatusCode >= 500 {
		resp.Body.Close()
		return nil, fmt.Errorf("%w: %s", errUnreachable, resp.Status)
	}
	resp.Body = &limitedBody{resp.Body, maxAnswer}
	return resp, nil
}

// limitedBody fails beyond so many bytes: a document that was cut is none.
type limitedBody struct {
	io.ReadCloser
	left int
}

func (l *limitedBody) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("the provider's answer has more than %d bytes", maxAnswer)
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// discover asks the provider for its endpoints, once. Where it fails it is tried
// again after a while.
func (p *provider) discover(ctx context.Context) (oauth2.Endpoint, *oidc.IDTokenVerifier, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verifier != nil {
		return p.endpoint, p.verifier, nil
	}
	if now := p.now(); p.problem == nil || now.Sub(p.tried) >= discoverEvery {
		p.tried = now
		p.problem = p.ask(ctx)
	}
	if p.problem != nil {
		return oauth2.Endpoint{}, nil, fmt.Errorf("%w: discovery at %s: %w", errUnreachable, p.issuer, p.problem)
	}
	return p.endpoint, p.verifier, nil
}

func (p *provider) ask(ctx context.Context) error {
	// It does not end with the request that happened to be the first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTimeout)
	defer cancel()
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.issuer)
	if err != nil {
		return err
	}
	var document struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := found.Claims(&document); err != nil {
		return err
	}
	for _, endpoint := range []string{document.Keys, found.Endpoint().AuthURL, found.Endpoint().TokenURL} {
		u, err := url.Parse(endpoint)
		if err != nil {
			return err
		}
		if err := checkURL(u); err != nil {
			return err
		}
	}
	keys := oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), p.client), document.Keys)
	p.endpoint = found.Endpoint()
	p.verifier = oidc.NewVerifier(p.issuer, keySet{keys}, &oidc.Config{ClientID: p.clientID, SupportedSigningAlgs: asymmetric(document.Algorithms), Now: p.now})
	return nil
}

// asymmetric are the algorithms of a provider whose keys can be published: with
// none and with HMAC anybody who knows what is public could sign.
func asymmetric(offered []string) (out []string) {
	for _, a := range offered {
		switch a {
		case oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA:
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		out = []string{oidc.RS256} // which every provider must have
	}
	return out
}

// keySet tells a key that is not there from a provider that is not: the library
// makes one text of both.
type keySet struct{ *oidc.RemoteKeySet }

type unreachableKey struct{}

// VerifySignature is for the library.
func (k keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.RemoteKeySet.VerifySignature(ctx, jwt)
	if told, ok := ctx.Value(unreachableKey{}).(*bool); ok && errors.Is(err, errUnreachable) {
		*told = true
	}
	return payload, err
}
