package server

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay/network/api"
)

// path fills in an operation's path.
func (op operation) filled(node string) string {
	return strings.NewReplacer(
		"{node}", node, "{command}", someID, "{report}", someID, "{token}", someID, "{person}", someID, "{transition}", someID, "{measurement}", someID, "{session}", "abc-def",
		"{key}", strings.Repeat("a", 64),
	).Replace(op.path)
}

const someID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// sample is a body that an operation takes, so that what is refused is refused for
// who asks and not for what.
func (op operation) sample() (mediaType string, body []byte) {
	if op.body == nil {
		return "", nil
	}
	known := map[string]string{
		"heartbeat":            `{"time":"2026-01-01T00:00:00Z","version":"1","inventory_sha256":"","running":0,"waiting_records":0}`,
		"putInventory":         `{"hostname":"h","gpus":[],"replicas":[]}`,
		"putSettings":          `{"version":1}`,
		"acknowledgeCommand":   `{"outcome":"done"}`,
		"createReport":         `{"statement":"` + someID + `","files":[{"name":"run.json","sha256":"` + strings.Repeat("a", 64) + `","size":1}]}`,
		"actOnNode":            `{"action":"drain","reason":"a test"}`,
		"createEnrolmentToken": `{"owner":"theirs"}`,
		"createToken":          `{"role":"admin","name":"mine"}`,
		"resetBreaker":         `{"reason":"a test"}`,
		"createSession":        `{"offer_id":"vast:1","ssh_public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBxM","hours":1}`,
		"extendSession":        `{"hours":1}`,
		"createMeasurement":    `{"nodes":["` + someID + `"],"mode":"together","reason":"a test"}`,
		"enrol":                `{"token":"x","proof":"e30K"}`,
		"createNonce":          `{"node":"` + someID + `"}`,
	}
	if b, ok := known[op.id]; ok {
		return op.body.mediaType, []byte(b)
	}
	return op.body.mediaType, []byte("{}\n")
}

// Every operation of the document has a rule: who may ask is said in one place, and
// a new operation cannot be forgotten.
func TestEveryOperationHasARule(t *testing.T) {
	ops, err := operations()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, op := range ops {
		seen[op.id] = true
		if _, err := ruleOf(op); err != nil {
			t.Error(err)
		}
		if ru := access[op.id]; op.body != nil && ru.bytes == 0 {
			t.Errorf("%s takes a body, and its rule none", op.id)
		} else if op.method != http.MethodGet && !ru.audit && !ru.node && !ru.anybody && op.id != "testPolicy" {
			t.Errorf("%s changes something and leaves no audit entry", op.id)
		}
	}
	for id := range access {
		if !seen[id] {
			t.Errorf("the rule of %s is of no operation", id)
		}
	}
}

// Every operation, asked by everybody who may not: nobody gets in, nothing crashes,
// and what somebody known tried is in the audit log.
func TestEverybodyWhoMayNot(t *testing.T) { testEverybodyWhoMayNot(t, sqlite(t)) }

func testEverybodyWhoMayNot(t *testing.T, n *network) {
	ops, err := operations()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := n.enrol("ours"), n.enrol("theirs")
	viewer := n.token(api.NewTokenRoleViewer, "ours")
	admin := n.token(api.NewTokenRoleAdmin, "ours")
	for _, op := range ops {
		ru := access[op.id]
		media, body := op.sample()
		ask := func(what, token string, want ...int) {
			t.Helper()
			before := n.auditEntries(token)
			got := n.do(op.method, op.filled(theirs.id), token, media, body)
			ok := false
			for _, w := range want {
				ok = ok || got.status == w
			}
			if !ok {
				t.Errorf("%s %s: %d, not %v: %s", op.id, what, got.status, want, got.body)
			}
			if got.status >= 300 && !strings.HasPrefix(got.header.Get("Content-Type"), "application/problem+json") {
				t.Errorf("%s %s: the answer is no problem: %s", op.id, what, got.body)
			}
			if known := token != "" && !strings.Contains(token, "nobody"); known && n.auditEntries(token) != before+1 {
				t.Errorf("%s %s: %d audit entries, and %d before", op.id, what, n.auditEntries(token), before)
			}
		}
		if ru.anybody {
			continue
		}
		ask("without a token", "", 401)
		ask("with a token that nobody made", "assay_api_nobody", 401)
		switch {
		case ru.people == "":
			ask("by an admin", n.admin, 403)
		case rank(ru.people) > rank(api.RoleViewer):
			ask("by a viewer", viewer, 403)
		}
		switch {
		case !ru.node:
			ask("by a node", ours.token, 403)
		case strings.Contains(op.path, "{node}"):
			ask("by another node", ours.token, 404)
		}
		switch {
		case ru.people == "":
		case strings.Contains(op.path, "{node}"):
			ask("by who does not see the owner", admin, 404)
		case ru.all:
			ask("by who does not see all", admin, 403)
		}
	}
}

// Requests that are not what the document says: none is taken, none crashes.
func TestMalformedAndOversized(t *testing.T) { testMalformed(t, sqlite(t)) }

