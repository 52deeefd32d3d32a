package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// maker makes one release into one directory.
type maker struct {
	options
	commit commit
	tree   string // the exported source
	cache  string // Go's build cache; empty: the usual one
	dir    string // for what is made

	sums map[string]string
	// built are the programs for Linux by architecture and name, which the image has.
	built map[string]map[string][]byte
}

// produce exports the commit to a new directory, makes everything of it, and gives
// the list of checksums, which lies beside the rest.
func produce(ctx context.Context, o options, c commit, tree, out, cache string) ([]byte, error) {
	m := &maker{options: o, commit: c, tree: tree, cache: cache, dir: out, sums: map[string]string{}, built: map[string]map[string][]byte{}}
	if err := c.export(ctx, tree); err != nil {
		return nil, err
	}
	for _, t := range o.targets {
		for _, program := range programs {
			if err := m.program(ctx, program, t); err != nil {
				return nil, fmt.Errorf("%s for %s: %w", program, t, err)
			}
		}
	}
	if o.imageBase != "" {
		if err := m.image(ctx); err != nil {
			return nil, fmt.Errorf("the image: %w", err)
		}
	}
	sums := formatSums(m.sums)
	return sums, os.WriteFile(filepath.Join(out, sumsFile), sums, 0o644)
}

// program makes what is published of one program for one system.
func (m *maker) program(ctx context.Context, program string, t target) error {
	b, err := build(ctx, m.commit, m.tree, m.cache, program, t)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%s-%s", program, m.commit.version, t.os, t.arch)
	archive, err := m.archive(name, program, b)
	if err != nil {
		return err
	}
	bill, err := materials(m.commit, program, b, t)
	if err != nil {
		return err
	}
	if err := m.write(name+".tar.gz", archive); err != nil {
		return err
	}
	if err := m.write(name+".cdx.json", bill); err != nil {
		return err
	}
	if t.os != "linux" {
		return nil
	}
	if m.built[t.arch] == nil {
		m.built[t.arch] = map[string][]byte{}
	}
	m.built[t.arch][program] = b
	for _, d := range debs {
		if d.name != program {
			continue
		}
		b, err := d.make(m.tree, b, t.arch, m.commit.debian, m.commit.time)
		if err != nil {
			return err
		}
		if err := m.write(fmt.Sprintf("%s_%s_%s.deb", d.name, m.commit.debian, t.arch), b); err != nil {
			return err
		}
	}
	return nil
}

// archive is a program with its licences and what to read first.
func (m *maker) archive(name, program string, b []byte) ([]byte, error) {
	files, err := fromTree(m.tree, map[string]string{
		"LICENSE": "LICENSE", "README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md",
		"licenses.txt.gz": "cmd/" + program + "/licenses.txt.gz",
	})
	if err != nil {
		return nil, err
	}
	return tarGz(name+"/", append(files, file{path: program, mode: 0o755, body: b}), m.commit.time)
}

// fromTree reads files of the source: where they go, and where they are.
func fromTree(tree string, names map[string]string) ([]file, error) {
	var out []file
	for to, from := range names {
		b, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(from)))
		if err != nil {
			return nil, err
		}
		out = append(out, file{path: to, mode: 0o644, body: b})
	}
	return out, nil
}

// write keeps something that was made, and its checksum.
func (m *maker) write(name string, b []byte) error {
	m.sums[name] = sum(b)
	fmt.Fprintf(m.log, "%s: %d bytes\n", name, len(b))
	return os.WriteFile(filepath.Join(m.dir, name), b, 0o644)
}
