//go:build !unix

package disk

import "os"

// TryLock has nothing to lock with here: it is always free.
func TryLock(*os.File) (bool, error) { return true, nil }
