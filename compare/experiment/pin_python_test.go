package experiment

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

func TestInterpreter(t *testing.T) {
	for head, want := range map[string]string{
		"#!/usr/bin/python3\nimport x":                                 "/usr/bin/python3",
		"#!/usr/bin/env python3\n":                                     "python3",
		"#!/usr/bin/env -S PYTHONUNBUFFERED=1 python3 -u\n":            "python3",
		"#!/bin/sh\n'''exec' \"/a b/bin/python\" \"$0\" \"$@\"\n' '''": "/a b/bin/python",
		"#!/bin/sh\n'''exec' /long/bin/python3.11 \"$0\" \"$@\"\n":     "/long/bin/python3.11",
		"#!/bin/sh\necho\n":                                            "/bin/sh",
		"#!\n":                                                         "",
		"\x7fELF":                                                      "",
		"":                                                             "",
	} {
		if got := interpreter(head); got != want {
			t.Errorf("%q: %q, want %q", head, got, want)
		}
	}
}

// An engine in Python is pinned with its script, its Python and its packages.
func TestPythonPackagesArePinned(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	own := self(t) + " as-engine --port"
	parttest.Program(t, filepath.Join(dir, "python3"), []byte("#!/bin/sh\nif [ \"$1\" = -c ]; then\n"+
		"echo '{\"python\": \"3.99.1\", \"packages\": [\"torch==9.1\", \"aiohttp==1.0\"]}'\nelse exec "+own+" $2\nfi\n"))
	parttest.Program(t, filepath.Join(dir, "serve.py"), []byte("its code\n"))
	parttest.Program(t, filepath.Join(dir, "broken3"), []byte("#!"+filepath.Join(dir, "python2")+"\n"))
	parttest.Program(t, filepath.Join(dir, "python2"), []byte("#!/bin/sh\necho no such module >&2; exit 1\n"))
	serve := func(command ...string) *ServeConfig {
		return &ServeConfig{Command: command, Health: "/health", ReadyTimeout: seconds(300), Grace: seconds(0.3)}
	}
	c := quick(1,
		EngineConfig{Name: "snake", Serve: serve(filepath.Join(dir, "python3"), filepath.Join(dir, "serve.py"), "{port}")},
		EngineConfig{Name: "silent", Serve: serve(filepath.Join(dir, "broken3"), "{port}")},
		l.engine("other", ""),
	)
	e, err := Run(t.Context(), c, l.dir, l.opt)
	if err != nil {
		t.Fatal(err)
	}
	r := e.Engines[0]
	if got := strings.Join(r.Packages, " "); got != "aiohttp==1.0 torch==9.1" || r.Lock["python"] != "3.99.1" {
		t.Errorf("packages %q of Python %q", got, r.Lock["python"])
	}
	// sha256sum of the two lines.
	if got := r.Lock["python_packages_sha256"]; got != packagesHash([]string{"aiohttp==1.0", "torch==9.1"}) || len(got) != 64 {
		t.Errorf("hash %q", got)
	}
	if r.Lock["script_sha256"] == "" || r.Lock["command_sha256"] == "" || r.Lock["script_sha256"] == r.Lock["command_sha256"] {
		t.Errorf("lock %v", r.Lock)
	}
	if e.Engines[1].Lock["python"] != "" || !strings.Contains(strings.Join(e.Notes, "; "), "the Python packages of silent are not known") {
		t.Errorf("a Python that does not answer: %v, notes %q", e.Engines[1].Lock, e.Notes)
	}
	if e.Engines[2].Packages != nil {
		t.Errorf("an engine without Python has packages: %v", e.Engines[2].Packages)
	}
	if e.Samples[0].Failed != "" && e.Samples[0].Engine == "snake" {
		t.Error(e.Samples[0].Failed)
	}
	// Another package is another engine.
	l.opt.Locked = map[string]map[string]string{"snake": r.Lock, "silent": e.Engines[1].Lock, "other": e.Engines[2].Lock}
	parttest.Program(t, filepath.Join(dir, "python3"), []byte("#!/bin/sh\necho '{\"python\": \"3.99.1\", \"packages\": [\"torch==9.2\"]}'\n"))
	if _, err := Run(t.Context(), c, t.TempDir(), l.opt); err == nil || !strings.Contains(err.Error(), "python_packages_sha256 is") {
		t.Errorf("another torch is taken for the same engine: %v", err)
	}
}
