package oidc

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

// SessionCookie is the name of the cookie of a browser that is signed in.
const SessionCookie = "assay_session"

const (
	prefixSession = "assay_session_"
	maxSession    = 200
)

func (s *SignIn) newID() string {
	return ulid.MustNew(ulid.Timestamp(s.now()), rand.Reader).String()
}

// person is the random id of whoever a token is about.
func (s *SignIn) person(ctx context.Context, v verified) (string, error) {
	return s.o.Store.Person(ctx, s.o.Issuer, v.subject, s.newID(), s.now())
}

func (s *SignIn) entry(person, action, session string) store.Trail {
	return store.Trail{Audit: []store.AuditEntry{{
		ID: s.newID(), At: s.now(), Actor: "person:" + person, Action: action, Target: "session:" + session, Outcome: "done",
	}}}
}

// begin makes a session. Of its secret only the hash is kept.
func (s *SignIn) begin(ctx context.Context, w http.ResponseWriter, person string, role api.Role, scope store.Scope) error {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	secret := prefixSession + base64.RawURLEncoding.EncodeToString(b)
	now := s.now()
	t := store.Token{
		ID: s.newID(), Hash: store.Hash(secret), Kind: store.TokenSession, Role: string(role), Scope: scope, Person: person,
		By: "person:" + person, Created: now, Expires: now.Add(s.o.SessionLife),
	}
	if err := s.o.Store.CreateToken(ctx, t, s.entry(person, "signIn", t.ID)); err != nil {
		return err
	}
	s.setSession(w, secret, int(s.o.SessionLife.Seconds()))
	return nil
}

func (s *SignIn) setSession(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: SessionCookie, Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode, MaxAge: age})
}

// session is the session of a request's cookie.
func (s *SignIn) session(ctx context.Context, r *http.Request) (t store.Token, given bool, err error) {
	c, err := r.Cookie(SessionCookie)
	if err != nil || c.Value == "" {
		return t, false, nil
	}
	if !strings.HasPrefix(c.Value, prefixSession) || len(c.Value) > maxSession {
		return t, true, server.ErrCredential
	}
	t, err = s.o.Store.TokenByHash(ctx, store.Hash(c.Value), s.now())
	if errors.Is(err, store.ErrNotFound) || err == nil && t.Kind != store.TokenSession {
		return t, true, server.ErrCredential
	}
	return t, true, err
}

// end ends the session of a request, if it has one.
func (s *SignIn) end(ctx context.Context, r *http.Request) error {
	t, given, err := s.session(ctx, r)
	if !given || errors.Is(err, server.ErrCredential) {
		return nil
	}
	if err != nil {
		return err
	}
	err = s.o.Store.RevokeToken(ctx, store.Scope{All: true}, t.ID, s.now(), s.entry(t.Person, "signOut", t.ID))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// logout ends a session here. The provider's own goes on: it is not ours.
func (s *SignIn) logout(w http.ResponseWriter, r *http.Request) {
	if err := s.end(r.Context(), r); err != nil {
		s.failed(w, r, err)
		return
	}
	s.setSession(w, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

// Authenticate is for [server.Authenticator]: a bearer token that is a JWT, or a
// session's cookie. A request with another Authorization is not looked at for a
// cookie: whoever says who they are is nobody else.
func (s *SignIn) Authenticate(ctx context.Context, r *http.Request) (server.Principal, bool, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, raw, _ := strings.Cut(header, " ")
		if raw = strings.TrimSpace(raw); !strings.EqualFold(scheme, "Bearer") || strings.Count(raw, ".") != 2 {
			return server.Principal{}, false, nil
		}
		return s.bearer(ctx, raw)
	}
	t, given, err := s.session(ctx, r)
	if !given || err != nil {
		return server.Principal{}, false, err
	}
	return server.Principal{ID: "person:" + t.Person, Role: api.Role(t.Role), All: t.Scope.All, Owners: t.Scope.Owners, Expires: t.Expires}, true, nil
}

// bearer is who an ID token is about. Nobody who has no role becomes a person
// here.
func (s *SignIn) bearer(ctx context.Context, raw string) (server.Principal, bool, error) {
	v, err := s.provider.verify(ctx, raw, "")
	if err != nil {
		return server.Principal{}, false, err
	}
	role, scope, ok := s.o.Rules.grant(v.claims)
	if !ok {
		return server.Principal{}, false, fmt.Errorf("%w: no rule gives it a role", server.ErrCredential)
	}
	person, err := s.person(ctx, v)
	if err != nil {
		return server.Principal{}, false, err
	}
	return server.Principal{ID: "person:" + person, Role: role, All: scope.All, Owners: scope.Owners, Expires: v.expires}, true, nil
}
