package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

const clientID = "assay-server"

// fakeProvider is an OpenID provider that can be made to misbehave. What a real
// one does is tried with Keycloak.
type fakeProvider struct {
	*httptest.Server
	t      *testing.T
	keys   atomic.Int64 // times that its keys were fetched
	broken atomic.Pointer[http.HandlerFunc]

	mu     sync.Mutex
	key    *rsa.PrivateKey
	kid    string
	change func(map[string]any) // of the discovery document
	code   func(r *http.Request) map[string]any
}

func newFakeProvider(t *testing.T) *fakeProvider {
	f := &fakeProvider{t: t}
	f.rotate("first")
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		doc := map[string]any{
			"issuer": f.URL, "authorization_endpoint": f.URL + "/authorize", "token_endpoint": f.URL + "/token", "jwks_uri": f.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.change != nil {
			f.change(doc)
		}
		_ = json.NewEncoder(w).Encode(doc)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		f.keys.Add(1)
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key.Public(), KeyID: f.kid, Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(f.code(r))
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := f.broken.Load(); h != nil {
			(*h)(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// breaks has every request answered by h; nil: as it should be.
func (f *fakeProvider) breaks(h http.HandlerFunc) {
	if h == nil {
		f.broken.Store(nil)
		return
	}
	f.broken.Store(&h)
}

// rotate replaces the key.
func (f *fakeProvider) rotate(kid string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.key, f.kid = key, kid
}

// claims are those of a good token, changed.
func (f *fakeProvider) claims(now time.Time, change map[string]any) map[string]any {
	c := map[string]any{"iss": f.URL, "aud": clientID, "sub": "alice", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "groups": []string{"admins"}}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// sign makes a token.
func (f *fakeProvider) sign(claims map[string]any) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return signed(f.t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: f.key, KeyID: f.kid}}, claims)
}

func signed(t *testing.T, key jose.SigningKey, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Sign(b)
	if err != nil {
		t.Fatal(err)
	}
	token, err := o.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

const rulesFile = `
format: assay/people/v1
rules:
  - {claim: groups, value: admins, role: admin, owners: all}
  - {claim: groups, value: assay-admins, role: admin, owners: all}
  - {claim: groups, value: assay-viewers-acme, role: viewer, owners: [acme]}
`

func someRules(t *testing.T) Rules {
	t.Helper()
	r, err := ReadRules([]byte(rulesFile), "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func someStore(t *testing.T) *store.Store {
	t.Helper()
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "network.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	st := store.New(db)
	if _, _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	by, _ := serverKey(t, ledger.RoleServer)
	return st.RecordedBy(server.Identity{Origin: "test.example", Own: by}.Record)
}

func newSignIn(t *testing.T, o Options) *SignIn {
	t.Helper()
	if o.ClientID == "" {
		o.ClientID = clientID
	}
	if o.URL == "" {
		o.URL = "http://127.0.0.1:1"
	}
	if o.Store == nil {
		o.Store = someStore(t)
	}
	if o.Rules.rules == nil {
		o.Rules = someRules(t)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A provider that misbehaves is not followed, not read without end, and never a
// reason to call a good token bad.
func TestProviderThatMisbehaves(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, c := range map[string]struct {
		change  func(map[string]any)
		handler http.HandlerFunc
		want    string
	}{
		"another issuer":                  {change: func(d map[string]any) { d["issuer"] = "https://other.example.org" }, want: "other.example.org"},
		"keys in the clear elsewhere":     {change: func(d map[string]any) { d["jwks_uri"] = "http://192.0.2.1/keys" }, want: "neither https nor on this machine"},
		"a token endpoint that is a file": {change: func(d map[string]any) { d["token_endpoint"] = "file:///etc/passwd" }, want: "neither https nor on this machine"},
		"a redirect":                      {handler: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }, want: "not followed"},
		"an endless answer":               {handler: endless, want: "more than"},
		"a fault":                         {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, want: "502"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProvider(t)
			f.change = c.change
			f.breaks(c.handler)
			s := newSignIn(t, Options{Issuer: f.URL})
			_, _, err := s.provider.discover(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, which does not have %q", err, c.want)
			}
		})
	}
	if elsewhere.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	block := []byte(`{"issuer": "` + strings.Repeat("x", 1<<16))
	for r.Context().Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func TestIssuersAndURLsInTheClear(t *testing.T) {
	st := someStore(t)
	for _, issuer := range []string{"", "accounts.example.org", "http://accounts.example.org", "http://127.0.0.1.example.org", "https://user:pass@example.org", "https://example.org/?a=b", "ftp://127.0.0.1"} {
		if _, err := New(Options{Issuer: issuer, ClientID: "c", URL: "http://127.0.0.1:1", Store: st}); err == nil {
			t.Errorf("the issuer %q is taken", issuer)
		}
	}
	for _, own := range []string{"", "http://assay.example.org", "https://assay.example.org/path", "https://u@assay.example.org"} {
		if _, err := New(Options{Issuer: "https://accounts.example.org", ClientID: "c", URL: own, Store: st}); err == nil {
			t.Errorf("the server's own URL %q is taken", own)
		}
	}
	if _, err := New(Options{Issuer: "https://accounts.example.org", ClientID: "c", URL: "https://assay.example.org/", Store: st}); err != nil {
		t.Error(err)
	}
}

// A provider that is away is tried again, and not by every request.
func TestProviderComesBack(t *testing.T) {
	f := newFakeProvider(t)
	var asked atomic.Int64
	f.breaks(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	now := time.Now()
	s := newSignIn(t, Options{Issuer: f.URL, Now: func() time.Time { return now }})
	for range 20 {
		if _, _, err := s.provider.discover(t.Context()); err == nil {
			t.Fatal("it is discovered")
		}
	}
	if asked.Load() != 1 {
		t.Errorf("it was asked %d times in a moment", asked.Load())
	}
	f.breaks(nil)
	now = now.Add(discoverEvery)
	if _, _, err := s.provider.discover(t.Context()); err != nil {
		t.Error(err)
	}
}
