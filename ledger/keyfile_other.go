//go:build !unix

package ledger

import (
	"fmt"
	"io/fs"
	"os"
)

func openSecret(path string) (*os.File, error) { return os.Open(path) }

// secretInfo refuses what it cannot check.
func secretInfo(path string, _ fs.FileInfo) error {
	return fmt.Errorf("%s: %w, for all that can be told on this system: hold the key outside, with a signer command", path, ErrSecretMode)
}
