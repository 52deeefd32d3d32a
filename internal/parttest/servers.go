package parttest

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Postgres gives the URL of a fresh, empty database, which is dropped at the
// test's end. Its server is shared: ASSAY_POSTGRES_URL's, else one that this
// process starts. A test that uses it has RealNetwork in its name.
func Postgres(tb testing.TB) string {
	tb.Helper()
	server := sharedPostgres.address(tb)
	serve := sharedPostgres.serve(tb)
	url := Run(tb, nil, serve, "database", server)
	tb.Cleanup(func() { Run(tb, nil, serve, "drop", url) })
	return url
}

// PgBouncer gives the URL of the same database through a PgBouncer of the test's
// own, in transaction mode. pool is the number of connections that its clients
// share; 0: ten.
func PgBouncer(tb testing.TB, url string, pool int) string {
	tb.Helper()
	Install(tb, "postgres")
	serve, dir := filepath.Join(Scripts(tb), "pgbouncer-serve"), tb.TempDir()
	StopAtEnd(tb, serve, dir)
	var env []string
	if pool > 0 {
		env = append(env, "PGBOUNCER_POOL="+strconv.Itoa(pool))
	}
	return Run(tb, env, serve, "start", dir, url)
}

// Server is a server of the test's own, to be killed and started again.
type Server struct {
	URL string // of PostgreSQL's database assay, or of S3; Temporal's HOST:PORT

	tb         testing.TB
	serve, dir string
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() { s.tb.Helper(); Run(s.tb, nil, s.serve, "kill", s.dir) }

// Restart starts it again, with its port and its data, and waits until it serves.
// A PostgreSQL that still runs is shut down first, and its connections cut.
func (s *Server) Restart() { s.tb.Helper(); Run(s.tb, nil, s.serve, "restart", s.dir) }

// PeakBytes is the most memory that it has had, as the system counts; 0: nobody says.
func (s *Server) PeakBytes() int64 {
	pid, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		return 0
	}
	status, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// Log is what it has printed.
func (s *Server) Log() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// OwnPostgres starts a PostgreSQL that no other test uses.
func OwnPostgres(tb testing.TB) *Server {
	tb.Helper()
	s, url := own(tb, "postgres")
	s.URL = url
	return s
}

func own(tb testing.TB, part string) (*Server, string) {
	tb.Helper()
	Install(tb, part)
	s := &Server{tb: tb, serve: filepath.Join(Scripts(tb), part+"-serve"), dir: tb.TempDir()}
	StopAtEnd(tb, s.serve, s.dir)
	return s, Run(tb, nil, s.serve, "start", s.dir)
}

// Bucket is one on a real S3 server.
type Bucket struct {
	Endpoint             string // http://HOST:PORT
	AccessKey, SecretKey string
	Name                 string
}

// S3 gives a fresh, empty bucket. Its server is shared: that of the variables
// ASSAY_S3_ENDPOINT, ASSAY_S3_ACCESS_KEY and ASSAY_S3_SECRET_KEY, else one that
// this process starts.
func S3(tb testing.TB) Bucket {
	tb.Helper()
	out := sharedS3.address(tb)
	b := bucket(out)
	if b.Endpoint == "" { // the variables say, and out is one of them
		b = Bucket{Endpoint: out, AccessKey: os.Getenv("ASSAY_S3_ACCESS_KEY"), SecretKey: os.Getenv("ASSAY_S3_SECRET_KEY")}
	}
	b.Name = "assay-" + strings.ToLower(rand.Text())
	Run(tb, []string{"ASSAY_S3_ENDPOINT=" + b.Endpoint, "ASSAY_S3_ACCESS_KEY=" + b.AccessKey, "ASSAY_S3_SECRET_KEY=" + b.SecretKey},
		sharedS3.serve(tb), "bucket", b.Name)
	return b
}

// OwnS3 starts an S3 server that no other test uses, with an empty bucket.
func OwnS3(tb testing.TB) (*Server, Bucket) {
	tb.Helper()
	s, out := own(tb, "versitygw")
	b := bucket(out)
	s.URL = b.Endpoint
	return s, b
}

// values reads what a script prints as a shell sets variables.
func values(lines string) map[string]string {
	value := map[string]string{}
	for line := range strings.Lines(lines) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			value[k] = strings.Trim(v, "'")
		}
	}
	return value
}

// bucket reads what versitygw-serve prints.
func bucket(lines string) Bucket {
	value := values(lines)
	return Bucket{
		Endpoint:  value["ASSAY_S3_ENDPOINT"],
		AccessKey: value["ASSAY_S3_ACCESS_KEY"],
		SecretKey: value["ASSAY_S3_SECRET_KEY"],
		Name:      value["ASSAY_S3_BUCKET"],
	}
}

// Keycloak gives the issuer of the realm of .ci/parts/keycloak-realm.json: client
// assay-server, users alice (group assay-admins), bob (assay-viewers-acme) and
// mallory (none), whose passwords are NAME-password. Its server is shared:
// ASSAY_KEYCLOAK_URL's, else one that this process starts, which takes half a
// minute.
func Keycloak(tb testing.TB) (issuer string) {
	tb.Helper()
	return sharedKeycloak.address(tb) + "/realms/assay"
}

// KeycloakRealm imports a realm of the test's own into the shared Keycloak and
// gives its issuer. The realm goes at the test's end.
func KeycloakRealm(tb testing.TB, realm []byte) (issuer string) {
	tb.Helper()
	server, serve := sharedKeycloak.address(tb), sharedKeycloak.serve(tb)
	file := filepath.Join(tb.TempDir(), "realm.json")
	if err := os.WriteFile(file, realm, 0o600); err != nil {
		tb.Fatal(err)
	}
	issuer = Run(tb, nil, serve, "realm", server, file)
	tb.Cleanup(func() { Run(tb, nil, serve, "delete", issuer) })
	return issuer
}
