package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay/internal/disk"
)

// Names in the state directory (docs/formats/agent.md).
const (
	lockFile     = "lock"
	nodeFile     = "node.json"
	phraseFile   = "passphrase"
	keysDir      = "keys"
	outboxDir    = "outbox"
	runsDir      = "runs"
	reportsDir   = "reports"
	commandsFile = "commands.json"
	settingsFile = "settings.json"
	spentFile    = "schedule.json"

	maxStateFile = 1 << 20
)

// ErrStateInUse means that another agent has the directory. Give each its own.
var ErrStateInUse = errors.New("another agent uses the state directory")

// state is the agent's directory, which is its alone while it is open.
type state struct {
	dir  string
	lock *os.File
}

// identity is node.json: who the node is, and with which key. It is written before
// a key is used and after an answer is understood, so that whatever dies in
// between asks again with the same key.
type identity struct {
	Format    string `json:"format"`
	Server    string `json:"server"`              // address that the key was made for
	Key       string `json:"key"`                 // id of the key that signs
	NextKey   string `json:"next_key,omitempty"`  // one that the server is asked to certify
	Node      string `json:"node,omitempty"`      // empty: not enrolled
	Owner     string `json:"owner,omitempty"`     // by the server's word
	Origin    string `json:"origin,omitempty"`    // what log-ins are signed for
	Heartbeat int    `json:"heartbeat,omitempty"` // seconds
}

const identityFormat = "assay/agent-node/v1"

// openState makes the directory if needed, for its owner only, and locks it.
func openState(dir string) (*state, error) {
	if err := disk.MkdirAll(dir, 0o700); err != nil && !errors.Is(err, disk.ErrUnsynced) {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open the state directory: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("state directory %s has mode %04o, and holds the node's key: chmod 700 it", dir, mode)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	ok, err := disk.TryLock(f)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s", ErrStateInUse, dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &state{dir: dir, lock: f}
	for _, sub := range []string{keysDir, runsDir, reportsDir} {
		if err := os.Mkdir(s.path(sub), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, errors.Join(fmt.Errorf("make the state directory: %w", err), s.close())
		}
	}
	return s, errors.Join(disk.SyncDir(dir), disk.Tidy(dir), disk.Tidy(s.path(reportsDir)))
}

func (s *state) close() error { return disk.Unlock(s.lock) }

func (s *state) path(names ...string) string {
	return filepath.Join(append([]string{s.dir}, names...)...)
}

// read fills v from a file; false: there is none.
func (s *state) read(name string, v any) (bool, error) {
	f, err := os.Open(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxStateFile+1))
	if err != nil {
		return false, err
	}
	if len(b) > maxStateFile {
		return false, fmt.Errorf("%s is larger than %d bytes, which nothing of ours is", s.path(name), maxStateFile)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("%s: %w; move it away and look what wrote it", s.path(name), err)
	}
	return true, nil
}

// write replaces a file; it is on the disk when it returns.
func (s *state) write(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := disk.Replace(s.path(name), 0o600, disk.Bytes(append(b, '\n'))); err != nil && !errors.Is(err, disk.ErrUnsynced) {
		return fmt.Errorf("write %s: %w", s.path(name), err)
	}
	return nil
}

// identity reads node.json; the zero one is that of an agent that starts anew.
func (s *state) identity() (identity, error) {
	var id identity
	found, err := s.read(nodeFile, &id)
	if err != nil {
		return id, err
	}
	if found && id.Format != identityFormat {
		return id, fmt.Errorf("%s is of the format %q, and this program knows %q", s.path(nodeFile), id.Format, identityFormat)
	}
	id.Format = identityFormat
	return id, nil
}
