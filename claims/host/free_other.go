//go:build !linux

package host

import (
	"fmt"
	"runtime"
)

// freeDisk is how many bytes are free for us where a directory lies.
func freeDisk(dir string) (float64, error) {
	if dir == "" {
		return 0, errNoDirectory
	}
	return 0, fmt.Errorf("free space is not read on %s", runtime.GOOS)
}
