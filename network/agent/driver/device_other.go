//go:build !linux

package driver

import "errors"

// deviceNumbers are not known on other systems.
func deviceNumbers(string) (major, minor int, err error) {
	return 0, 0, errors.New("device numbers are read on Linux only")
}
