package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/server"
)

const (
	maxReturn  = 500
	maxAttempt = 2000
	// attemptLife is how long somebody may take at the provider's page.
	attemptLife = 10 * time.Minute
)

// attempt is a sign-in under way. It lies in a cookie of the browser that began
// it: any server process can end it, and no other browser.
type attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Return   string `json:"return,omitempty"`
}

// attemptCookie is a name that over TLS no other host, and no page of a
// neighbouring one, can write.
func (s *SignIn) attemptCookie() string {
	if s.secure {
		return "__Host-assay_signin"
	}
	return "assay_signin"
}

func (s *SignIn) setAttempt(w http.ResponseWriter, value string, age time.Duration) {
	c := &http.Cookie{Name: s.attemptCookie(), Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode, MaxAge: int(age.Seconds())}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

func (s *SignIn) config(e oauth2.Endpoint) *oauth2.Config {
	return &oauth2.Config{ClientID: s.o.ClientID, ClientSecret: s.o.ClientSecret, Endpoint: e, RedirectURL: s.callback, Scopes: []string{oidc.ScopeOpenID}}
}

// login sends a browser to the provider.
func (s *SignIn) login(w http.ResponseWriter, r *http.Request) {
	endpoint, _, err := s.provider.discover(r.Context())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: localPath(r.URL.Query().Get("return"))}
	b, err := json.Marshal(a)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	s.setAttempt(w, base64.RawURLEncoding.EncodeToString(b), attemptLife)
	http.Redirect(w, r, s.config(endpoint).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), http.StatusFound)
}

// begun is the attempt that a browser's cookie has.
func (s *SignIn) begun(r *http.Request) (a attempt, ok bool) {
	c, err := r.Cookie(s.attemptCookie())
	if err != nil || len(c.Value) > maxAttempt {
		return a, false
	}
	b, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(b, &a) != nil {
		return a, false
	}
	return a, a.State != "" && a.Nonce != "" && a.Verifier != ""
}

// answer takes the provider's answer. The attempt ends with it, good or bad.
func (s *SignIn) answer(w http.ResponseWriter, r *http.Request) {
	a, ok := s.begun(r)
	s.setAttempt(w, "", 0)
	q := r.URL.Query()
	if !ok || !single(q, "state") || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.State)) != 1 {
		say(w, http.StatusBadRequest, "this browser did not begin this sign-in, or took too long: begin again at "+LoginPath)
		return
	}
	if iss := q.Get("iss"); q.Has("iss") && iss != s.o.Issuer {
		say(w, http.StatusBadRequest, "the answer is from another provider: begin again at "+LoginPath)
		return
	}
	if q.Has("error") {
		say(w, http.StatusForbidden, "the provider refused: "+foreign.Line(q.Get("error"), 100))
		return
	}
	if !single(q, "code") {
		say(w, http.StatusBadRequest, "the provider's answer has no code: begin again at "+LoginPath)
		return
	}
	s.signIn(w, r, a, q.Get("code"))
}

func single(q url.Values, name string) bool { return len(q[name]) == 1 && q[name][0] != "" }

// signIn gives the browser a session, if the rules give the person anything.
func (s *SignIn) signIn(w http.ResponseWriter, r *http.Request, a attempt, code string) {
	v, err := s.exchange(r.Context(), a, code)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	role, scope, ok := s.o.Rules.grant(v.claims)
	if !ok {
		say(w, http.StatusForbidden, "the provider knows you, and no rule of this server gives you a role: ask its administrator")
		return
	}
	person, err := s.person(r.Context(), v)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	if err := s.end(r.Context(), r); err != nil { // a browser has one session
		s.failed(w, r, err)
		return
	}
	if err := s.begin(r.Context(), w, person, role, scope); err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Location", localPath(a.Return))
	w.WriteHeader(http.StatusSeeOther)
}

var errBusy = errors.New("too many sign-ins at once")

// exchange turns a code into the claims of a good ID token.
func (s *SignIn) exchange(ctx context.Context, a attempt, code string) (verified, error) {
	select {
	case s.exchanges <- struct{}{}:
		defer func() { <-s.exchanges }()
	default:
		return verified{}, errBusy
	}
	endpoint, _, err := s.provider.discover(ctx)
	if err != nil {
		return verified{}, err
	}
	t, err := s.config(endpoint).Exchange(oidc.ClientContext(ctx, s.provider.client), code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		if errors.Is(err, errUnreachable) {
			return verified{}, err
		}
		return verified{}, errors.Join(server.ErrCredential, err)
	}
	raw, _ := t.Extra("id_token").(string)
	if raw == "" {
		return verified{}, errors.Join(server.ErrCredential, errors.New("the provider gave no ID token"))
	}
	return s.provider.verify(ctx, raw, a.Nonce)
}

// failed answers for what went wrong. Details are for the log: an error of the
// provider may repeat what was sent to it.
func (s *SignIn) failed(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, server.ErrCredential):
		s.log.InfoContext(r.Context(), "a sign-in was refused", "error", foreign.Line(err.Error(), 300))
		say(w, http.StatusForbidden, "the provider's answer does not count: begin again at "+LoginPath)
	case errors.Is(err, errUnreachable):
		s.log.WarnContext(r.Context(), "the OpenID provider does not answer", "error", foreign.Line(err.Error(), 300))
		say(w, http.StatusServiceUnavailable, "the provider does not answer now: try again")
	case errors.Is(err, errBusy):
		say(w, http.StatusServiceUnavailable, "many sign in at once: try again")
	default:
		s.log.ErrorContext(r.Context(), "a sign-in failed", "error", foreign.Line(err.Error(), 300))
		say(w, http.StatusInternalServerError, "the server failed; its log says why")
	}
}
