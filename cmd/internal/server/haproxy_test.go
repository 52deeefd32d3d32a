package server

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay/cmd/internal/cli/remote"
)

// A router's token that was replaced is used without a new start.
func TestKeeperReadsANewToken(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"status":401,"title":"Unauthorized","type":"about:blank","instance":"i"}`))
			return
		}
		_, _ = w.Write([]byte("[]"))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	f := haproxyFlags{remote: remote.Flags{Server: s.URL, TokenFile: file}}
	ask, err := f.asking()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context()); err == nil {
		t.Fatal("the old token is taken")
	}
	write("new")
	if _, err := ask(t.Context()); err == nil {
		t.Error("a token is read before the old one was refused")
	}
	if _, err := ask(t.Context()); err != nil {
		t.Errorf("the new token is not used: %v", err)
	}
}
