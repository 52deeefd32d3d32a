package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The image's first layer is a libc, with which the programs open a GPU's driver,
// and the authorities by which they know a server. Both are Debian's own packages,
// unpacked: nothing of them runs here.

// maxBase bounds what a layer of Debian's packages holds.
const maxBase = 256 << 20

// merged are directories that Debian has moved below usr: links stand in their
// places, as in any of its systems.
var merged = []string{"bin", "lib", "lib32", "lib64", "libx32", "sbin"}

// unneeded is what the programs do not use of the packages. Copyrights stay.
func unneeded(name string) bool {
	for _, dir := range []string{"etc/", "usr/sbin/", "usr/share/lintian/", "usr/share/doc-base/", "usr/share/man/"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return strings.Contains(name, "/gconv/") || strings.Contains(name, "/audit/") ||
		strings.HasPrefix(name, "usr/share/doc/") && path.Base(name) != "copyright"
}

// baseFiles are the files of the Debian packages in a directory.
func baseFiles(ctx context.Context, dir string) ([]file, error) {
	packages, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return nil, err
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("%s has no Debian packages: .ci/parts/image-base fetches them", dir)
	}
	slices.Sort(packages)
	var files []file
	for _, p := range packages {
		if files, err = unpack(ctx, p, files); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	for _, name := range merged {
		if slices.ContainsFunc(files, func(f file) bool { return strings.HasPrefix(f.path, "usr/"+name+"/") }) {
			files = append(files, file{path: name, mode: 0o777, link: "usr/" + name})
		}
	}
	return files, nil
}

// unpack adds the files of one package.
func unpack(ctx context.Context, name string, files []file) ([]file, error) {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", name)
	out, err := cmd.Output()
	if err != nil {
		return nil, failed(cmd, err)
	}
	r := tar.NewReader(io.LimitReader(bytes.NewReader(out), maxBase))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		f := file{path: moved(path.Clean(h.Name)), mode: h.Mode & 0o755}
		if h.Typeflag == tar.TypeDir || unneeded(f.path) {
			continue // directories come from their files
		}
		switch h.Typeflag {
		case tar.TypeReg:
			if f.body, err = io.ReadAll(r); err != nil {
				return nil, err
			}
		case tar.TypeSymlink:
			f.mode, f.link = 0o777, h.Linkname
		default:
			return nil, fmt.Errorf("%s is neither a file nor a link", h.Name)
		}
		files = append(files, f)
	}
}

// moved is where a path lies when everything is below usr.
func moved(name string) string {
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(merged, first) {
		return "usr/" + name
	}
	return name
}

// authorities is where certificates are looked for.
const authorities = "etc/ssl/certs/ca-certificates.crt"

// bundle joins the certificates of the package ca-certificates, as installing it
// would, into the one file that programs read.
func bundle(files []file) (file, error) {
	var b bytes.Buffer
	sorted, err := tree(files)
	if err != nil {
		return file{}, err
	}
	for _, f := range sorted {
		if strings.HasPrefix(f.path, "usr/share/ca-certificates/") && strings.HasSuffix(f.path, ".crt") {
			b.Write(bytes.TrimSpace(f.body))
			b.WriteByte('\n')
		}
	}
	if b.Len() == 0 {
		return file{}, errors.New("the packages hold no certificates of authorities")
	}
	return file{path: authorities, mode: 0o644, body: b.Bytes()}, nil
}
