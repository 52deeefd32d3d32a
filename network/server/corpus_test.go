package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/store"
)

// oldRequest is a line of testdata/protocol/*/requests.jsonl; its README has what
// each member is.
type oldRequest struct {
	Operation   string    `json:"operation"`
	Time        time.Time `json:"time"`
	Method      string    `json:"method"`
	Path        string    `json:"path"`
	ContentType string    `json:"content_type"`
	Body        string    `json:"body"`
	Status      int       `json:"status"`
	Answer      string    `json:"answer"`
}

// What agents of earlier releases sent is still understood: each request gets an
// answer of the same class, with every member that the answer had then.
func TestOldAgentsAreUnderstood(t *testing.T) {
	dirs, err := filepath.Glob("testdata/protocol/*/requests.jsonl")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there is no recording: %v", err)
	}
	for _, file := range dirs {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) { replayRequests(t, readRequests(t, file)) })
	}
}

func readRequests(t *testing.T, file string) []oldRequest {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []oldRequest
	for line := range bytes.Lines(b) {
		var r oldRequest
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, r)
	}
	if len(all) < 12 {
		t.Fatalf("%s has %d requests: an agent needs more", file, len(all))
	}
	return all
}

// oldAgent sends what was recorded.
type oldAgent struct {
	*network
	now    time.Time
	token  string // of the log-in
	report string // its id, as this server made it
	links  api.Uploads
}

func replayRequests(t *testing.T, all []oldRequest) {
	t.Helper()
	enrolled := answerTo[api.Enrolled](t, all, "POST /api/v1/enrol")
	newcomer, member := oldServer(t, all[0].Time, enrolled.Origin), oldServer(t, all[0].Time, enrolled.Origin)
	member.remember(all, enrolled)
	for _, r := range all {
		if r.Operation == "POST /api/v1/enrol" {
			newcomer.expect(r)
			newcomer.send(r)
			continue
		}
		member.send(r)
	}
	if member.report == "" {
		t.Error("nothing was reported")
	}
}

