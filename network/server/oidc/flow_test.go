package oidc

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/store"
)

// site is a server with a sign-in and one page, which says who asks.
type site struct {
	*httptest.Server
	*SignIn
}

func newSite(t *testing.T, o Options) *site {
	t.Helper()
	s := &site{}
	origins := http.NewCrossOriginProtection()
	s.Server = httptest.NewServer(origins.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/auth/") {
			s.ServeHTTP(w, r)
			return
		}
		p, ok, err := s.Authenticate(r.Context(), r)
		if err != nil || !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, p.ID+" "+string(p.Role)+" "+strings.Join(p.Owners, ","))
	})))
	t.Cleanup(s.Server.Close)
	o.URL = s.URL
	s.SignIn = newSignIn(t, o)
	return s
}

// browser keeps cookies and follows no redirect by itself.
type browser struct {
	t *testing.T
	*http.Client
}

func newBrowser(t *testing.T) browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return browser{t, &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// get gives the status, the Location and the body.
func (b browser) get(address string) (int, string, string) {
	b.t.Helper()
	r, err := b.Get(address)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.read(r)
}

func (b browser) post(address string, form url.Values, header ...string) (int, string, string) {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	r, err := b.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.read(r)
}

func (b browser) read(r *http.Response) (int, string, string) {
	b.t.Helper()
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.StatusCode, r.Header.Get("Location"), string(body)
}

// cookie is the value of a cookie that the browser has for a site.
func (b browser) cookie(address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range b.Jar.Cookies(u) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

func (b browser) set(address, name, value string) {
	u, err := url.Parse(address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
}

// A browser is led to a path of this server and nowhere else.
func TestOpenRedirects(t *testing.T) {
	for _, bad := range []string{
		"", "nodes", "https://evil.example.org", "//evil.example.org", "///evil.example.org", `/\evil.example.org`, `\\evil.example.org`,
		"/%5Cevil.example.org", "/\tevil", "/%09/evil.example.org", "/.//evil.example.org", "javascript:alert(1)", "/auth/logout", "/auth/login?return=/",
		"/a\r\nSet-Cookie: x=y", "/a%0d%0aSet-Cookie:x", "/ä", "http:/evil.example.org", " /a", "/" + strings.Repeat("a", 600), "/\x00",
	} {
		if got := localPath(bad); got != "/api/v1/me" {
			t.Errorf("%q leads to %q", bad, got)
		}
	}
	for _, good := range []string{"/", "/nodes", "/nodes/01ARZ3?tab=reports#last", "/a%20b"} {
		if got := localPath(good); got != good {
			t.Errorf("%q leads to %q", good, got)
		}
	}
}

// The whole flow with a provider that answers as it likes.
func TestSignInThatIsForged(t *testing.T) {
	f := newFakeProvider(t)
	s := newSite(t, Options{Issuer: f.URL})
	var nonce, challenge string
	begin := func(b browser) url.Values {
		t.Helper()
		status, location, body := b.get(s.URL + LoginPath + "?return=//evil.example.org")
		u, err := url.Parse(location)
		if status != http.StatusFound || err != nil || !strings.HasPrefix(location, f.URL+"/authorize?") {
			t.Fatalf("%d %s %s", status, location, body)
		}
		q := u.Query()
		nonce, challenge = q.Get("nonce"), q.Get("code_challenge")
		if q.Get("state") == "" || nonce == "" || challenge == "" || q.Get("code_challenge_method") != "S256" || q.Get("redirect_uri") != s.URL+CallbackPath || q.Get("response_type") != "code" {
			t.Fatalf("the provider is asked %s", location)
		}
		return url.Values{"state": {q.Get("state")}, "code": {"abc"}}
	}
	answer := func(change map[string]any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		claims := f.claims(time.Now(), map[string]any{"nonce": nonce})
		for k, v := range change {
			claims[k] = v
		}
		f.code = func(r *http.Request) map[string]any {
			f.mu.Unlock()
			defer f.mu.Lock()
			if r.FormValue("code_verifier") == "" {
				t.Error("the code is exchanged without its verifier")
			}
			return map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": f.sign(claims)}
		}
	}

	b := newBrowser(t)
	q := begin(b)
	answer(nil)
	status, location, body := b.get(s.URL + CallbackPath + "?" + q.Encode())
	if status != http.StatusSeeOther || location != "/api/v1/me" {
		t.Fatalf("%d %s %s", status, location, body)
	}
	if status, _, body := b.get(s.URL + "/"); status != http.StatusOK || !strings.Contains(body, " admin ") {
		t.Errorf("signed in: %d %s", status, body)
	}
	if b.cookie(s.URL, "assay_signin") != "" {
		t.Error("the attempt's cookie stays")
	}

	refused := func(name string, b browser, q url.Values, want int) {
		t.Helper()
		status, location, body := b.get(s.URL + CallbackPath + "?" + q.Encode())
		if status != want || location != "" || b.cookie(s.URL, SessionCookie) != "" {
			t.Errorf("%s: %d, not %d: %s %s", name, status, want, location, body)
		}
	}
	refused("another browser", newBrowser(t), q, 400)
	b = newBrowser(t)
	q = begin(b)
	q.Set("state", "other")
	refused("another state", b, q, 400)
	b = newBrowser(t)
	q = begin(b)
	q.Add("state", "other")
	refused("two states", b, q, 400)
	b = newBrowser(t)
	q = begin(b)
	q.Del("state")
	refused("no state", b, q, 400)
	b = newBrowser(t)
	q = begin(b)
	b.set(s.URL, "assay_signin", "e30")
	q.Set("state", "")
	refused("an attempt without a state", b, q, 400)
	b = newBrowser(t)
	q = begin(b)
	q.Del("code")
	refused("no code", b, q, 400)
	b = newBrowser(t)
	q = begin(b)
	q.Set("iss", "https://other.example.org")
	refused("another issuer", b, q, 400)
	b = newBrowser(t)
	q = begin(b)
	q.Set("error", "access_denied\x1b[31m")
	refused("refused", b, q, 403)
	b = newBrowser(t)
	q = begin(b)
	answer(map[string]any{"nonce": "of another"})
	refused("another nonce", b, q, 403)
	b = newBrowser(t)
	q = begin(b)
	answer(map[string]any{"nonce": ""})
	refused("no nonce", b, q, 403)
	b = newBrowser(t)
	q = begin(b)
	answer(map[string]any{"groups": []string{"others"}})
	refused("nobody", b, q, 403)
}

// A session's cookie is for the server alone, and its secret is not in the database.
func TestSessionCookie(t *testing.T) {
	st := someStore(t)
	for address, secure := range map[string]bool{"https://assay.example.org": true, "http://127.0.0.1:8080": false} {
		s := newSignIn(t, Options{Issuer: "https://accounts.example.org", URL: address, Store: st, SessionLife: time.Hour})
		w := httptest.NewRecorder()
		if err := s.begin(t.Context(), w, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "viewer", store.Scope{Owners: []string{"acme"}}); err != nil {
			t.Fatal(err)
		}
		c := w.Result().Cookies()[0]
		if c.Name != SessionCookie || !c.HttpOnly || c.Secure != secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 3600 {
			t.Errorf("%s: %+v", address, c)
		}
		with := func(value string, at time.Duration) (bool, error) {
			s.now = func() time.Time { return time.Now().Add(at) }
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.AddCookie(&http.Cookie{Name: SessionCookie, Value: value})
			_, ok, err := s.Authenticate(t.Context(), r)
			return ok, err
		}
		if ok, err := with(c.Value, 0); !ok || err != nil {
			t.Errorf("its session: %t %v", ok, err)
		}
		if ok, _ := with(c.Value, 2*time.Hour); ok {
			t.Error("a session goes on after its end")
		}
		if ok, _ := with(store.Hash(c.Value), 0); ok {
			t.Error("what the database has opens a session")
		}
		if ok, _ := with(prefixSession+strings.Repeat("a", 43), 0); ok {
			t.Error("an invented session")
		}
	}
}

// The server's other tokens are no sessions: a cookie travels by itself, and they
// must not.
func TestOtherTokensAreNoCookies(t *testing.T) {
	st := someStore(t)
	s := newSignIn(t, Options{Issuer: "https://accounts.example.org", Store: st})
	now := time.Now()
	for i, kind := range []store.TokenKind{store.TokenAPI, store.TokenLogin} {
		secret := prefixSession + strings.Repeat(string(rune('a'+i)), 43)
		if err := st.CreateToken(t.Context(), store.Token{ID: s.newID(), Hash: store.Hash(secret), Kind: kind, Role: "admin", Scope: store.Scope{All: true}, Created: now, Expires: now.Add(time.Hour)}, store.Trail{}); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: SessionCookie, Value: secret})
		if p, ok, err := s.Authenticate(t.Context(), r); ok || err == nil {
			t.Errorf("a token of the kind %s as a cookie: %+v", kind, p)
		}
	}
}
