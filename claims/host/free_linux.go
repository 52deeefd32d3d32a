package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeDisk is how many bytes are free for us where a directory lies.
func freeDisk(dir string) (float64, error) {
	if dir == "" {
		return 0, errNoDirectory
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	return float64(fs.Bavail) * float64(fs.Bsize), nil
}
