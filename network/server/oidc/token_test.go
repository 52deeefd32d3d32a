package oidc

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
)

// ask authenticates a request with a bearer token.
func ask(t *testing.T, s *SignIn, token string) (server.Principal, bool, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/api/v1/me", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return s.Authenticate(t.Context(), r)
}

func TestBearerTokens(t *testing.T) {
	f := newFakeProvider(t)
	now := time.Now()
	s := newSignIn(t, Options{Issuer: f.URL, Now: func() time.Time { return now }})
	good := f.sign(f.claims(now, nil))
	p, ok, err := ask(t, s, good)
	if err != nil || !ok || p.Role != api.RoleAdmin || !p.All || !strings.HasPrefix(p.ID, "person:") || strings.Contains(p.ID, "alice") {
		t.Fatalf("a good token: %+v %t %v", p, ok, err)
	}
	if again, _, _ := ask(t, s, good); again.ID != p.ID {
		t.Errorf("one person is %s and %s", p.ID, again.ID)
	}
	if bob, ok, err := ask(t, s, f.sign(f.claims(now, map[string]any{"sub": "bob", "groups": []string{"assay-viewers-acme"}}))); err != nil || !ok || bob.All || bob.Role != api.RoleViewer || !slices.Equal(bob.Owners, []string{"acme"}) || bob.ID == p.ID {
		t.Errorf("bob is %+v %t %v", bob, ok, err)
	}
	if _, ok, err := ask(t, s, f.sign(f.claims(now, map[string]any{"aud": []string{clientID, "other"}, "azp": clientID}))); err != nil || !ok {
		t.Errorf("a token for us and another, of which we are the party: %v", err)
	}

	part := strings.Split(good, ".")
	forged := func(header string, claims map[string]any) string {
		b, _ := json.Marshal(claims)
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(b) + "."
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(f.key.Public()))})
	stranger := newFakeProvider(t)
	stranger.kid = f.kid
	for name, token := range map[string]string{
		"of another audience":       f.sign(f.claims(now, map[string]any{"aud": "other"})),
		"for two, for another":      f.sign(f.claims(now, map[string]any{"aud": []string{clientID, "other"}, "azp": "other"})),
		"for two, for nobody":       f.sign(f.claims(now, map[string]any{"aud": []string{clientID, "other"}})),
		"of another issuer":         f.sign(f.claims(now, map[string]any{"iss": "https://other.example.org"})),
		"that has expired":          f.sign(f.claims(now, map[string]any{"exp": now.Add(-time.Second).Unix()})),
		"without an end":            f.sign(f.claims(now, map[string]any{"exp": nil})),
		"of the future":             f.sign(f.claims(now, map[string]any{"nbf": now.Add(time.Hour).Unix()})),
		"about nobody":              f.sign(f.claims(now, map[string]any{"sub": ""})),
		"about somebody very long":  f.sign(f.claims(now, map[string]any{"sub": strings.Repeat("a", 300)})),
		"for access":                f.sign(f.claims(now, map[string]any{"typ": "Bearer"})),
		"for log-out":               f.sign(f.claims(now, map[string]any{"events": map[string]any{}})),
		"that nothing maps":         f.sign(f.claims(now, map[string]any{"groups": []string{"others"}})),
		"without groups":            f.sign(f.claims(now, map[string]any{"groups": nil})),
		"with groups as an object":  f.sign(f.claims(now, map[string]any{"groups": map[string]any{"admins": true}})),
		"without a signature":       forged(`{"alg":"none"}`, f.claims(now, nil)),
		"without, in other letters": forged(`{"alg":"None"}`, f.claims(now, nil)),
		"with its signature cut":    part[0] + "." + part[1] + ".",
		"with other claims":         part[0] + "." + strings.Split(forged("{}", f.claims(now, map[string]any{"sub": "eve"})), ".")[1] + "." + part[2],
		"signed by the public key":  signed(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: public, KeyID: f.kid}}, f.claims(now, nil)),
		"signed by a stranger":      signed(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: stranger.key, KeyID: f.kid}}, f.claims(now, nil)),
		"that is too long":          f.sign(f.claims(now, map[string]any{"x": strings.Repeat("a", maxIDToken)})),
		"that is dots":              "..",
	} {
		if p, ok, err := ask(t, s, token); ok || !errors.Is(err, server.ErrCredential) {
			t.Errorf("a token %s: %+v %t %v", name, p, ok, err)
		}
	}
	// What is no JWT is for another authenticator.
	if _, ok, err := ask(t, s, "assay_api_abc"); ok || err != nil {
		t.Errorf("an API token: %t %v", ok, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The provider's new key is found by itself; tokens that no key verifies do not
// keep the provider busy; a provider that is away makes no token bad.
func TestKeysAreFetchedWhenTheyChange(t *testing.T) {
	f := newFakeProvider(t)
	s := newSignIn(t, Options{Issuer: f.URL})
	old := f.sign(f.claims(time.Now(), nil))
	if _, ok, err := ask(t, s, old); !ok || err != nil {
		t.Fatal(err)
	}
	f.rotate("second")
	if _, ok, err := ask(t, s, f.sign(f.claims(time.Now(), nil))); !ok || err != nil {
		t.Errorf("the new key's token: %v", err)
	}
	if _, ok, err := ask(t, s, old); ok || !errors.Is(err, server.ErrCredential) {
		t.Errorf("the old key's token: %t %v", ok, err)
	}
	stranger := newFakeProvider(t)
	for range 100 {
		if _, ok, err := ask(t, s, stranger.sign(f.claims(time.Now(), nil))); ok || !errors.Is(err, server.ErrCredential) {
			t.Fatalf("a stranger's token: %t %v", ok, err)
		}
	}
	if n := f.keys.Load(); n > 20 {
		t.Errorf("the keys were fetched %d times", n)
	}

	away := newSignIn(t, Options{Issuer: f.URL})
	if _, _, err := away.provider.discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	good := f.sign(f.claims(time.Now(), nil))
	f.breaks(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if _, ok, err := ask(t, away, good); ok || errors.Is(err, server.ErrCredential) || !errors.Is(err, errUnreachable) {
		t.Errorf("with the provider away: %t %v", ok, err)
	}
}
