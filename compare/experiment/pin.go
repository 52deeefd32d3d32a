package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/inference"
	"github.com/assay-bench/assay/internal/foreign"
)

// identify fills in the experiment's engines, each with what is known of it
// before it is started, and refuses one that differs from its lock.
func (x *trial) identify(ctx context.Context) error {
	hashes := map[string]string{}
	for _, e := range x.engines {
		lock, packages, err := x.lockOf(ctx, e, hashes)
		if err != nil {
			return fmt.Errorf("engine %s: %w", e.Name, err)
		}
		i := slices.IndexFunc(x.exp.Engines, func(r compare.Engine) bool { return r.Name == e.Name })
		if i < 0 {
			x.exp.Engines = append(x.exp.Engines, compare.Engine{Name: e.Name, Kind: e.kind(), Lock: map[string]string{}})
			i = len(x.exp.Engines) - 1
		} else if err := differs(e.Name, x.exp.Engines[i].Lock, lock); err != nil {
			// A resumed experiment must not go on with another engine.
			return fmt.Errorf("the experiment was begun with another one: %w", err)
		}
		if err := x.locked(e.Name, lock); err != nil {
			return err
		}
		maps.Copy(x.exp.Engines[i].Lock, lock)
		if len(packages) > 0 {
			x.exp.Engines[i].Packages = packages
		}
	}
	return nil
}

// locked compares what is known of an engine with what it must be.
func (x *trial) locked(engine string, lock map[string]string) error {
	if x.opt.Locked == nil {
		return nil
	}
	must, ok := x.opt.Locked[engine]
	if !ok {
		return fmt.Errorf("engine %s: %w: the locked experiment has no such engine", engine, ErrLocked)
	}
	return differs(engine, must, lock)
}

// differs compares those parts of two locks that both have.
func differs(engine string, must, is map[string]string) error {
	var what []string
	for _, k := range slices.Sorted(maps.Keys(is)) {
		if was, ok := must[k]; ok && was != is[k] {
			what = append(what, fmt.Sprintf("%s is %q and must be %q", k, is[k], was))
		}
	}
	// What was there and is not any more (a flag, a model) differs, too. What the
	// engine itself tells is not known before it is started.
	for _, k := range slices.Sorted(maps.Keys(must)) {
		if _, ok := is[k]; !ok && !slices.Contains(toldKeys, k) && is["kind"] != "" {
			what = append(what, fmt.Sprintf("%s is gone and must be %q", k, must[k]))
		}
	}
	if len(what) == 0 {
		return nil
	}
	return fmt.Errorf("engine %s: %w: %s", engine, ErrLocked, strings.Join(what, "; "))
}

// toldKeys are those that the engine itself tells once it answers.
var toldKeys = []string{"version", "model_served", "backend"}

// lockOf is what identifies an engine before it is started, and the packages of its
// Python where it has one.
func (x *trial) lockOf(ctx context.Context, e EngineConfig, hashes map[string]string) (lock map[string]string, packages []string, err error) {
	lock = map[string]string{"kind": e.kind()}
	put := func(k, v string) {
		if v != "" {
			lock[k] = v
		}
	}
	put("model", e.model())
	put("url", e.URL)
	if len(e.Extra) > 0 {
		b, err := json.Marshal(e.Extra)
		if err != nil {
			return nil, nil, err
		}
		put("extra_body", string(b))
	}
	if e.kind() == "url" {
		return lock, nil, nil // nothing of it is ours to look at
	}
	put("model_path", x.modelPath(e))
	put("command", strings.Join(x.command(e), " "))
	put("env", envWords(e))
	put("gpu", x.gpuWords(func(g assay.GPU) string { return g.Name }))
	put("gpu_driver", x.gpuWords(func(g assay.GPU) string { return g.Driver }))
	put("cuda", x.gpuWords(func(g assay.GPU) string { return g.CUDA }))
	file, err := x.program(e)
	if err != nil {
		return nil, nil, err
	}
	python, inPython := x.pythonOf(e, file)
	for _, f := range []struct{ key, path string }{
		{"model_sha256", x.modelPath(e)}, {"command_sha256", file}, {"script_sha256", x.script(e)},
	} {
		h, err := x.hashed(ctx, e, f.path, hashes)
		if err != nil {
			return nil, nil, err
		}
		put(f.key, h)
	}
	if !inPython {
		return lock, nil, nil
	}
	version, packages, err := x.askPython(ctx, e, python)
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		x.note("the Python packages of %s are not known: %s", e.Name, foreign.Line(err.Error(), 300))
		return lock, nil, nil
	}
	put("python", version)
	put("python_packages_sha256", packagesHash(packages))
	return lock, packages, nil
}

// hashed is the hash of a file or a directory, each of which is read once; empty
// for one that is not there, which may be a name in a registry of models.
func (x *trial) hashed(ctx context.Context, e EngineConfig, path string, known map[string]string) (string, error) {
	if path == "" || known[path] != "" {
		return known[path], nil
	}
	x.log.linef("%s: hashing %s", e.Name, path)
	h, err := hashPath(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		known[path] = h
	}
	return h, err
}

// gpuWords is what the GPUs that engines may use say of themselves, each thing once.
func (x *trial) gpuWords(of func(assay.GPU) string) string {
	var words []string
	for _, g := range x.mon.gpus {
		if d := x.cfg.System.GPUDevice; d != nil && g.Index != *d {
			continue
		}
		if w := of(g); w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return strings.Join(words, ", ")
}

// envWords are the variables that the configuration sets, with their values, and
// the names of those that it passes on.
func envWords(e EngineConfig) string {
	var words []string
	set, pass := maps.Clone(e.Env), slices.Clone(e.PassEnv)
	if e.Serve != nil {
		if set == nil {
			set = map[string]string{}
		}
		maps.Copy(set, e.Serve.Env)
		pass = append(pass, e.Serve.PassEnv...)
	}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		words = append(words, k+"="+set[k])
	}
	slices.Sort(pass)
	return strings.Join(append(words, slices.Compact(pass)...), " ")
}

// describe asks an engine that answers what it is, and compares that with its
// lock.
func (x *trial) describe(ctx context.Context, t *target, e EngineConfig) error {
	found, err := inference.Discover(ctx, t.url, inference.DiscoverOptions{APIKey: t.apiKey})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	rec := x.engine(e.Name)
	if err != nil {
		if e.Backend != "" && e.model() != "" {
			return nil // it lists nothing, and needs not
		}
		return &failure{why: "it does not answer: " + foreign.Line(err.Error(), 500)}
	}
	told := map[string]string{"backend": string(found.Backend)}
	if e.Backend != "" {
		told["backend"] = e.Backend
	}
	if found.Version != "" {
		told["version"] = found.Version
	}
	if e.model() == "" && len(found.Models) > 0 {
		told["model_served"] = found.Models[0]
	}
	if err := x.locked(e.Name, told); err != nil {
		return err
	}
	if err := differs(e.Name, rec.Lock, told); err != nil {
		return fmt.Errorf("it changed between two rounds: %w", err)
	}
	maps.Copy(rec.Lock, told)
	return nil
}

// hashPath is the SHA-256 of a file, or of the names and hashes of the files in a
// directory and below.
func hashPath(ctx context.Context, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return hashFile(ctx, path)
	}
	all := sha256.New()
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		// A link is followed: model caches are directories of links.
		if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() {
			return err
		}
		h, err := hashFile(ctx, p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(path, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "%s  %q\n", h, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", path, err)
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		_, err := io.CopyN(h, f, 64<<20)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", fmt.Errorf("hash %s: %w", path, err)
		}
	}
}
