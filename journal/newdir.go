package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/assay-bench/assay/internal/disk"
)

// maxSameSecond bounds the directories that NewDir makes for one second.
const maxSameSecond = 10_000

// NewDir makes an empty directory under parent for a run that begins now, named
// by the time: 20060102-150405, and with -2, -3… behind it where several begin
// in one second. Making it is what reserves the name, so that two processes
// never get the same one.
func NewDir(parent string, now time.Time) (string, error) {
	if err := disk.MkdirAll(parent, 0o755); err != nil && !errors.Is(err, disk.ErrUnsynced) {
		return "", fmt.Errorf("make a run directory: %w", err)
	}
	name := filepath.Join(parent, now.Format("20060102-150405"))
	dir := name
	for n := 2; ; n++ {
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) || n > maxSameSecond {
			return "", fmt.Errorf("make a run directory: %w", err)
		}
		dir = name + "-" + strconv.Itoa(n)
	}
}
