package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// file is an entry of an archive.
type file struct {
	path string // with slashes, not rooted
	mode int64  // permissions
	body []byte
	link string // target of a symbolic link; then there is no body
	dir  bool
	id   int // owner and group
}

// tree adds the directories that files lie in and are not named, and sorts. The
// same files give the same list, in whatever order they came.
func tree(files []file) ([]file, error) {
	seen := map[string]bool{}
	out := slices.Clone(files)
	for _, f := range files {
		if seen[f.path] || f.path != path.Clean(f.path) || path.IsAbs(f.path) || strings.HasPrefix(f.path, "../") {
			return nil, fmt.Errorf("%s is there twice, or is no path within an archive", f.path)
		}
		seen[f.path] = true
	}
	for _, f := range files {
		for dir := path.Dir(f.path); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			out = append(out, file{path: dir, mode: 0o755, dir: true})
		}
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return out, nil
}

// writeTar writes files with nothing of this machine in it: one time for all, and
// owners by number. prefix stands before each path.
func writeTar(w io.Writer, prefix string, files []file, when time.Time) error {
	all, err := tree(files)
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	for _, f := range all {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: prefix + f.path, Mode: f.mode, Size: int64(len(f.body)), ModTime: when, Uid: f.id, Gid: f.id, Format: tar.FormatGNU}
		switch {
		case f.dir:
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		case f.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.body); err != nil {
			return err
		}
	}
	return t.Close()
}

// tarGz is a compressed archive.
func tarGz(prefix string, files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	if err := writeTar(&b, prefix, files, when); err != nil {
		return nil, err
	}
	return gzipped(b.Bytes())
}

// gzipped compresses; the header has neither a time nor a name.
func gzipped(plain []byte) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(plain)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
