//go:build unix

package ledger

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openSecret opens without waiting: a pipe in place of the file must not hold us.
func openSecret(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// secretInfo judges mode bits and owner, not what the system would let us do:
// root may read everything, and the key is as open as before.
func secretInfo(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o: %w: run `chmod 600 %s`, and think of the secret as known if they could", path, mode, ErrSecretMode, path)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: %w: its owner cannot be told", path, ErrSecretOwner)
	}
	if uid := os.Geteuid(); st.Uid != uint32(uid) {
		return fmt.Errorf("%s belongs to user %d, and this runs as user %d: %w: run this as its owner, or `chown %d %s`", path, st.Uid, uid, ErrSecretOwner, uid, path)
	}
	return nil
}
