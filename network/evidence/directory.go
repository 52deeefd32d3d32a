package evidence

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/assay-bench/assay/internal/disk"
)

// DirectoryOptions says where objects are.
type DirectoryOptions struct {
	Dir      string // is made if it is not there; of one process
	Path     string // where the server mounts ServeHTTP; "": /objects/
	Lifetime time.Duration
	Now      func() time.Time // nil: time.Now
}

// Directory keeps objects as files that are named by their hash. It serves the
// links itself: they are signed with a key of this process, so that after a
// restart a node asks for new ones.
type Directory struct {
	o    DirectoryOptions
	root *os.Root
	lock *os.File
	key  []byte
}

// NewDirectory opens a directory, keeps other processes out and removes what an
// upload that was killed has left.
func NewDirectory(o DirectoryOptions) (*Directory, error) {
	if o.Path == "" {
		o.Path = "/objects/"
	}
	if o.Lifetime == 0 {
		o.Lifetime = DefaultLifetime
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := disk.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of evidence: %w", err)
	}
	lock, err := disk.Lock(filepath.Join(o.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("directory of evidence %s: %w; it is for one server, as an SQLite file is: several need object storage and PostgreSQL", o.Dir, err)
	}
	root, err := os.OpenRoot(o.Dir)
	if err == nil {
		err = disk.Tidy(o.Dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("directory of evidence: %w", err), disk.Unlock(lock))
	}
	d := &Directory{o: o, root: root, lock: lock, key: make([]byte, sha256.Size)}
	rand.Read(d.key)
	return d, nil
}

// Close lets another process have the directory.
func (d *Directory) Close() error { return errors.Join(d.root.Close(), disk.Unlock(d.lock)) }

// signature binds what a link is for, until when. The length of each field is
// fixed or it ends with a line, so that no two links have the same text.
func (d *Directory) signature(sum string, size, expires int64) []byte {
	mac := hmac.New(sha256.New, d.key)
	fmt.Fprintf(mac, "assay evidence PUT v1\n%s\n%d\n%d\n", sum, size, expires)
	return mac.Sum(nil)
}

// Presign gives a link to upload the object by.
func (d *Directory) Presign(_ context.Context, o Object) (Link, error) {
	sum, err := o.sum()
	if err != nil {
		return Link{}, err
	}
	expires := d.o.Now().Add(d.o.Lifetime).Truncate(time.Second)
	query := url.Values{
		"size":      {strconv.FormatInt(o.Size, 10)},
		"expires":   {strconv.FormatInt(expires.Unix(), 10)},
		"signature": {fmt.Sprintf("%x", d.signature(o.SHA256, o.Size, expires.Unix()))},
	}
	return newLink(d.o.Path+o.SHA256+"?"+query.Encode(), bound(sum, o.Size), expires), nil
}

// Confirm is nil when the object is stored with its length and its hash. It is
// read for that: the answer lets a node delete the original.
func (d *Directory) Confirm(ctx context.Context, o Object) error {
	r, err := d.Open(ctx, o)
	if err != nil {
		return err
	}
	return check(r)
}

// Open reads an object. Reading ends with io.EOF only if all of it was there and
// has its hash, else with ErrDamaged.
func (d *Directory) Open(_ context.Context, o Object) (io.ReadCloser, error) {
	if _, err := o.sum(); err != nil {
		return nil, err
	}
	f, err := disk.Open(d.root, o.SHA256, os.O_RDONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", o.SHA256, ErrAbsent)
	case err != nil:
		return nil, fmt.Errorf("directory of evidence: %w", err)
	}
	return verify(f, o), nil
}

// Delete removes an object; one that is not there is no error.
func (d *Directory) Delete(_ context.Context, o Object) error {
	if _, err := o.sum(); err != nil {
		return err
	}
	if err := d.root.Remove(o.SHA256); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory of evidence: %w", err)
	}
	return disk.SyncDirIn(d.root, ".")
}
