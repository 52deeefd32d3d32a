package oidc

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

func serverKey(t *testing.T, role ledger.Role) (ledger.Signer, ledger.Key) {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	by := ledger.HeldKey(priv)
	k, err := ledger.StateKey(t.Context(), by.Public(), by, ledger.KeyOptions{Node: "test", Owner: "test", Roles: []ledger.Role{role}})
	if err != nil {
		t.Fatal(err)
	}
	return by, k
}

// whole is a server as it runs, with a sign-in.
func whole(t *testing.T, issuer string, rate server.Rate) (string, *SignIn) {
	t.Helper()
	id := server.Identity{Origin: "test.example"}
	id.Enrol, id.EnrolKey = serverKey(t, ledger.RoleEnrol)
	id.Own, id.OwnKey = serverKey(t, ledger.RoleServer)
	s := newSignIn(t, Options{Issuer: issuer, Store: someStore(t).RecordedBy(id.Record)})
	h, err := server.New(server.Options{
		Store: s.o.Store, Identity: id, Authenticators: []server.Authenticator{s}, SignIn: LoginPath, Mounts: map[string]http.Handler{"/auth/": s}, AddressRate: &rate,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	l := httptest.NewServer(h)
	t.Cleanup(func() { h.Quit(); l.Close(); cancel(); <-done })
	return l.URL, s
}

// A person's session and ID token at the server itself: as far as role and owners
// go, and not for a page of another origin.
func TestPeopleAtTheServer(t *testing.T) {
	f := newFakeProvider(t)
	at, s := whole(t, f.URL, server.Rate{})
	w := httptest.NewRecorder()
	if err := s.begin(t.Context(), w, "01ARZ3NDEKTSV4RRFFQ69G5FAV", api.RoleOperator, store.Scope{Owners: []string{"acme"}}); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string, headers ...string) int {
		t.Helper()
		r, err := http.NewRequest(method, at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		return got.StatusCode
	}
	cookie := SessionCookie + "=" + w.Result().Cookies()[0].Value
	const token = `{"owner":"acme"}`
	admin := "Bearer " + f.sign(f.claims(time.Now(), nil))
	for what, c := range map[string]struct{ got, want int }{
		"a session":                         {ask("GET", "/api/v1/me", "", "Cookie", cookie), 200},
		"it makes an enrolment token":       {ask("POST", "/api/v1/enrolment-tokens", token, "Cookie", cookie), 201},
		"for another owner":                 {ask("POST", "/api/v1/enrolment-tokens", `{"owner":"other"}`, "Cookie", cookie), 404},
		"beyond its role":                   {ask("POST", "/api/v1/tokens", `{"name":"a","role":"viewer","owners":["acme"]}`, "Cookie", cookie), 403},
		"by a page of another origin":       {ask("POST", "/api/v1/enrolment-tokens", token, "Cookie", cookie, "Origin", "https://evil.example.org"), 403},
		"by such a page, as a browser says": {ask("POST", "/api/v1/enrolment-tokens", token, "Cookie", cookie, "Sec-Fetch-Site", "cross-site"), 403},
		"with a bad token beside it":        {ask("GET", "/api/v1/me", "", "Cookie", cookie, "Authorization", "Bearer assay_api_nobody"), 401},
		"an ID token":                       {ask("GET", "/api/v1/me", "", "Authorization", admin), 200},
		"an ID token of nobody":             {ask("GET", "/api/v1/me", "", "Authorization", "Bearer "+f.sign(f.claims(time.Now(), map[string]any{"groups": "none"}))), 401},
		"it signs out elsewhere's page":     {ask("POST", LogoutPath, "", "Cookie", cookie, "Origin", "https://evil.example.org"), 403},
		"nothing":                           {ask("GET", "/api/v1/me", ""), 401},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, not %d", what, c.got, c.want)
		}
	}
	if got := ask("POST", LogoutPath, "", "Cookie", cookie); got != http.StatusNoContent {
		t.Errorf("sign out: %d", got)
	}
	if got := ask("GET", "/api/v1/me", "", "Cookie", cookie); got != http.StatusUnauthorized {
		t.Errorf("after it: %d", got)
	}
}

// Sign-ins are limited by address, and a provider that is away is no fault of ours
// and none of the token's.
func TestSignInIsLimited(t *testing.T) {
	f := newFakeProvider(t)
	at, _ := whole(t, f.URL, server.Rate{PerSecond: 0.001, Burst: 10})
	b := newBrowser(t)
	limited := 0
	for range 20 {
		if status, _, _ := b.get(at + CallbackPath + "?state=x&code=y"); status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 5 {
		t.Errorf("%d of 20 were refused for their number", limited)
	}
	at, _ = whole(t, f.URL, server.Rate{})
	token := f.sign(f.claims(time.Now(), nil))
	f.breaks(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	r, err := http.NewRequest(http.MethodGet, at+"/api/v1/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("with the provider away: %d", got.StatusCode)
	}
}
