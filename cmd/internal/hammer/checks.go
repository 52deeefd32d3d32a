package hammer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/journal"
)

// maxChecksFile bounds --checks: eight GPUs have some fifty lines.
const maxChecksFile = 4 << 20

// readChecks reads what assay verify --out DIR found.
func readChecks(dir string) ([]assay.Check, error) {
	path := filepath.Join(dir, journal.ChecksFile)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read --checks: %w; assay verify --out DIR writes it", err)
	}
	defer root.Close()
	f, err := disk.Open(root, journal.ChecksFile, os.O_RDONLY, 0) // which waits for no pipe's other end
	if err != nil {
		return nil, fmt.Errorf("read --checks: %s: %w; assay verify --out DIR writes it", dir, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read --checks: %w", err)
	}
	if info.Size() > maxChecksFile {
		return nil, fmt.Errorf("read --checks: %s is not a file of checks: it is larger than %d bytes", path, maxChecksFile)
	}
	checks, err := parseChecks(io.LimitReader(f, maxChecksFile))
	if err != nil {
		return nil, fmt.Errorf("read --checks: %s: %w", path, err)
	}
	return checks, nil
}

func parseChecks(r io.Reader) ([]assay.Check, error) {
	var out []assay.Check
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxChecksFile)
	for n := 1; lines.Scan(); n++ {
		var c assay.Check
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if c.Name == "" || c.At <= 0 {
			return nil, fmt.Errorf("line %d: it is no check: it has no name, or no time", n)
		}
		out = append(out, c)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("it has no check")
	}
	return out, nil
}
