//go:build unix

package store

import (
	"io/fs"
	"strconv"
	"syscall"
)

// fileNumber is the number of a file on its disk. That of the disk is left out: it
// changes when a machine boots.
func fileNumber(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(st.Ino, 10)
	}
	return ""
}
