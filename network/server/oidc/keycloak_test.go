package oidc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

var formAction = regexp.MustCompile(`<form[^>]*id="kc-form-login"[^>]*action="([^"]+)"`)

// toProvider begins a sign-in, fills in Keycloak's form and gives the URL of our
// callback that Keycloak sends the browser to.
func toProvider(b browser, s *site, user, query string) string {
	b.t.Helper()
	status, location, body := b.get(s.URL + LoginPath + query)
	if status != http.StatusFound {
		b.t.Fatalf("%s: %d %s", LoginPath, status, body)
	}
	status, next, page := b.get(location)
	if status == http.StatusFound { // the provider knows the browser already
		return next
	}
	form := formAction.FindStringSubmatch(page)
	if status != http.StatusOK || form == nil {
		b.t.Fatalf("no form at %s: %d %.2000s", location, status, page)
	}
	status, next, page = b.post(html.UnescapeString(form[1]), url.Values{"username": {user}, "password": {user + "-password"}})
	if status != http.StatusFound || !strings.HasPrefix(next, s.URL+CallbackPath+"?") {
		b.t.Fatalf("%s is not signed in: %d %s %.2000s", user, status, next, page)
	}
	return next
}

func newKeycloakSite(t *testing.T, issuer string) *site {
	t.Helper()
	return newSite(t, Options{Issuer: issuer, Store: someStore(t)})
}

// People sign in with a browser, are who the rules say, and sign out; who is in
// no group gets nothing.
func TestRealNetworkKeycloakBrowser(t *testing.T) {
	s := newKeycloakSite(t, parttest.Keycloak(t))
	for user, want := range map[string]string{"alice": " admin ", "bob": " viewer acme"} {
		b := newBrowser(t)
		if status, _, _ := b.get(s.URL + "/"); status != http.StatusUnauthorized {
			t.Errorf("%s before: %d", user, status)
		}
		status, location, body := b.get(toProvider(b, s, user, "?return=/nodes"))
		if status != http.StatusSeeOther || location != "/nodes" {
			t.Fatalf("%s: %d %s %s", user, status, location, body)
		}
		status, _, who := b.get(s.URL + location)
		if status != http.StatusOK || !strings.HasSuffix(who, want) || !strings.HasPrefix(who, "person:") || strings.Contains(who, user) {
			t.Errorf("%s is %d %s", user, status, who)
		}
		session := b.cookie(s.URL, SessionCookie)
		if status, _, _ := b.post(s.URL+LogoutPath, nil, "Origin", "https://evil.example.org"); status != http.StatusForbidden {
			t.Errorf("a page of another origin signs %s out: %d", user, status)
		}
		if status, _, body := b.get(s.URL + LogoutPath); status != http.StatusMethodNotAllowed {
			t.Errorf("a link signs %s out: %d %s", user, status, body)
		}
		if status, _, body := b.post(s.URL+LogoutPath, nil); status != http.StatusNoContent || b.cookie(s.URL, SessionCookie) != "" {
			t.Errorf("%s signs out: %d %s", user, status, body)
		}
		b.set(s.URL, SessionCookie, session)
		if status, _, _ := b.get(s.URL + "/"); status != http.StatusUnauthorized {
			t.Errorf("the session of %s goes on: %d", user, status)
		}
		audit, err := s.o.Store.Audit(t.Context(), store.Scope{All: true}, "", store.Page{Limit: 10})
		if err != nil || len(audit) < 2 || audit[0].Action != "signOut" || audit[1].Action != "signIn" || !strings.HasPrefix(who, audit[0].Actor+" ") {
			t.Errorf("the audit log has %+v %v", audit, err)
		}
	}

	b := newBrowser(t)
	status, location, body := b.get(toProvider(b, s, "mallory", ""))
	if status != http.StatusForbidden || location != "" || b.cookie(s.URL, SessionCookie) != "" {
		t.Errorf("mallory: %d %s %s", status, location, body)
	}
}

// What an attacker can do with an answer of the provider.
func TestRealNetworkKeycloakForgedAnswers(t *testing.T) {
	s := newKeycloakSite(t, parttest.Keycloak(t))
	b := newBrowser(t)
	good := toProvider(b, s, "alice", "")
	refused := func(what string, b browser, address string, want int) {
		t.Helper()
		status, _, body := b.get(address)
		if status != want || b.cookie(s.URL, SessionCookie) != "" {
			t.Errorf("%s: %d, not %d: %s", what, status, want, body)
		}
	}
	refused("the answer in another's browser", newBrowser(t), good, 400)
	other := newBrowser(t)
	toProvider(other, s, "mallory", "")
	refused("the answer in a browser that signs in itself", other, good, 400)
	u, err := url.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("state", "x"+q.Get("state"))
	refused("another state", b, s.URL+CallbackPath+"?"+q.Encode(), 400)

	// The code in a sign-in of the attacker's own: its verifier is another.
	mine := newBrowser(t)
	status, location, _ := mine.get(s.URL + LoginPath)
	if status != http.StatusFound {
		t.Fatal(status)
	}
	asked, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	q = u.Query()
	q.Set("state", asked.Query().Get("state"))
	refused("a stolen code", mine, s.URL+CallbackPath+"?"+q.Encode(), 403)

	b = newBrowser(t)
	good = toProvider(b, s, "alice", "?return=https://evil.example.org")
	attempt := b.cookie(s.URL, "assay_signin")
	if status, location, body := b.get(good); status != http.StatusSeeOther || location != "/api/v1/me" {
		t.Fatalf("%d %s %s", status, location, body)
	}
	replay := newBrowser(t)
	replay.set(s.URL, "assay_signin", attempt)
	refused("a code for the second time", replay, good, 403)
}

