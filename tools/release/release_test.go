package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// call runs a program and gives what it prints; one that fails ends the test.
func call(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

var then = time.Date(2026, 11, 16, 15, 0, 0, 0, time.UTC)

// The same files give the same archive, in whatever order they come.
func TestArchivesAreEqual(t *testing.T) {
	files := []file{{path: "b/c", mode: 0o755, body: []byte("x")}, {path: "a", mode: 0o644, body: []byte("y")}, {path: "b/l", link: "c"}, {path: "d", mode: 0o700, dir: true, id: 7}}
	one, err := tarGz("p/", files, then)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	two, err := tarGz("p/", files, then)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("another order, another archive: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.tar.gz"), one, 0o644); err != nil {
		t.Fatal(err)
	}
	got := call(t, dir, "tar", "--utc", "--numeric-owner", "-tvzf", "x.tar.gz")
	want := []string{
		"-rw-r--r-- 0/0               1 2026-11-16 15:00 p/a", "drwxr-xr-x 0/0               0 2026-11-16 15:00 p/b/",
		"-rwxr-xr-x 0/0               1 2026-11-16 15:00 p/b/c", "p/b/l -> c", "drwx------ 7/7               0 2026-11-16 15:00 p/d/",
	}
	for _, line := range want {
		if !strings.Contains(got, line) {
			t.Errorf("tar shows no %q:\n%s", line, got)
		}
	}
	for _, bad := range []string{"/a", "../a", "a/../b", "b/c"} {
		if _, err := tree(append(files, file{path: bad})); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// repository is a small one with the file that names the version.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(source)), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "package cli\n\nvar Release = \"1.2.3-dev\"\n"
	if err := os.WriteFile(filepath.Join(dir, source), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	call(t, dir, "git", "init", "-q")
	call(t, dir, "git", "add", ".")
	call(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--date=2026-01-01T00:00:00Z", "-m", "one")
	return dir
}

func TestVersions(t *testing.T) {
	dir := repository(t)
	read := func() commit {
		t.Helper()
		c, err := readCommit(context.Background(), dir, "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := read()
	if want := "1.2.3-dev+" + c.hash[:12]; c.version != want || c.debian != fmt.Sprintf("1.2.3~dev%s.%s", c.time.Format("20060102150405"), c.hash[:12]) {
		t.Errorf("without a tag: %s, %s, want %s", c.version, c.debian, want)
	}
	call(t, dir, "git", "tag", "other")
	call(t, dir, "git", "tag", "v1.2.3-rc.1")
	rc := read()
	if rc.version != "1.2.3-rc.1" || rc.debian != "1.2.3~rc.1" {
		t.Errorf("with a tag: %s, %s", rc.version, rc.debian)
	}
	call(t, dir, "git", "tag", "v1.2.3")
	if _, err := readCommit(context.Background(), dir, "HEAD"); err == nil {
		t.Error("two versions of one commit are taken")
	}
	if dpkg, err := exec.LookPath("dpkg"); err == nil {
		for _, pair := range [][2]string{{c.debian, rc.debian}, {rc.debian, "1.2.3"}} {
			call(t, dir, dpkg, "--compare-versions", pair[0], "lt", pair[1])
		}
	}
	// What is not committed is not released.
	if err := os.WriteFile(filepath.Join(dir, "later"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "tree")
	if err := c.export(context.Background(), out); err != nil {
		t.Fatal(err)
	}
	if got, err := filepath.Glob(filepath.Join(out, "*")); err != nil || len(got) != 1 {
		t.Errorf("exported %v: %v", got, err)
	}
}

// Debian's own tools read what we pack.
func TestDebianReadsThePackages(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		parttest.Need(t, "no dpkg-deb")
	}
	dir := t.TempDir()
	for _, d := range debs {
		b, err := d.make("../..", []byte("#!/bin/sh\n"), "amd64", "1.2.3~rc.1", then)
		if err != nil {
			t.Fatal(err)
		}
		again, err := d.make("../..", []byte("#!/bin/sh\n"), "amd64", "1.2.3~rc.1", then)
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("%s is another one the second time: %v", d.name, err)
		}
		name := d.name + ".deb"
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		for field, want := range map[string]string{"Package": d.name, "Version": "1.2.3~rc.1", "Architecture": "amd64"} {
			if got := strings.TrimSpace(call(t, dir, "dpkg-deb", "--field", name, field)); got != want {
				t.Errorf("%s: %s is %q, want %q", d.name, field, got, want)
			}
		}
		list := call(t, dir, "dpkg-deb", "--contents", name)
		for _, want := range []string{"./usr/bin/" + d.name + "\n", ".service\n", "/copyright\n", "/licenses.txt.gz\n"} {
			if !strings.Contains(list, want) {
				t.Errorf("%s holds no %q:\n%s", d.name, want, list)
			}
		}
		if strings.Contains(list, "-rwxrwx") || !strings.Contains(list, "root/root") && !strings.Contains(list, "0/0") {
			t.Errorf("%s has files that others write:\n%s", d.name, list)
		}
	}
}

func TestDiffering(t *testing.T) {
	one := formatSums(map[string]string{"a": "1", "b": "2"})
	two := formatSums(map[string]string{"a": "1", "b": "3", "c": "4"})
	if got := differing(one, two); !slices.Equal(got, []string{"b", "c"}) || len(differing(one, one)) != 0 {
		t.Errorf("%v", got)
	}
}

func TestOptions(t *testing.T) {
	if o, err := parse([]string{"-out", "x"}); err != nil || len(o.targets) != len(known) {
		t.Errorf("%+v %v", o, err)
	}
	for _, args := range [][]string{{}, {"-out", "x", "y"}, {"-out", "x", "-key", "k"}, {"-out", "x", "-fresh"}, {"-out", "x", "-targets", "plan9/mips"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
