package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// heard is a request of an agent and its answer, as
// network/server/testdata/protocol/README.md has it.
type heard struct {
	Operation   string    `json:"operation"` // method and path, with {id} and {hash}
	Time        time.Time `json:"time"`
	Method      string    `json:"method"`
	Path        string    `json:"path"` // with the query
	ContentType string    `json:"content_type,omitempty"`
	Body        string    `json:"body,omitempty"`
	Status      int       `json:"status"`
	Answer      string    `json:"answer,omitempty"`
}

// spoken are the operations that an agent needs from its enrolment to a report.
var spoken = []string{
	"GET /api/v1/server", "POST /api/v1/enrol", "POST /api/v1/login/nonce", "POST /api/v1/login",
	"POST /api/v1/nodes/{id}/heartbeat", "PUT /api/v1/nodes/{id}/inventory", "GET /api/v1/nodes/{id}/commands",
	"PUT /api/v1/nodes/{id}/commands/{id}", "POST /api/v1/nodes/{id}/statements", "POST /api/v1/nodes/{id}/reports",
	"PUT /objects/{hash}", "POST /api/v1/nodes/{id}/reports/{id}/confirm",
}

var (
	idInPath   = regexp.MustCompile(`/[0-9A-HJKMNP-TV-Z]{26}`)
	hashInPath = regexp.MustCompile(`/[0-9a-f]{64}`)
)

// The requests of a real agent, from its enrolment to its first report, are written
// down: at a release into the corpus that ASSAY_RECORD names, which later servers
// must understand, else to see that they still can be.
func TestRealNetworkRecording(t *testing.T) {
	t.Parallel()
	s := prepareOn(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	s.start()
	t.Cleanup(func() { s.kill() })
	n := &life{served: s}
	n.policy()
	n.enginesRuns("20ms")
	front := &recorder{}
	n.assay("server", "token", "create", "--owner", "home", "--out", n.path("agent.token"))
	if err := os.WriteFile(n.path("agent.yaml"), fmt.Appendf(nil, stormFile, "http://"+n.at), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &station{t: t, program: n.program, server: front.serve(t, s.url), dir: n.path("agent"), config: n.path("agent.yaml")}
	a.start()
	t.Cleanup(a.close)
	for end := time.Now().Add(3 * time.Minute); len(front.missing()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the agent did not ask for %q", front.missing())
		}
	}
	a.kill()
	dir := os.Getenv("ASSAY_RECORD")
	if dir == "" {
		dir = t.TempDir()
	}
	if err := front.write(dir); err != nil {
		t.Fatal(err)
	}
}

// heardKey is where a request carries what is remembered of it.
type heardKey struct{}

// recorder is a proxy that remembers.
type recorder struct {
	mu  sync.Mutex
	all []heard
}

// serve listens in front of a server.
func (r *recorder) serve(t *testing.T, server string) string {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(resp *http.Response) error {
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		resp.Body = io.NopCloser(bytes.NewReader(answer))
		h, ok := resp.Request.Context().Value(heardKey{}).(*heard)
		if !ok {
			return nil
		}
		h.Status, h.Answer = resp.StatusCode, string(answer)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, *h)
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the agent is gone
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		h := &heard{
			Operation: req.Method + " " + hashInPath.ReplaceAllString(idInPath.ReplaceAllString(req.URL.Path, "/{id}"), "/{hash}"),
			Time:      time.Now().UTC(), Method: req.Method, Path: req.URL.RequestURI(), ContentType: req.Header.Get("Content-Type"), Body: string(body),
		}
		proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), heardKey{}, h)))
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// missing are operations that were not asked for with success yet.
func (r *recorder) missing() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := map[string]bool{}
	for _, o := range spoken {
		left[o] = true
	}
	for i := range r.all {
		if r.all[i].Status/100 == 2 {
			delete(left, r.all[i].Operation)
		}
	}
	return slices.Sorted(maps.Keys(left))
}

// write writes what succeeded: of each operation the first, and of uploads and
// acknowledgements all. A poll counts when it brought a command.
func (r *recorder) write(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	seen := map[string]bool{}
	for i := range r.all {
		h := &r.all[i]
		many := strings.HasPrefix(h.Operation, "PUT /objects") || strings.HasSuffix(h.Operation, "/commands/{id}")
		if h.Status/100 != 2 || seen[h.Operation] && !many || strings.HasSuffix(h.Operation, "/commands") && h.Answer == "[]\n" {
			continue
		}
		seen[h.Operation] = true
		if err := json.NewEncoder(&b).Encode(h); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "requests.jsonl"), b.Bytes(), 0o644)
}
