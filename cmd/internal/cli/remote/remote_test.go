package remote

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/network/api"
)

func tokenFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Setenv(ServerVariable, "")
	t.Setenv(TokenVariable, "")
	token := tokenFile(t)
	for want, f := range map[string]Flags{
		"--server URL":     {TokenFile: token},
		"--token-file":     {Server: "http://127.0.0.1:1"},
		"use https":        {Server: "http://example.com", TokenFile: token},
		"write https://":   {Server: "example.com:1", TokenFile: token},
		"no such file":     {Server: "http://127.0.0.1:1", TokenFile: token + "x"},
		"--tls-ca":         {Server: "https://127.0.0.1:1", TokenFile: token, CA: token},
		"write https://H":  {Server: "https://user:word@127.0.0.1:1", TokenFile: token},
		"write https://HO": {Server: "ftp://127.0.0.1:1", TokenFile: token},
	} {
		if _, err := f.Open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, and not %q", f, err, want)
		}
	}
}

func TestTokenStaysWithTheServer(t *testing.T) {
	var elsewhere string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere = r.Header.Get("Authorization") + r.URL.Path }))
	defer other.Close()
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	t.Setenv(ServerVariable, s.URL)
	t.Setenv(TokenVariable, tokenFile(t))
	c, err := Flags{}.Open()
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.GetMeWithResponse(t.Context())
	if err := c.Answer(r.HTTPResponse, r.Body, err); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a redirect was taken for an answer: %v", err)
	}
	if got != "Bearer secret" || elsewhere != "" {
		t.Errorf("the server got %q and another %q", got, elsewhere)
	}
}

func TestProblemsAreShownHarmless(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"type":"about:blank","title":"x","status":404,"detail":"no \u001b[31msuch node"}`))
	}))
	defer s.Close()
	c, err := Flags{Server: s.URL, TokenFile: tokenFile(t)}.Open()
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.GetNodeWithResponse(t.Context(), api.NodeId("01ARZ3NDEKTSV4RRFFQ69G5FAV"))
	err = c.Answer(r.HTTPResponse, r.Body, err)
	if err == nil || strings.Contains(err.Error(), "\x1b") || !strings.Contains(err.Error(), "such node") {
		t.Errorf("%v", err)
	}
}

// A page that has nothing, as of a filter, is not the last; and a server that repeats
// itself is not asked without end.
func TestNodesGoOnPastAnEmptyPage(t *testing.T) {
	pages := map[string][2]string{"": {"[]", "b"}, "b": {`[{"id":"c"}]`, "c"}, "c": {"[]", ""}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := pages[r.URL.Query().Get("after")]
		if p[1] != "" {
			w.Header().Set("Link", "</api/v1/nodes?after="+p[1]+`&limit=1>; rel="next"`)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(p[0]))
	}))
	defer s.Close()
	c, err := Flags{Server: s.URL, TokenFile: tokenFile(t)}.Open()
	if err != nil {
		t.Fatal(err)
	}
	list := func() (ids []string, err error) {
		for page, err := range c.Nodes(t.Context(), api.ListNodesParams{}) {
			if err != nil {
				return ids, err
			}
			for _, n := range page {
				ids = append(ids, n.Id)
			}
		}
		return ids, nil
	}
	if ids, err := list(); err != nil || len(ids) != 1 || ids[0] != "c" {
		t.Errorf("%v: %v", ids, err)
	}
	pages["c"] = [2]string{"[]", "b"}
	if _, err := list(); err == nil || !strings.Contains(err.Error(), "circle") {
		t.Errorf("a circle: %v", err)
	}
}
