package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// raw sends bytes as they are and gives the status of the answer; zero: none.
func (n *network) raw(request string) int {
	n.t.Helper()
	u, err := url.Parse(n.url)
	if err != nil {
		n.t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		return 0
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	r.Body.Close()
	return r.StatusCode
}

// Paths that a router, a proxy and a handler may read differently: none leads
// behind the guard.
func TestPathTricks(t *testing.T) {
	n := sqlite(t)
	ours, theirs := n.enrol("ours"), n.enrol("theirs")
	for _, path := range []string{
		"/api/v1/nodes", "/api/v1/nodes/", "//api/v1/nodes", "/api/v1//nodes", "/api/v1/./nodes", "/livez/../api/v1/nodes", "/livez/..;/api/v1/nodes",
		"/livez%2f..%2fapi/v1/nodes", "/api/v1/%6eodes", "/API/v1/nodes", "/api/v1/nodes%00", "/api/v1/nodes?x=/livez", "/api/v1/nodes#/livez", "/livez/api/v1/nodes",
		"http://127.0.0.1/api/v1/nodes", "/api/v1/nodes;/livez", "/auth/../api/v1/nodes", "\\api\\v1\\nodes", "*",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PATCH", "TRACE", "CONNECT", "get"} {
			if got := n.raw(method + " " + path + " HTTP/1.1\r\nHost: x\r\nX-Original-URL: /livez\r\nX-Http-Method-Override: GET\r\nConnection: close\r\n\r\n"); got >= 200 && got < 300 {
				t.Errorf("%s %s: %d", method, path, got)
			}
		}
	}
	// A node's own path does not lead to another's.
	for _, path := range []string{ours.path("/../" + theirs.id + "/settings"), ours.path("%2f..%2f" + theirs.id + "/settings"), "/api/v1/nodes/" + strings.ToLower(theirs.id) + "/settings", ours.path("//../" + theirs.id + "/settings")} {
		if got := n.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + ours.token + "\r\nConnection: close\r\n\r\n"); got >= 200 && got < 300 {
			t.Errorf("%s: %d", path, got)
		}
	}
}

// Tokens count in one place: not in the URL, not in a form, not in a second header.
func TestTokensElsewhere(t *testing.T) {
	n := sqlite(t)
	for _, path := range []string{"/api/v1/me?token=" + n.admin, "/api/v1/me?access_token=" + n.admin, "/api/v1/me?authorization=Bearer%20" + n.admin} {
		if got := n.do("GET", path, "", "", nil); got.status != http.StatusUnauthorized {
			t.Errorf("a token in the URL: %d", got.status)
		}
	}
	for name, headers := range map[string]string{
		"as Basic":           "Authorization: Basic " + n.admin,
		"without a scheme":   "Authorization: " + n.admin,
		"in another header":  "X-Api-Key: " + n.admin,
		"of a proxy":         "Proxy-Authorization: Bearer " + n.admin,
		"as a cookie":        "Cookie: assay_session=" + n.admin,
		"behind a bad one":   "Authorization: Bearer assay_api_nobody\r\nAuthorization: Bearer " + n.admin,
		"with words":         "Authorization: Bearer " + n.admin + " x",
		"in capital letters": "Authorization: Bearer " + strings.ToUpper(n.admin),
		"its hash":           "Authorization: Bearer " + hashSecret(n.admin),
		"its hash, named":    "Authorization: Bearer " + prefixToken + hashSecret(n.admin),
	} {
		if got := n.raw("GET /api/v1/me HTTP/1.1\r\nHost: x\r\n" + headers + "\r\nConnection: close\r\n\r\n"); got != http.StatusUnauthorized && got != http.StatusBadRequest {
			t.Errorf("a token %s: %d", name, got)
		}
	}
}

