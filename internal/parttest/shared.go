package parttest

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// shared is one server for all tests of a process, or of a whole run of CI, which
// then has its address in a variable.
type shared struct {
	part     string // its scripts: part installs it, part-serve starts it
	variable string

	once sync.Once
	out  string // what its start printed, or the variable's value
	err  error
	hold func() error // ends the server; kept, since its pipe ends with it
}

var (
	sharedPostgres = shared{part: "postgres", variable: "ASSAY_POSTGRES_URL"}
	sharedKeycloak = shared{part: "keycloak", variable: "ASSAY_KEYCLOAK_URL"}
	sharedS3       = shared{part: "versitygw", variable: "ASSAY_S3_ENDPOINT"}
)

// address starts the server at its first call. It ends with this process.
func (s *shared) address(tb testing.TB) string {
	tb.Helper()
	if out := os.Getenv(s.variable); out != "" {
		return out
	}
	Install(tb, s.part)
	s.once.Do(func() {
		serve := s.serve(tb)
		var dir string
		if dir, s.err = os.MkdirTemp("", "assay-"+s.part+"-"); s.err != nil {
			return
		}
		if s.hold, s.err = watch(serve, dir); s.err != nil {
			return
		}
		s.out, s.err = script(nil, serve, "start", dir)
		s.out = strings.TrimSpace(s.out)
	})
	if s.err != nil {
		tb.Fatalf("the %s of this process did not start: %v", s.part, s.err)
	}
	return s.out
}

func (s *shared) serve(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(Scripts(tb), s.part+"-serve")
}
