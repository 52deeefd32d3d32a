//go:build unix

package outbox

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses a directory of somebody else: who owns it can put records
// there, and they are sent in this node's name.
func checkOwner(dir string, info fs.FileInfo, uid int) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("open outbox %s: its owner cannot be told", dir)
	}
	if st.Uid != uint32(uid) {
		return fmt.Errorf("open outbox %s: it belongs to user %d, and this runs as user %d; what lies there is sent in this node's name: run this as its owner, give another directory, or chown it when you know what is in it", dir, st.Uid, uid)
	}
	return nil
}

func userID() int { return os.Geteuid() }