// Requests that two readers could take for different ones.
func TestSmuggling(t *testing.T) {
	n := sqlite(t)
	for name, request := range map[string]string{
		"two lengths":      "POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
		"a length with +":  "POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nabcde",
		"two encodings":    "POST /api/v1/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"a folded header":  "GET /api/v1/me HTTP/1.1\r\nHost: x\r\nA: b\r\n Authorization: Bearer " + n.admin + "\r\n\r\n",
		"a space before :": "GET /api/v1/me HTTP/1.1\r\nHost: x\r\nAuthorization : Bearer " + n.admin + "\r\n\r\n",
		"two hosts":        "GET /api/v1/me HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"a bad chunk":      "POST /api/v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
	} {
		if got := n.raw(request); got >= 200 && got < 300 || got >= 500 && got != http.StatusNotImplemented {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// Bodies that are small to send and large to read, or that two parsers read
// differently.
func TestHostileBodies(t *testing.T) {
	n := sqlite(t)
	m := n.enrol("ours")
	beat := func(more string) string {
		return `{"time":"2026-01-01T00:00:00Z","version":"1","inventory_sha256":"","running":0,"waiting_records":0` + more + `}`
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	many := strings.Repeat(`{"name":"r","running":1e999999},`, 63) + `{"name":"r","running":1e999999}`
	for name, c := range map[string]struct {
		method, path, token string
		body                string
	}{
		"a number without end":      {"POST", m.path("/heartbeat"), m.token, beat(`,"settings_version":1e999999999`)},
		"a fraction without end":    {"POST", m.path("/heartbeat"), m.token, beat(`,"clock_skew_seconds":1e-999999999`)},
		"a budget without end":      {"PUT", m.path("/settings"), n.admin, `{"version":1,"check_budget":1e9999999}`},
		"a budget of nearly none":   {"PUT", m.path("/settings"), n.admin, `{"version":1,"check_budget":1e-9999999}`},
		"many numbers without end":  {"POST", m.path("/heartbeat"), m.token, beat(`,"replicas":[` + many + `]`)},
		"digits without end":        {"POST", m.path("/heartbeat"), m.token, beat(`,"settings_version":1` + strings.Repeat("0", 20000))},
		"deep":                      {"POST", m.path("/heartbeat"), m.token, strings.Repeat("[", 15000)},
		"deep, where an object was": {"POST", m.path("/heartbeat"), m.token, beat(`,"replicas":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000))},
		"a member in capitals":      {"POST", "/api/v1/tokens", n.admin, `{"name":"a","role":"viewer","ROLE":"admin"}`},
		"a member that is twice":    {"POST", "/api/v1/tokens", n.admin, `{"name":"a","role":"viewer","role":"root"}`},
		"two documents":             {"POST", "/api/v1/tokens", n.admin, `{"name":"a","role":"viewer"}{"name":"a","role":"admin"}`},
		"NUL in a name":             {"POST", "/api/v1/tokens", n.admin, `{"name":"a\u0000b","role":"viewer"}`},
		"an owner in other letters": {"POST", "/api/v1/enrolment-tokens", n.admin, `{"owner":"our\u0455"}`},
		"an owner in capitals":      {"POST", "/api/v1/enrolment-tokens", n.admin, `{"owner":"OURS"}`},
		"an owner with a line":      {"POST", "/api/v1/enrolment-tokens", n.admin, `{"owner":"ours\n"}`},
		"an owner above":            {"POST", "/api/v1/enrolment-tokens", n.admin, `{"owner":"../ours"}`},
		"nothing":                   {"POST", "/api/v1/tokens", n.admin, ``},
		"null":                      {"POST", "/api/v1/tokens", n.admin, `null`},
		"compressed":                {"POST", "/api/v1/tokens", n.admin, bomb.String()},
	} {
		got := n.do(c.method, c.path, c.token, "application/json", []byte(c.body))
		if got.status < 400 || got.status >= 500 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	for _, query := range []string{"owner=%00", "owner=%ff%fe", "owner=a&owner=b", "limit=1e3", "limit=-1", "limit=0", "limit=99999999999999999999", "after=%00", "after='%20OR%201=1", "state=any"} {
		if got := n.do("GET", "/api/v1/nodes?"+query, n.admin, "", nil); got.status != http.StatusBadRequest {
			t.Errorf("?%s: %d %s", query, got.status, got.body)
		}
	}
}

// What one owner's people ask of another's, by every id that they may have heard of.
func TestOtherOwners(t *testing.T) {
	n := sqlite(t)
	ours, theirs := n.enrol("ours"), n.enrol("theirs")
	viewer, operator, admin := n.token(api.NewTokenRoleViewer, "ours"), n.token(api.NewTokenRoleOperator, "ours"), n.token(api.NewTokenRoleAdmin, "ours")
	var token api.CreatedToken
	n.ask(201, "POST", "/api/v1/enrolment-tokens", n.admin, api.NewEnrolmentToken{Owner: "theirs"}, &token)
	for _, path := range []string{
		"/api/v1/nodes?owner=theirs", "/api/v1/nodes?after=" + ours.id, "/api/v1/nodes?after=00000000000000000000000000", "/api/v1/nodes?limit=1",
		"/api/v1/audit?limit=1000", "/api/v1/audit?node=" + theirs.id, "/api/v1/audit?before=7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "/api/v1/enrolment-tokens", "/api/v1/enrolment-tokens?before=7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
		"/api/v1/tokens?before=7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
	} {
		got := n.do("GET", path, admin, "", nil)
		if bytes.Contains(got.body, []byte(theirs.id)) || bytes.Contains(got.body, []byte("theirs")) || bytes.Contains(got.body, []byte(token.Id)) || strings.Contains(got.header.Get("Link"), theirs.id) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	// A list's rest, page by page, has no gap that tells how many others there are.
	got := n.do("GET", "/api/v1/nodes?limit=1", viewer, "", nil)
	var page []api.Node
	if err := json.Unmarshal(got.body, &page); err != nil || len(page) != 1 || page[0].Id != ours.id {
		t.Errorf("%v %s", err, got.body)
	}
	for what, c := range map[string]struct {
		token, method, path string
		body                any
		want                int
	}{
		"a token for all":                {admin, "POST", "/api/v1/tokens", api.NewToken{Name: "a", Role: api.NewTokenRoleAdmin}, 403},
		"a token for no owners":          {admin, "POST", "/api/v1/tokens", api.NewToken{Name: "a", Role: api.NewTokenRoleAdmin, Owners: &[]string{}}, 403},
		"a token for others":             {admin, "POST", "/api/v1/tokens", api.NewToken{Name: "a", Role: api.NewTokenRoleViewer, Owners: &[]string{"ours", "theirs"}}, 404},
		"a node of others":               {operator, "POST", "/api/v1/enrolment-tokens", api.NewEnrolmentToken{Owner: "theirs"}, 404},
		"a node of nobody":               {operator, "POST", "/api/v1/enrolment-tokens", api.NewEnrolmentToken{Owner: "nobody"}, 404},
		"another's enrolment token back": {operator, "DELETE", "/api/v1/enrolment-tokens/" + token.Id, nil, 404},
		"the key of another's node":      {operator, "DELETE", theirs.path("/keys/" + theirs.key.ID), nil, 404},
		"through a node of one's own":    {operator, "DELETE", ours.path("/keys/" + theirs.key.ID), nil, 404},
		"the statement about that key":   {viewer, "GET", ours.path("/keys/" + theirs.key.ID), nil, 404},
		"an action there":                {operator, "POST", theirs.path("/actions"), map[string]any{"action": "drain", "reason": "x"}, 404},
		"settings there":                 {operator, "PUT", theirs.path("/settings"), map[string]any{"version": 1}, 404},
		"a viewer's own token":           {viewer, "POST", "/api/v1/tokens", api.NewToken{Name: "a", Role: api.NewTokenRoleViewer, Owners: &[]string{"ours"}}, 403},
	} {
		var b []byte
		if c.body != nil {
			b, _ = json.Marshal(c.body)
		}
		if got := n.do(c.method, c.path, c.token, "application/json", b); got.status != c.want {
			t.Errorf("%s: %d, not %d: %s", what, got.status, c.want, got.body)
		}
	}
	// What is not theirs and what is not there look the same.
	a, b := n.do("GET", theirs.path(""), viewer, "", nil), n.do("GET", "/api/v1/nodes/"+someID, viewer, "", nil)
	strip := func(b []byte) string {
		var p api.Problem
		_ = json.Unmarshal(b, &p)
		p.Instance = nil
		out, _ := json.Marshal(p)
		return string(out)
	}
	if a.status != b.status || strip(a.body) != strip(b.body) {
		t.Errorf("%d %s and %d %s", a.status, a.body, b.status, b.body)
	}
}

// A node with a good key of its own, about another node.
func TestOtherNodes(t *testing.T) {
	n := sqlite(t)
	ours, theirs := n.enrol("ours"), n.enrol("theirs")
	command := newID(time.Now())
	now := time.Now()
	if err := n.store.AddCommand(t.Context(), store.Scope{All: true}, store.Command{ID: command, Node: theirs.id, Kind: "check", Created: now, Expires: now.Add(time.Hour)}, store.Trail{}); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"through its own path": ours.path("/commands/" + command), "through the other's path": theirs.path("/commands/" + command)} {
		if got := n.do("PUT", path, ours.token, "application/json", []byte(`{"outcome":"done"}`)); got.status != http.StatusNotFound {
			t.Errorf("another's command %s: %d %s", what, got.status, got.body)
		}
	}
	if got := n.do("GET", ours.path("/commands?wait=0"), ours.token, "", nil); bytes.Contains(got.body, []byte(command)) {
		t.Errorf("another's command is shown: %s", got.body)
	}
	if got := n.do("POST", ours.path("/reports/"+someID+"/confirm"), ours.token, "", nil); got.status != http.StatusNotFound && got.status != http.StatusNotImplemented {
		t.Errorf("a report that is none: %d %s", got.status, got.body)
	}
}

// Log-ins that were heard, or made for something else.
func TestReplayedAndForgedLogins(t *testing.T) {
	n := sqlite(t)
	m, other := n.enrol("ours"), n.enrol("theirs")
	login := func(what string, envelope []byte, want int) {
		t.Helper()
		if got := n.do("POST", "/api/v1/login", "", "application/octet-stream", envelope); got.status != want {
			t.Errorf("%s: %d, not %d: %s", what, got.status, want, got.body)
		}
	}
	nonce := func(node string) string {
		t.Helper()
		var got api.Nonce
		n.ask(200, "POST", "/api/v1/login/nonce", "", api.CreateNonceJSONBody{Node: node}, &got)
		return got.Nonce
	}
	heard := m.proof()
	login("the first time", heard, 200)
	login("the second time", heard, 401)
	login("another server's", m.signed(ledger.LoginType, ledger.LoginProof{Origin: "other.example", Node: m.id, Nonce: nonce(m.id)}), 401)
	login("as another node", m.signed(ledger.LoginType, ledger.LoginProof{Origin: n.id.Origin, Node: other.id, Nonce: nonce(other.id)}), 401)
	login("by another node's nonce", m.signed(ledger.LoginType, ledger.LoginProof{Origin: n.id.Origin, Node: m.id, Nonce: nonce(other.id)}), 401)
	login("by a nonce that is made up", m.signed(ledger.LoginType, ledger.LoginProof{Origin: n.id.Origin, Node: m.id, Nonce: strings.Repeat("a", 64)}), 401)
	login("a rotation's proof", m.signed(ledger.RotationType, ledger.LoginProof{Origin: n.id.Origin, Node: m.id, Nonce: nonce(m.id)}), 401)
	bad := m.proof()
	bad[len(bad)/2] ^= 1
	if got := n.do("POST", "/api/v1/login", "", "application/octet-stream", bad); got.status != 400 && got.status != 401 {
		t.Errorf("a proof with a bit changed: %d", got.status)
	}

	// A key that is refused takes its log-ins with it.
	n.ask(204, "DELETE", m.path("/keys/"+m.key.ID), n.admin, nil, nil)
	if got := n.do("GET", "/api/v1/me", m.token, "", nil); got.status != http.StatusUnauthorized {
		t.Errorf("a log-in by a revoked key: %d %s", got.status, got.body)
	}
	login("by a revoked key", m.proof(), 401)
}

// An enrolment token in other hands: once, with one key, until it expires or is
// taken back.
func TestStolenEnrolmentTokens(t *testing.T) {
	now := time.Now()
	n := sqlite(t, func(o *Options) { o.Now = func() time.Time { return now } })
	enrol := func(what string, body api.Enrolment, want int) {
		t.Helper()
		b, _ := json.Marshal(body)
		if got := n.do("POST", "/api/v1/enrol", "", "application/json", b); got.status != want {
			t.Errorf("%s: %d, not %d: %s", what, got.status, want, got.body)
		}
	}
	token, mine, thief := n.enrolToken("ours"), newKey(t), newKey(t)
	enrol("its node", n.enrolment(token, mine), 200)
	enrol("its node, which heard no answer", n.enrolment(token, mine), 200)
	enrol("a thief", n.enrolment(token, thief), 401)
	mixed := n.enrolment(n.enrolToken("ours"), mine)
	mixed.Token = n.enrolToken("ours")
	enrol("a proof for another token", mixed, 400)
	enrol("an API token", n.enrolment(n.admin, thief), 401)

	var made api.CreatedToken
	n.ask(201, "POST", "/api/v1/enrolment-tokens", n.admin, api.NewEnrolmentToken{Owner: "ours"}, &made)
	n.ask(204, "DELETE", "/api/v1/enrolment-tokens/"+made.Id, n.admin, nil, nil)
	enrol("one that was taken back", n.enrolment(made.Token, thief), 401)
	late := n.enrolToken("ours")
	now = now.Add(25 * time.Hour)
	enrol("an expired one", n.enrolment(late, thief), 401)
	enrol("the used one, expired", n.enrolment(token, mine), 401)
}

// Nobody known can make the audit log longer; what they tried is counted. Many
// tries from one address are refused before anything is looked up, whatever
// address a header claims.
func TestFloods(t *testing.T) {
	n := sqlite(t, func(o *Options) { o.AddressRate = &Rate{PerSecond: 0.001, Burst: 30} })
	count := func() int {
		all, err := n.store.Audit(t.Context(), store.Scope{All: true}, "", store.Page{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := count()
	limited := 0
	for i := range 60 {
		var got int
		switch i % 4 {
		case 0:
			got = n.do("POST", "/api/v1/login/nonce", "", "application/json", []byte(`{"node":"`+someID+`"}`)).status
		case 1:
			got = n.do("POST", "/api/v1/enrol", "", "application/json", []byte(`{"token":"assay_enrol_guess","proof":"e30K"}`)).status
		case 2:
			got = n.raw(fmt.Sprintf("GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.%d\r\nForwarded: for=198.51.100.%d\r\nX-Real-Ip: 198.51.100.%d\r\nAuthorization: Bearer assay_api_guess%d\r\nConnection: close\r\n\r\n", i, i, i, i))
		default:
			got = n.do("POST", "/api/v1/login", "", "application/octet-stream", []byte("{}\n")).status
		}
		if got == http.StatusTooManyRequests {
			limited++
		} else if i >= 40 {
			t.Errorf("try %d: %d", i, got)
		}
	}
	if limited < 20 {
		t.Errorf("%d of 60 were refused for their number", limited)
	}
	got := n.do("POST", "/api/v1/login/nonce", "", "application/json", []byte(`{"node":"`+someID+`"}`))
	if got.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	if after := count(); after != before {
		t.Errorf("nobody known made %d entries in the audit log", after-before)
	}
}
