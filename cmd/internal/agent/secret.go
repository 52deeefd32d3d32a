package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

// secret reads a token, a key or a passphrase from a file that is for its owner
// only, or that systemd gave us: what lies in the directory of credentials is
// guarded by that, and its owner and mode differ from version to version.
func secret(path string) (string, error) {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if rel, err := filepath.Rel(dir, path); dir == "" || err != nil || !filepath.IsLocal(rel) {
		return cli.ReadToken(path)
	}
	const most = 4096
	b, err := readAtMost(path, most+1)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if text == "" || len(b) > most {
		return "", fmt.Errorf("%s is empty, or larger than %d bytes", path, most)
	}
	return text, nil
}
