package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
)

const (
	refusedDir    = "refused"
	refusedNew    = "new.jsonl"
	refusedOld    = "old.jsonl"
	maxReason     = 1000
	maxRefusedLog = 16
	minRefused    = 256 << 10 // two records of the largest kind fit into each half
)

// refusal is one line of refused/: what the package comment promises.
type refusal struct {
	At     string `json:"at"` // when it was refused, by this machine's clock
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Node   string `json:"node"`
	Reason string `json:"reason"`
	Value  []byte `json:"value"` // base64
}

func newRefusal(now time.Time, r *ledger.Record, reason string) refusal {
	if reason = foreign.Line(reason, maxReason); reason == "" {
		reason = "no reason was given"
	}
	return refusal{now.UTC().Format(time.RFC3339Nano), r.ID.String(), string(r.Kind), r.Node, reason, r.Value}
}

func refusedIn(dir string) string { return filepath.Join(dir, refusedDir) }

// keepRefusals appends lines to refused/, which never takes more than limit bytes:
// when a half is full it becomes the old one, and the old one before it goes.
func keepRefusals(dir string, refused []refusal, limit int64) error {
	unlock, err := lockDir(dir)
	if err != nil {
		return fmt.Errorf("keep what was refused: %w", err)
	}
	defer unlock()
	in := refusedIn(dir)
	if err := os.Mkdir(in, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep what was refused: %w", err)
	}
	var pending []byte
	for i := range refused {
		line, err := json.Marshal(&refused[i])
		if err != nil {
			return fmt.Errorf("keep what was refused: %w", err)
		}
		line = append(line, '\n')
		if int64(len(pending)+len(line)) > limit/2 {
			if err := appendRefused(in, pending, limit/2); err != nil {
				return fmt.Errorf("keep what was refused: %w", err)
			}
			pending = pending[:0]
		}
		pending = append(pending, line...)
	}
	if err := appendRefused(in, pending, limit/2); err != nil {
		return fmt.Errorf("keep what was refused: %w", err)
	}
	return nil
}

// appendRefused makes whole lines durable in the new half.
func appendRefused(in string, lines []byte, half int64) error {
	root, err := os.OpenRoot(in)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := disk.Open(root, refusedNew, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	size, err := wholeLines(f)
	if err == nil && size > 0 && size+int64(len(lines)) > half {
		err = errors.Join(f.Close(), root.Rename(refusedNew, refusedOld))
		if err == nil {
			f, err = disk.Open(root, refusedNew, os.O_RDWR|os.O_CREATE, 0o600)
			size = 0
		}
		if err != nil {
			return err
		}
	}
	if err == nil {
		_, err = f.WriteAt(lines, size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), disk.SyncDirIn(root, "."))
}

// wholeLines is where the next line goes: behind the last whole one. A torn one is
// of a process that died, which was not told that it is kept.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	const longest = 2*ledger.MaxValue + 8*maxReason
	from := max(0, info.Size()-longest)
	tail := make([]byte, info.Size()-from)
	if n, err := f.ReadAt(tail, from); n < len(tail) {
		return 0, err
	}
	end := from + int64(bytes.LastIndexByte(tail, '\n')+1)
	if end == from && from > 0 {
		return 0, fmt.Errorf("%s: its end is no line: move it away", f.Name())
	}
	return end, f.Truncate(end)
}
