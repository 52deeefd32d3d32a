package parttest_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// query asks a database by psql and gives its answer.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	out, err := exec.Command("psql", "-qXAt", "-v", "ON_ERROR_STOP=1", "-c", sql, url).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", sql, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestRealNetworkPostgresGivesFreshDatabases(t *testing.T) {
	one, two := parttest.Postgres(t), parttest.Postgres(t)
	query(t, one, "CREATE TABLE t (x int)")
	query(t, two, "CREATE TABLE t (x int)") // fails if it is the same database
	if got := query(t, one, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s: what was committed would not outlive a kill of the machine", got)
	}
}

func TestRealNetworkPostgresIsKilledAndComesBack(t *testing.T) {
	s := parttest.OwnPostgres(t)
	query(t, s.URL, "CREATE TABLE t AS SELECT 7 AS x")
	s.Kill()
	if out, err := exec.Command("psql", "-X", "-c", "SELECT 1", s.URL).CombinedOutput(); err == nil {
		t.Fatalf("it answers after the kill: %s", out)
	}
	s.Restart()
	if got := query(t, s.URL, "SELECT x FROM t"); got != "7" {
		t.Errorf("after the kill t has %q", got)
	}
	if !strings.Contains(s.Log(), "automatic recovery in progress") {
		t.Errorf("it was not killed, but shut down:\n%s", s.Log())
	}
	s.Restart() // of one that runs
	if got := query(t, s.URL, "SELECT x FROM t"); got != "7" {
		t.Errorf("after a restart t has %q", got)
	}
}

// Through PgBouncer a session is not one: clients share the connections of its
// pool, which direct ones do not.
func TestRealNetworkPgBouncerSharesConnections(t *testing.T) {
	direct := parttest.Postgres(t)
	through := parttest.PgBouncer(t, direct, 1)
	if through == direct {
		t.Fatal("it is not between")
	}
	pid := query(t, through, "SELECT pg_backend_pid()")
	if again := query(t, through, "SELECT pg_backend_pid()"); again != pid {
		t.Errorf("two clients had the connections %s and %s of a pool of one", pid, again)
	}
}

func TestRealNetworkS3RefusesStrangers(t *testing.T) {
	one, two := parttest.S3(t), parttest.S3(t)
	if one.Name == two.Name || one.Endpoint != two.Endpoint {
		t.Errorf("%+v and %+v are not two buckets of one server", one, two)
	}
	resp, err := http.Get(one.Endpoint + "/" + one.Name)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("without a signature: %s", resp.Status)
	}
}

// token signs a user in by password and gives the claims of the id token.
func token(t *testing.T, issuer, user string) (claims struct {
	Issuer   string   `json:"iss"`
	Audience string   `json:"aud"`
	Groups   []string `json:"groups"`
}) {
	t.Helper()
	resp, err := http.PostForm(issuer+"/protocol/openid-connect/token", url.Values{
		"grant_type": {"password"}, "client_id": {"assay-server"}, "scope": {"openid"},
		"username": {user}, "password": {user + "-password"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Token string `json:"id_token"`
	}
	if err := json.Unmarshal(b, &answer); err != nil || answer.Token == "" {
		t.Fatalf("%s gets no token: %s %s", user, resp.Status, b)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(answer.Token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestRealNetworkKeycloakHasUsersAndGroups(t *testing.T) {
	issuer := parttest.Keycloak(t)
	for user, groups := range map[string][]string{"alice": {"assay-admins"}, "bob": {"assay-viewers-acme"}, "mallory": nil} {
		got := token(t, issuer, user)
		if !slices.Equal(got.Groups, groups) || got.Issuer != issuer || got.Audience != "assay-server" {
			t.Errorf("%s has %+v", user, got)
		}
	}
}

func TestRealNetworkKeycloakTakesARealm(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(parttest.Scripts(t), "keycloak-realm.json"))
	if err != nil {
		t.Fatal(err)
	}
	issuer := parttest.KeycloakRealm(t, []byte(strings.Replace(string(b), `"realm": "assay"`, `"realm": "own"`, 1)))
	if !strings.HasSuffix(issuer, "/realms/own") || token(t, issuer, "alice").Issuer != issuer {
		t.Errorf("the realm is at %s", issuer)
	}
}

// The tool itself is tried: it must find a fault that is there.
func TestRealNetworkSchemathesisFindsAFault(t *testing.T) {
	command := parttest.Install(t, "schemathesis")
	document := `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/x": {"get": {
		"parameters": [{"name": "n", "in": "query", "required": true, "schema": {"type": "integer"}}],
		"responses": {"200": {"description": "good"}, "400": {"description": "bad"}}}}}}`
	file := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.FormValue("n"), "-") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	run := exec.Command(command, "run", file, "--url", server.URL, "--checks", "not_a_server_error", "--max-examples", "50")
	run.Dir = t.TempDir() // it keeps what it found
	out, err := run.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Server error") {
		t.Errorf("it found nothing: %v\n%s", err, out)
	}
}