// idToken signs a user in by password, as a program of the user's own would.
func idToken(t *testing.T, issuer, client, user string) (id, access string) {
	t.Helper()
	r, err := http.PostForm(issuer+"/protocol/openid-connect/token", url.Values{
		"grant_type": {"password"}, "client_id": {client}, "scope": {"openid"}, "username": {user}, "password": {user + "-password"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct {
		ID     string `json:"id_token"`
		Access string `json:"access_token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.ID == "" {
		t.Fatalf("%s gets no token: %s %v", user, r.Status, err)
	}
	return answer.ID, answer.Access
}

// ownRealm is a realm of the test's own, with a second client.
func ownRealm(t *testing.T, name string) (issuer string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parttest.Scripts(t), "keycloak-realm.json"))
	if err != nil {
		t.Fatal(err)
	}
	var realm map[string]any
	if err := json.Unmarshal(b, &realm); err != nil {
		t.Fatal(err)
	}
	realm["realm"], realm["id"] = name, name
	realm["clients"] = append(realm["clients"].([]any), map[string]any{"clientId": "other", "enabled": true, "publicClient": true, "directAccessGrantsEnabled": true})
	if b, err = json.Marshal(realm); err != nil {
		t.Fatal(err)
	}
	return parttest.KeycloakRealm(t, b)
}

// Programs show ID tokens of the real provider.
func TestRealNetworkKeycloakBearer(t *testing.T) {
	issuer := ownRealm(t, "bearer")
	s := newKeycloakSite(t, issuer)
	now := time.Now
	s.SignIn.now, s.provider.now = func() time.Time { return now() }, func() time.Time { return now() }
	alice, access := idToken(t, issuer, clientID, "alice")
	p, ok, err := ask(t, s.SignIn, alice)
	if err != nil || !ok || p.Role != "admin" || !p.All {
		t.Fatalf("alice is %+v %t %v", p, ok, err)
	}
	bob, _ := idToken(t, issuer, clientID, "bob")
	if p, ok, err := ask(t, s.SignIn, bob); err != nil || !ok || p.Role != "viewer" || p.All || len(p.Owners) != 1 {
		t.Errorf("bob is %+v %t %v", p, ok, err)
	}
	refused := func(what, token string) {
		t.Helper()
		if p, ok, err := ask(t, s.SignIn, token); ok || !errors.Is(err, server.ErrCredential) {
			t.Errorf("%s: %+v %v", what, p, err)
		}
	}
	mallory, _ := idToken(t, issuer, clientID, "mallory")
	refused("mallory", mallory)
	elsewhere, _ := idToken(t, issuer, "other", "alice")
	refused("a token for another client", elsewhere)
	refused("an access token", access)
	foreign, _ := idToken(t, parttest.Keycloak(t), clientID, "alice")
	refused("a token of another realm", foreign)
	part := strings.Split(alice, ".")
	refused("alg none", base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))+"."+part[1]+".")
	refused("bob with the signature of alice", strings.Split(bob, ".")[0]+"."+strings.Split(bob, ".")[1]+"."+part[2])

	// The person is a random id, and erased another.
	if err := s.o.Store.ErasePerson(t.Context(), strings.TrimPrefix(p.ID, "person:"), time.Now(), store.Trail{}); err != nil {
		t.Fatal(err)
	}
	if again, _, err := ask(t, s.SignIn, alice); err != nil || again.ID == p.ID {
		t.Errorf("after she was erased alice is %s again: %v", again.ID, err)
	}

	now = func() time.Time { return time.Now().Add(time.Hour) }
	refused("an expired token", alice)
	now = time.Now

	addKey(t, issuer)
	fresh, _ := idToken(t, issuer, clientID, "alice")
	if keyOf(t, fresh) == keyOf(t, alice) {
		t.Fatal("the key did not rotate")
	}
	if _, ok, err := ask(t, s.SignIn, fresh); err != nil || !ok {
		t.Errorf("after the key rotated: %v", err)
	}
	if _, ok, err := ask(t, s.SignIn, alice); err != nil || !ok {
		t.Errorf("the older key is published still: %v", err)
	}
}

// keyOf is the id of the key that signed a token.
func keyOf(t *testing.T, token string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	if err != nil {
		t.Fatal(err)
	}
	var header struct{ Kid string }
	if err := json.Unmarshal(b, &header); err != nil {
		t.Fatal(err)
	}
	return header.Kid
}

// addKey gives a realm a key that is used from then on.
func addKey(t *testing.T, issuer string) {
	t.Helper()
	base, realm, _ := strings.Cut(issuer, "/realms/")
	r, err := http.PostForm(base+"/realms/master/protocol/openid-connect/token", url.Values{"grant_type": {"password"}, "client_id": {"admin-cli"}, "username": {"admin"}, "password": {"admin"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var admin struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&admin); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"name":"new","providerId":"rsa-generated","providerType":"org.keycloak.keys.KeyProvider","parentId":%q,"config":{"priority":["999"],"enabled":["true"],"active":["true"],"keySize":["2048"],"algorithm":["RS256"]}}`, realm)
	req, err := http.NewRequest(http.MethodPost, base+"/admin/realms/"+realm+"/components", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+admin.Token)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusCreated {
		t.Fatalf("the realm takes no key: %s %s", answer.Status, b)
	}
}
