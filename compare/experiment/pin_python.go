package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/child"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/proc"
)

// An engine in Python is its packages more than its program: vLLM's own version
// says nothing of the torch below it. So they are listed and pinned.

var pythonName = regexp.MustCompile(`^python[0-9.]*$`)

// pythonOf finds the interpreter that a program runs in: itself, or the one that
// its first lines name.
func (x *trial) pythonOf(e EngineConfig, file string) (string, bool) {
	if pythonName.MatchString(filepath.Base(file)) {
		return file, true
	}
	name := interpreter(firstBytes(file))
	if !pythonName.MatchString(filepath.Base(name)) {
		return "", false
	}
	path, err := proc.Spec{Command: []string{name}, Env: x.environment(e, x.fills(e, 0))}.Program()
	return path, err == nil
}

func firstBytes(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return ""
	}
	return string(b)
}

// interpreter is the program that a script's first lines name, by itself, by env,
// or as pip writes it where the path is too long for the kernel: a line for the
// shell, ”'exec' PATH "$0" "$@".
func interpreter(head string) string {
	first, rest, _ := strings.Cut(head, "\n")
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	if !strings.HasPrefix(first, "#!") || len(words) == 0 {
		return ""
	}
	second, _, _ := strings.Cut(rest, "\n")
	if path, ok := strings.CutPrefix(second, "'''exec' "); ok {
		path, _, _ = strings.Cut(path, ` "$0"`)
		return strings.Trim(path, `"`)
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}

// script is the file that an interpreter named in the command is given, which is
// the engine more than the interpreter is; empty: there is none. Of -m and -c there
// is no file, and flags before one are rare.
func (x *trial) script(e EngineConfig) string {
	command := x.command(e)
	if !pythonName.MatchString(filepath.Base(command[0])) || len(command) < 2 || strings.HasPrefix(command[1], "-") {
		return ""
	}
	file := x.fills(e, 0).Replace(command[1])
	if e.Serve != nil && !filepath.IsAbs(file) {
		file = filepath.Join(e.Serve.Dir, file)
	}
	return file
}

// askVersions is what an interpreter is given to run: only the standard library.
const askVersions = `import importlib.metadata as m, json, platform
print(json.dumps({"python": platform.python_version(),
 "packages": sorted({"%s==%s" % (d.metadata["Name"], d.version) for d in m.distributions()})}))`

// Bounds on what an interpreter may say, and how long it may take.
const (
	pythonWithin = time.Minute
	maxPackages  = 5_000
)

// askPython asks an interpreter, in the engine's environment, for its version and
// its packages.
func (x *trial) askPython(ctx context.Context, e EngineConfig, python string) (version string, packages []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pythonWithin)
	defer cancel()
	spec := child.Spec{Command: []string{python, "-c", askVersions}, Env: x.environment(e, x.fills(e, 0))}
	if e.Serve != nil {
		spec.Dir = e.Serve.Dir
	}
	out, err := child.Output(ctx, spec, nil)
	if err != nil {
		return "", nil, fmt.Errorf("asking %s: %w", python, err)
	}
	var answer struct {
		Python   string
		Packages []string
	}
	if err := json.Unmarshal(out.Stdout, &answer); err != nil {
		return "", nil, fmt.Errorf("asking %s: %w", python, err)
	}
	if len(answer.Packages) > maxPackages {
		return "", nil, fmt.Errorf("%s has %d packages, and at most %d are recorded", python, len(answer.Packages), maxPackages)
	}
	for i, p := range answer.Packages {
		answer.Packages[i] = foreign.Line(p, 200)
	}
	slices.Sort(answer.Packages)
	return foreign.Line(answer.Python, 50), answer.Packages, nil
}

// packagesHash is of the list as requirements: one a line.
func packagesHash(packages []string) string {
	h := sha256.Sum256([]byte(strings.Join(packages, "\n") + "\n"))
	return hex.EncodeToString(h[:])
}
