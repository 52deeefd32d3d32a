package driver

import (
	"os"

	"golang.org/x/sys/unix"
)

// deviceNumbers are those of a character device; -1 of what is none.
func deviceNumbers(path string) (major, minor int, err error) {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return 0, 0, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	if s.Mode&unix.S_IFMT != unix.S_IFCHR {
		return -1, -1, nil
	}
	return int(unix.Major(s.Rdev)), int(unix.Minor(s.Rdev)), nil
}
