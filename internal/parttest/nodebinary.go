package parttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// NodeBinary is the program assay-node for this machine, built once where CI has
// built none.
var NodeBinary = sync.OnceValues(func() ([]byte, error) {
	if dir := os.Getenv("BIN"); dir != "" {
		return os.ReadFile(filepath.Join(dir, "assay-node"))
	}
	dir, err := os.MkdirTemp("", "assay-node-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "assay-node"), "github.com/assay-bench/assay/cmd/assay-node")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "assay-node"))
})