// answerTo is what the server of then answered.
func answerTo[T any](t *testing.T, all []oldRequest, operation string) (v T) {
	t.Helper()
	for _, r := range all {
		if r.Operation == operation {
			if err := json.Unmarshal([]byte(r.Answer), &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("there is no %s", operation)
	return v
}

// oldServer is a server of today at a time of then.
func oldServer(t *testing.T, now time.Time, origin string) *oldAgent {
	t.Helper()
	id := identity(t)
	id.Origin = origin
	a := &oldAgent{now: now}
	objects, err := evidence.NewDirectory(evidence.DirectoryOptions{Dir: t.TempDir(), Path: "/objects/", Now: func() time.Time { return a.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { objects.Close() })
	a.network = newNetwork(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"), id, func(o *Options) {
		o.Now = func() time.Time { return a.now }
		o.Evidence = objects
		o.Mounts = map[string]http.Handler{"/objects/": objects}
	})
	return a
}

// expect makes the enrolment token of the request.
func (a *oldAgent) expect(r oldRequest) {
	a.t.Helper()
	var e api.Enrolment
	if err := json.Unmarshal([]byte(r.Body), &e); err != nil {
		a.t.Fatal(err)
	}
	a.invite(e.Token)
}

func (a *oldAgent) invite(token string) {
	a.t.Helper()
	if err := a.store.CreateEnrolmentToken(a.t.Context(), store.Scope{All: true}, store.EnrolmentToken{
		ID: newID(a.now), Hash: hashSecret(token), Owner: "home", By: "server:test", Created: a.now, Expires: a.now.Add(time.Hour),
	}, store.Trail{}); err != nil {
		a.t.Fatal(err)
	}
}

// remember gives a server what that of then had: the node with its key, the nonce
// that was signed, and the commands.
func (a *oldAgent) remember(all []oldRequest, e api.Enrolled) {
	a.t.Helper()
	k, err := ledger.ParseKey(e.KeyStatement)
	if err != nil {
		a.t.Fatal(err)
	}
	a.invite("of the node")
	if _, err := a.store.Enrol(a.t.Context(), store.Enrolment{
		TokenHash: hashSecret("of the node"), Node: store.Node{ID: e.Node, Name: "old", Facts: newcomer()}, Key: nodeKey(e.Node, k), At: a.now,
	}); err != nil {
		a.t.Fatal(err)
	}
	nonce := answerTo[api.Nonce](a.t, all, "POST /api/v1/login/nonce")
	if err := a.store.CreateNonce(a.t.Context(), hashSecret(nonce.Nonce), e.Node, a.now.Add(time.Hour)); err != nil {
		a.t.Fatal(err)
	}
	for _, c := range answerTo[[]api.Command](a.t, all, "GET /api/v1/nodes/{id}/commands") {
		if err := a.store.AddCommand(a.t.Context(), store.Scope{All: true}, store.Command{
			ID: c.Id, Node: e.Node, Kind: string(c.Kind), Reason: deref(c.Reason), Created: c.Created, Expires: time.Now().Add(time.Hour),
		}, store.Trail{}); err != nil {
			a.t.Fatal(err)
		}
	}
}

// send sends a request as it was. Only what a server of then gave the agent is that
// of this one: the token, the report's id, and links.
func (a *oldAgent) send(r oldRequest) {
	a.t.Helper()
	path, headers := r.Path, map[string]string{}
	switch {
	case strings.HasSuffix(r.Operation, "/confirm"):
		parts := strings.Split(path, "/")
		parts[len(parts)-2] = a.report
		path = strings.Join(parts, "/")
	case strings.HasPrefix(r.Operation, "PUT /objects/"):
		for _, u := range a.links.Uploads {
			if strings.HasPrefix(r.Path, "/objects/"+u.Sha256) {
				path, headers = u.Url, u.Headers
			}
		}
	}
	got := a.request(r, path, headers)
	if got.status/100 != r.Status/100 {
		a.t.Errorf("%s: %d, and it was %d: %s", r.Operation, got.status, r.Status, got.body)
		return
	}
	a.sameMembers(r, got.body)
	switch r.Operation {
	case "POST /api/v1/login":
		var in api.Login
		a.decode(got.body, &in)
		a.token = in.Token
	case "POST /api/v1/nodes/{id}/reports":
		a.decode(got.body, &a.links)
		a.report = a.links.Report
	}
}

func (a *oldAgent) request(r oldRequest, path string, headers map[string]string) response {
	a.t.Helper()
	if len(headers) == 0 {
		return a.do(r.Method, path, a.token, r.ContentType, []byte(r.Body))
	}
	req, err := http.NewRequestWithContext(a.t.Context(), r.Method, a.url+path, strings.NewReader(r.Body))
	if err != nil {
		a.t.Fatal(err)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	resp.Body.Close()
	return response{status: resp.StatusCode}
}

func (a *oldAgent) decode(b []byte, v any) {
	a.t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		a.t.Fatal(err)
	}
}

// sameMembers wants every member of the answer of then, of an array those of its
// first element.
func (a *oldAgent) sameMembers(r oldRequest, answer []byte) {
	a.t.Helper()
	if r.Answer == "" {
		return
	}
	then, now := members(a.t, []byte(r.Answer)), members(a.t, answer)
	for name := range then {
		if _, ok := now[name]; !ok {
			a.t.Errorf("%s: the answer has no %s: %.300s", r.Operation, name, answer)
		}
	}
}

func members(t *testing.T, b []byte) map[string]json.RawMessage {
	t.Helper()
	var list []json.RawMessage
	if json.Unmarshal(b, &list) == nil {
		if len(list) == 0 {
			return nil
		}
		b = list[0]
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%v: %.200s", err, b)
	}
	return m
}
