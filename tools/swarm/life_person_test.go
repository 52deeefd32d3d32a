package main

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

const peopleFile = `format: assay/people/v1
rules:
  - {claim: groups, value: assay-admins, role: operator, owners: all}
`

// people lets those sign in whom Keycloak knows: flags of the server.
func (n *life) people(issuer string) []string {
	n.t.Helper()
	if err := os.WriteFile(n.path("people.yaml"), []byte(peopleFile), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return []string{"--oidc-issuer", issuer, "--oidc-client-id", "assay-server", "--oidc-map", n.path("people.yaml")}
}

// person is somebody with a browser.
type person struct {
	*life
	browser *http.Client
	id      string // as the server knows them
}

var loginForm = regexp.MustCompile(`<form[^>]*id="kc-form-login"[^>]*action="([^"]+)"`)

// signIn leads a browser through the server's and Keycloak's pages.
func (n *life) signIn(user string) *person {
	n.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		n.t.Fatal(err)
	}
	p := &person{life: n, browser: &http.Client{Jar: jar, Timeout: time.Minute}}
	page := p.ask(http.MethodGet, n.url+"/auth/login", "", "", http.StatusOK)
	form := loginForm.FindStringSubmatch(page)
	if form == nil {
		n.t.Fatalf("Keycloak shows no form: %.2000s", page)
	}
	answer := p.ask(http.MethodPost, html.UnescapeString(form[1]), "application/x-www-form-urlencoded", url.Values{"username": {user}, "password": {user + "-password"}}.Encode(), http.StatusOK)
	var me struct{ ID, Role string }
	if err := json.Unmarshal([]byte(answer), &me); err != nil || me.Role != "operator" || !strings.HasPrefix(me.ID, "person:") {
		n.t.Fatalf("%s is not signed in: %s", user, answer)
	}
	p.id = me.ID
	return p
}

// approves lets a node in by the person's word.
func (p *person) approves(node string) {
	p.t.Helper()
	p.ask(http.MethodPost, p.url+"/api/v1/nodes/"+node+"/actions", "application/json", `{"action":"approve","reason":"the first of this network"}`, http.StatusOK)
}

func (p *person) signsOut() {
	p.t.Helper()
	p.ask(http.MethodPost, p.url+"/auth/logout", "", "", http.StatusNoContent)
}

// ask sends what a browser sends, and wants an answer of that status.
func (p *person) ask(method, address, media, body string, want int) string {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	got, err := p.browser.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer got.Body.Close()
	b, err := io.ReadAll(io.LimitReader(got.Body, 1<<20))
	if err != nil || got.StatusCode != want {
		p.t.Fatalf("%s %s: %s, not %d: %v %.2000s", method, address, got.Status, want, err, b)
	}
	return string(b)
}
