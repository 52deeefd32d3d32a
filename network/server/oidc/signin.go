package oidc

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/store"
)

// DefaultSessionLife is how long a browser stays signed in: a working day. A role
// that the provider takes away ends with the session at the latest.
const DefaultSessionLife = 8 * time.Hour

// Paths under which a [SignIn] answers.
const (
	LoginPath    = "/auth/login"
	CallbackPath = "/auth/callback"
	LogoutPath   = "/auth/logout"
)

// maxExchanges is how many sign-ins ask the provider at once.
const maxExchanges = 8

// Options say whose word is taken, and for what.
type Options struct {
	Issuer       string // of the ID tokens, as https://accounts.example.org/realms/staff
	ClientID     string // of this server at the provider
	ClientSecret string // empty: a public client, which PKCE alone protects
	Rules        Rules
	URL          string // where browsers reach this server: scheme and host
	Store        *store.Store
	SessionLife  time.Duration    // zero: DefaultSessionLife
	Log          *slog.Logger     // nil: nothing is logged
	Now          func() time.Time // nil: the clock
}

// SignIn signs people in. It is the [server.Authenticator] of sessions and of ID
// tokens, and answers browsers at the paths above.
type SignIn struct {
	o         Options
	provider  *provider
	callback  string
	secure    bool // browsers come over TLS
	now       func() time.Time
	log       *slog.Logger
	mux       *http.ServeMux
	exchanges chan struct{}
}

// New makes a sign-in. The provider is not asked yet: a server starts without it.
func New(o Options) (*SignIn, error) {
	if err := checkIssuer(o.Issuer); err != nil {
		return nil, err
	}
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || strings.Trim(base.Path, "/") != "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("the server's own URL %q is not of the form https://HOST", o.URL)
	}
	if err := checkURL(base); err != nil {
		return nil, fmt.Errorf("the server's own URL: %w", err)
	}
	if o.ClientID == "" || o.Store == nil || !o.Store.Records() {
		return nil, errors.New("a sign-in needs a client id, and a store that records who signed in")
	}
	if o.SessionLife <= 0 {
		o.SessionLife = DefaultSessionLife
	}
	s := &SignIn{
		o: o, callback: base.Scheme + "://" + base.Host + CallbackPath, secure: base.Scheme == "https", now: o.Now, log: o.Log,
		mux: http.NewServeMux(), exchanges: make(chan struct{}, maxExchanges),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.provider = &provider{issuer: o.Issuer, clientID: o.ClientID, client: newClient(), now: s.now}
	s.mux.HandleFunc("GET "+LoginPath, s.login)
	s.mux.HandleFunc("GET "+CallbackPath, s.answer)
	s.mux.HandleFunc("POST "+LogoutPath, s.logout)
	return s, nil
}

// ServeHTTP answers browsers. That a request was sent by a page of another origin
// is for the server to refuse, as everywhere.
func (s *SignIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	r.Body = http.NoBody // nobody reads one
	s.mux.ServeHTTP(w, r)
}

// say answers a person in a line.
func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // whoever asked may be gone
}

// localPath is where a browser goes after it is signed in: a path of this server,
// or the default. What a browser would read as another host is none.
func localPath(asked string) string {
	const otherwise = "/api/v1/me"
	u, err := url.Parse(asked)
	if err != nil || len(asked) > maxReturn || !strings.HasPrefix(asked, "/") || u.Scheme != "" || u.Host != "" || u.User != nil {
		return otherwise
	}
	if strings.Contains(asked, "//") || strings.Contains(asked, `\`) || strings.HasPrefix(u.Path, "/auth/") {
		return otherwise
	}
	for _, c := range []byte(asked) {
		if c <= ' ' || c >= 0x7f {
			return otherwise
		}
	}
	for _, c := range []byte(u.Path) {
		if c < ' ' || c == '\\' || c == 0x7f {
			return otherwise
		}
	}
	return asked
}
