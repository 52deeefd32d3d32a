package witness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/assay-bench/assay/internal/disk"
)

const memoryFormat = "assay/witness/v1"

// memory is the file witness.json: whose directory it is, and for which logs a
// checkpoint was signed. A witness that finds no checkpoint of such a log has lost
// it, and must not begin again: it would sign a second history.
type memory struct {
	Format string    `json:"format"`
	Name   string    `json:"name"`
	Key    string    `json:"key"` // the key's hash, as in a note's signature line
	Begun  time.Time `json:"begun"`
	Logs   []string  `json:"logs"` // origins, sorted
}

func memoryPath(dir string) string { return filepath.Join(dir, "witness.json") }

// keyName is the hash of the witness's key, in hexadecimal.
func (o Options) keyName() string { return fmt.Sprintf("%08x", o.Signer.KeyHash()) }

// Create makes the memory of a new witness in its directory; after that New opens
// it. It is a step of its own, so that a witness whose directory is lost, or not
// mounted, does not begin again unasked. Checkpoints that lie there are kept.
func Create(o Options) error {
	lock, err := o.take()
	if err != nil {
		return err
	}
	defer func() { _ = disk.Unlock(lock) }() // nothing was written through it
	if _, err := os.Lstat(memoryPath(o.Dir)); err == nil {
		return fmt.Errorf("%w: %s is there; start the witness without --new", ErrBegun, memoryPath(o.Dir))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the witness's directory: %w", err)
	}
	m := memory{memoryFormat, o.Signer.Name(), o.keyName(), o.Now().UTC().Truncate(time.Second), []string{}}
	files, err := filepath.Glob(filepath.Join(o.Dir, "logs", "*", "checkpoint"))
	if err != nil {
		return err
	}
	for _, file := range files {
		origin, err := originOf(file)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrState, file, err)
		}
		m.Logs = append(m.Logs, origin)
	}
	return m.write(o.Dir)
}

func originOf(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	n, err := parseNote(b)
	if err != nil {
		return "", err
	}
	t, err := parseTree(n.Text)
	return t.origin, err
}

func (m memory) encode() []byte {
	slices.Sort(m.Logs)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		panic(err) // strings and a time
	}
	return b.Bytes()
}

func (m memory) write(dir string) error {
	if err := disk.Replace(memoryPath(dir), 0o600, disk.Bytes(m.encode())); err != nil {
		return fmt.Errorf("write the witness's memory: %w", err)
	}
	return nil
}

// readMemory takes the file of this witness, in the one spelling that it has.
func readMemory(o Options) (memory, error) {
	path := memoryPath(o.Dir)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return memory{}, fmt.Errorf("%w: there is no %s. If this key has signed before, its directory is lost or not mounted: give that one, or make a new witness with a new key. If it is new, begin with --new", ErrNotBegun, path)
	}
	if err != nil {
		return memory{}, fmt.Errorf("read the witness's memory: %w", err)
	}
	var m memory
	if err := json.Unmarshal(b, &m); err != nil || !bytes.Equal(m.encode(), b) {
		return memory{}, fmt.Errorf("%w: %s is not as it was written: restore it from a backup, or make a new witness with a new key", ErrState, path)
	}
	if m.Format != memoryFormat {
		return memory{}, fmt.Errorf("%w: %s has the format %.40q, and %q is known", ErrState, path, m.Format, memoryFormat)
	}
	if m.Name != o.Signer.Name() || m.Key != o.keyName() {
		return memory{}, fmt.Errorf("%w: %s is of %s+%s, not of %s+%s: give the key that this directory belongs to, or another directory", ErrState, path, m.Name, m.Key, o.Signer.Name(), o.keyName())
	}
	return m, nil
}

// has reports whether something was signed for a log.
func (m memory) has(origin string) bool { return slices.Contains(m.Logs, origin) }

// signed notes that a checkpoint of the log lies in its place. It is called
// before the first signature leaves: from then on a lost file is known as lost.
func (w *Witness) signed(origin string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.memory.has(origin) {
		return nil
	}
	next := w.memory
	next.Logs = append(slices.Clone(next.Logs), origin)
	slices.Sort(next.Logs)
	if err := next.write(w.o.Dir); err != nil {
		return err
	}
	w.memory = next
	return nil
}

// lost says that a log's checkpoint should be there.
func (l *log) lost() error {
	return fmt.Errorf("%w: log %s: %s is gone, and a checkpoint of this log was signed: restore the file from a backup that is not older than the last signature, or make a new witness with a new key", ErrState, l.origin, l.path())
}