func testMalformed(t *testing.T, n *network) {
	ops, err := operations()
	if err != nil {
		t.Fatal(err)
	}
	node := n.enrol("ours")
	for _, op := range ops {
		ru := access[op.id]
		token := n.admin
		if ru.node && ru.people == "" {
			token = node.token
		}
		media, _ := op.sample()
		if strings.Contains(op.path, "{") {
			bad := strings.NewReplacer("{node}", node.id).Replace(op.path)
			for _, p := range []string{"{command}", "{report}", "{token}", "{person}", "{transition}", "{key}", "{measurement}", "{session}"} {
				bad = strings.ReplaceAll(bad, p, "no%20id%00")
			}
			if strings.Contains(bad, "no%20id") {
				if got := n.do(op.method, bad, token, media, nil); got.status != 400 {
					t.Errorf("%s with a bad id: %d: %s", op.id, got.status, got.body)
				}
			}
		}
		for _, p := range op.params {
			if p.in != "query" {
				continue
			}
			for _, v := range []string{"%00", "-1", "1e9", "999999999999999999999999", "1&" + p.name + "=2"} {
				got := n.do(op.method, op.filled(node.id)+"?"+p.name+"="+v, token, media, []byte("version: 1\n"))
				if slices.Contains([]string{"owner", "model", "provider", "gpu_type", "gpu_name"}, p.name) && (v == "-1" || strings.HasPrefix(v, "1e9") || strings.HasPrefix(v, "99")) {
					continue // a name like any other
				}
				if got.status != 400 {
					t.Errorf("%s with %s=%s: %d: %s", op.id, p.name, v, got.status, got.body)
				}
			}
		}
		if op.body == nil {
			continue
		}
		if got := n.do(op.method, op.filled(node.id), token, media, bytes.Repeat([]byte(" "), int(ru.bytes)+1)); got.status != 413 {
			t.Errorf("%s with %d bytes: %d: %s", op.id, ru.bytes+1, got.status, got.body)
		}
		if got := n.do(op.method, op.filled(node.id), token, "text/html", []byte("x")); got.status != 415 {
			t.Errorf("%s as HTML: %d", op.id, got.status)
		}
		if op.body.schema == nil {
			continue
		}
		for _, b := range []string{"", "{", "[]", "null", `{"unknown":1}`, `"\u0000"`, "{}{}", strings.Repeat("[", 20_000), "\xff\xfe"} {
			if int64(len(b)) > ru.bytes {
				continue
			}
			if got := n.do(op.method, op.filled(node.id), token, media, []byte(b)); got.status != 400 {
				t.Errorf("%s with %.20q: %d: %s", op.id, b, got.status, got.body)
			}
		}
	}
	for _, c := range []struct {
		method, path string
		want         int
	}{{"GET", "/", 404}, {"GET", "/api/v1/none", 404}, {"PATCH", "/api/v1/nodes", 405}, {"DELETE", "/livez", 405}} {
		got := n.do(c.method, c.path, n.admin, "", nil)
		if got.status != c.want || !strings.HasPrefix(got.header.Get("Content-Type"), "application/problem+json") {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
}

// A page of another origin cannot act in the name of who looks at it.
func TestOtherOrigins(t *testing.T) {
	n := sqlite(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+"/api/v1/enrolment-tokens", strings.NewReader(`{"owner":"ours"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+n.admin)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusForbidden {
		t.Errorf("%d", got.StatusCode)
	}
}

// A handler that panics costs its own request an answer, and nothing else.
func TestPanicsAreNotTold(t *testing.T) {
	n := sqlite(t)
	n.server.mux.HandleFunc("GET /panics", func(http.ResponseWriter, *http.Request) { panic(fmt.Sprint("se", "cret")) })
	got := n.do("GET", "/panics", "", "", nil)
	if got.status != 500 || strings.Contains(string(got.body), "secret") || got.header.Get("X-Request-Id") == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Who asks too often waits; others do not.
func TestRateLimits(t *testing.T) {
	n := sqlite(t, func(o *Options) {
		o.PersonRate = &Rate{PerSecond: 0.001, Burst: 5}
		o.AddressRate = &Rate{PerSecond: 0.001, Burst: 1000}
	})
	other := n.token(api.NewTokenRoleViewer, "ours")
	var got response
	for range 10 {
		if got = n.do("GET", "/api/v1/me", n.admin, "", nil); got.status == 429 {
			break
		}
	}
	if got.status != 429 || got.header.Get("Retry-After") == "" {
		t.Errorf("%d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
	if got := n.do("GET", "/api/v1/me", other, "", nil); got.status != 200 {
		t.Errorf("another: %d", got.status)
	}
	for range 1100 {
		if got = n.do("GET", "/api/v1/me", "assay_api_nobody", "", nil); got.status == 429 {
			break
		}
	}
	if got.status != 429 || got.header.Get("Retry-After") == "" {
		t.Errorf("guesses: %d", got.status)
	}
	if got := n.do("GET", "/livez", "", "", nil); got.status != 200 {
		t.Errorf("/livez: %d", got.status)
	}
}
