package tlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/oklog/ulid/v2"

	"github.com/transparency-dev/tessera/api/layout"
)

// dirLog reads a log's directory. It follows no link out of it.
type dirLog struct {
	name string
	root *os.Root
	ids  string // the notary's index of ids; "": there is none
}

func openDir(where string) (*dirLog, error) {
	abs, err := filepath.Abs(where)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", where, err)
	}
	if _, err := os.Stat(filepath.Join(abs, layout.CheckpointPath)); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(abs, "log", layout.CheckpointPath)); err == nil {
			abs = filepath.Join(abs, "log")
		}
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", where, err)
	}
	d := &dirLog{name: where, root: root}
	if filepath.Base(abs) == "log" {
		d.ids = filepath.Join(filepath.Dir(abs), "ids")
	}
	return d, nil
}

func (d *dirLog) String() string { return d.name }

// Close gives the directory back.
func (d *dirLog) Close() error { return d.root.Close() }

func (d *dirLog) Checkpoint(context.Context) ([]byte, error) {
	return d.read(layout.CheckpointPath, maxCheckpoint)
}

func (d *dirLog) Tile(_ context.Context, level, index uint64, partial uint8) ([]byte, error) {
	b, err := d.read(layout.TilePath(level, index, partial), tileWidth*hashSize)
	if partial != 0 && errors.Is(err, fs.ErrNotExist) {
		b, err = d.read(layout.TilePath(level, index, 0), tileWidth*hashSize)
		if err != nil {
			return nil, err
		}
		return cutTile(b, int(partial))
	}
	return b, err
}

func (d *dirLog) Entries(_ context.Context, index uint64, partial uint8) ([]byte, error) {
	b, err := d.read(layout.EntriesPath(index, partial), maxBundle)
	if partial != 0 && errors.Is(err, fs.ErrNotExist) {
		b, err = d.read(layout.EntriesPath(index, 0), maxBundle)
		if err != nil {
			return nil, err
		}
		return cutBundle(b, int(partial))
	}
	return b, err
}

// read reads a whole file that must be regular and have at most limit bytes.
func (d *dirLog) read(name string, limit int64) ([]byte, error) {
	bounded := func(info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read %s of log %s: %w", name, d.name, err)
		case !info.Mode().IsRegular() || info.Size() > limit:
			return fmt.Errorf("read %s of log %s: %w: it is no file of at most %d bytes", name, d.name, ErrAnswer, limit)
		}
		return nil
	}
	// Before it is opened too: to open a pipe is to wait for its other end.
	if err := bounded(d.root.Stat(filepath.FromSlash(name))); err != nil {
		return nil, err
	}
	f, err := d.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, fmt.Errorf("read %s of log %s: %w", name, d.name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err := bounded(info, err); err != nil {
		return nil, err
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read %s of log %s: %w", name, d.name, err)
	}
	return b, nil
}

// partials are the widths of the partial tiles beside a full one.
func (d *dirLog) partials(full string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(d.root.FS(), path.Clean(full+".p"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// lookup finds an id in the notary's own index: a mark for each entry. The file
// is only a hint; who uses it reads the entry.
func (d *dirLog) lookup(ctx context.Context, id ulid.ULID, keyID string) (uint64, error) {
	if d.ids == "" {
		return 0, errNoHint
	}
	f, err := os.Open(d.ids)
	if err != nil {
		return 0, errNoHint
	}
	defer f.Close()
	// From the end: what is looked for is mostly new.
	const chunk = MarkSize << 11
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, errNoHint
	}
	buf := make([]byte, chunk)
	for end := info.Size() / MarkSize * MarkSize; end > 0; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n := min(end, chunk)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, errNoHint
		}
		for i := n - MarkSize; i >= 0; i -= MarkSize {
			if m := ParseMark(buf[i:]); m.ID == id && (keyID == "" || m.Key == KeyMark(keyID)) {
				return uint64(end-n+i) / MarkSize, nil
			}
		}
		end -= n
	}
	return 0, errNoHint // the index may be behind the log
}
