package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommittedLicensesAreCurrent(t *testing.T) {
	for _, name := range []string{"assay", "assay-node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join("..", "..", "cmd", name)
			want, err := Text(dir)
			if err != nil {
				t.Fatal(err)
			}
			packed, err := os.ReadFile(filepath.Join(dir, File))
			if err != nil {
				t.Fatal(err)
			}
			got, err := unpack(packed)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("the licences of %s changed: go run ./tools/licenses ./cmd/assay ./cmd/assay-node", name)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// module is a package of a module that lies in dir.
func module(dir, path, below string) listed {
	p := listed{ImportPath: path + "/" + below, Dir: filepath.Join(dir, below)}
	p.Module = &struct {
		Path, Version, Dir string
		Main               bool
	}{path, "v1.0.0", dir, false}
	return p
}

func TestGather(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sys", "LICENSE"), "BSD\r\n")
	write(t, filepath.Join(dir, "sys", "unix", "doc.go"), "package unix")
	write(t, filepath.Join(dir, "one", "COPYING.txt"), "MIT by one")
	write(t, filepath.Join(dir, "one", "NOTICE"), "a notice")
	write(t, filepath.Join(dir, "one", "license.go"), "package one")
	write(t, filepath.Join(dir, "one", "inner", "LICENCE-other"), "by somebody else")
	write(t, filepath.Join(dir, "two", "LICENSE.md"), "BSD")
	write(t, filepath.Join(dir, "none", "README"), "no licence")

	parts := map[string]*part{}
	for _, p := range []listed{
		module(filepath.Join(dir, "sys"), "golang.org/x/sys", "unix"),
		module(filepath.Join(dir, "one"), "example.org/one", "inner"),
		module(filepath.Join(dir, "two"), "example.org/two", ""),
		{ImportPath: "fmt", Standard: true},
	} {
		if err := gather(parts, p); err != nil {
			t.Fatal(err)
		}
	}
	text, err := render(parts)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"example.org/two v1.0.0\ngolang.org/x/sys v1.0.0\n" + goName + "\n" + rule + "\n\nBSD\n",
		"example.org/one v1.0.0\n" + rule + "\n\nMIT by one\n", "a notice", "by somebody else",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "package one") {
		t.Errorf("a source file was taken for a licence:\n%s", text)
	}

	if err := gather(parts, module(filepath.Join(dir, "none"), "example.org/none", "")); err != nil {
		t.Fatal(err)
	}
	if _, err := render(parts); err == nil || !strings.Contains(err.Error(), "example.org/none v1.0.0") {
		t.Errorf("a module without a licence gives %v", err)
	}
	delete(parts, "example.org/none v1.0.0")
	delete(parts, "golang.org/x/sys v1.0.0")
	if _, err := render(parts); err == nil {
		t.Error("Go's own licence is missing, and nobody says so")
	}
}
