package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// platforms are those that a program is gathered for. Processors make no
// difference to what is linked.
var platforms = []struct{ os, arch string }{{"linux", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	EmbedFiles []string
	Module     *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// part is something of others in a program, and the texts of its licences.
type part struct {
	name  string
	texts []string
}

// licence is how files are named that hold one, or belong to one.
var licence = regexp.MustCompile(`(?i)^((licen[cs]e|copying|copyright|notice|patents|unlicense)([-._].*)?|.*\.licen[cs]e)$`)

// Text gives the licences of what the program in a directory links: each text
// once, below the names of all that it is the licence of.
func Text(dir string) ([]byte, error) {
	parts := map[string]*part{}
	for _, p := range platforms {
		packages, err := list(dir, p.os, p.arch)
		if err != nil {
			return nil, err
		}
		for _, pkg := range packages {
			if err := gather(parts, pkg); err != nil {
				return nil, err
			}
		}
	}
	return render(parts)
}

// list gives the packages that a program is made of on a platform.
func list(dir, system, arch string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,EmbedFiles,Module", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list for %s: %w: %s", system, err, strings.TrimSpace(stderr.String()))
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// gather adds the licences of a package: the files in its directory and in those
// above it, up to its module's. Some modules hold code of others below.
func gather(parts map[string]*part, p listed) error {
	switch {
	case p.Standard:
		return nil // render adds it
	case p.Module == nil:
		return fmt.Errorf("%s belongs to no module", p.ImportPath)
	case p.Module.Main:
		return gatherOurs(parts, p)
	}
	name := p.Module.Path + " " + p.Module.Version
	for dir := p.Dir; ; dir = filepath.Dir(dir) {
		if err := add(parts, name, dir); err != nil {
			return err
		}
		if dir == p.Module.Dir || len(dir) < len(p.Module.Dir) {
			return nil
		}
	}
}

// gatherOurs adds our own licence, and those of files of others that we embed:
// each has its licence beside it.
func gatherOurs(parts map[string]*part, p listed) error {
	if err := add(parts, "Assay", p.Module.Dir); err != nil {
		return err
	}
	for _, file := range p.EmbedFiles {
		if !licence.MatchString(filepath.Base(file)) {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if err := addFile(parts, strings.Replace(name, "-", " ", 1), filepath.Join(p.Dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// add takes all licences of a directory. The part is known afterwards, also if
// there are none: render refuses it then.
func add(parts map[string]*part, name, dir string) error {
	if parts[name] == nil {
		parts[name] = &part{name: name}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && licence.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
			if err := addFile(parts, name, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func addFile(parts map[string]*part, name, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if parts[name] == nil {
		parts[name] = &part{name: name}
	}
	s := strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
	if p := parts[name]; s != "" && !slices.Contains(p.texts, s) {
		p.texts = append(p.texts, s)
	}
	return nil
}
