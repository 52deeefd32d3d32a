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
