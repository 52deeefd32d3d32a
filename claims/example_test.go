package claims_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

// The page docs/adding-a-probe.md shows what stands between the marks.
// begin
func renameProbe() claims.Probe {
	return claims.Probe{
		Name: "disk/rename", Help: "Renames a file in a directory of its own.",
		Needs: "a directory on a disk", Unit: "s", Better: assay.Lower, Start: startRename,
	}
}

// renamer gives one file two names in turn.
type renamer struct{ dir, from, to string }

func startRename(_ context.Context, env claims.Env) (claims.Runner, error) {
	dir, err := os.MkdirTemp(env.Dir, "rename-")
	if err != nil {
		return nil, claims.Unavailablef("make a directory to rename in: %w", err)
	}
	r := &renamer{dir: dir, from: filepath.Join(dir, "a"), to: filepath.Join(dir, "b")}
	if err := os.WriteFile(r.from, nil, 0o600); err != nil {
		_ = r.Close()
		return nil, claims.Unavailablef("make a file to rename: %w", err)
	}
	return r, nil
}

func (r *renamer) Sample(context.Context) (claims.Measurement, error) {
	start := time.Now()
	err := os.Rename(r.from, r.to)
	took := time.Since(start)
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("rename a file: %w", err)
	}
	if _, err := os.Stat(r.to); err != nil {
		return claims.Measurement{}, fmt.Errorf("%w: the new name is not there: %w", claims.ErrWrong, err)
	}
	r.from, r.to = r.to, r.from
	return claims.Measurement{Value: took.Seconds()}, nil
}

func (r *renamer) Close() error { return os.RemoveAll(r.dir) }

// end

func Example() {
	const file = `claims:
  - {name: renaming, probe: disk/rename, metric: p50, target: "<= 60s"}
`
	suite, err := claims.Read(strings.NewReader(file), "claims.yaml", claims.Catalog{Probes: []claims.Probe{renameProbe()}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := claims.Run(context.Background(), suite, claims.Options{Samples: 200})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Claims[0].Name, r.Verdict, r.Probes[0].Samples)
	// Output: renaming pass 200
}

// The page shows this very code: what does not compile cannot stand there.
func TestPageShowsTheExample(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "\n// begin\n")
	code, _, found := strings.Cut(code, "\n// end\n")
	page, err := os.ReadFile("../docs/adding-a-probe.md")
	if err != nil {
		t.Fatal(err)
	}
	if !found || !strings.Contains(string(page), "```go\n"+code+"```\n") {
		t.Error("docs/adding-a-probe.md does not show the code between begin and end of example_test.go")
	}
}
