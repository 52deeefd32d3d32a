// Release makes everything that is published of one commit: programs, archives,
// Debian packages, a container image, bills of materials, checksums and their
// signature.
//
//	go run ./tools/release -out dist
//	go run ./tools/release -out dist -again -fresh -image-base "$(.ci/parts/image-base)" -key release.key -passphrase-file phrase
//
// What it promises: the same commit, built by the same Go, gives the same bytes in
// any directory on any day. So it builds what git has, never the work tree, takes
// every time from the commit, and writes its archives itself. -again makes all of
// it twice and compares. It needs git and Go, and no Docker engine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// options are what a release is made of and with.
type options struct {
	repository string // directory of the repository
	commit     string
	out        string
	targets    []target
	imageBase  string // directory with Debian packages; empty: no image
	again      bool
	fresh      bool
	key        string // empty: not signed
	passphrase string // file
	log        io.Writer
}

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parse(args)
	if err != nil {
		return err
	}
	return release(ctx, o)
}

func parse(args []string) (options, error) {
	o := options{log: os.Stderr}
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	var names string
	fs.StringVar(&o.repository, "repository", ".", "`directory` of the repository")
	fs.StringVar(&o.commit, "commit", "HEAD", "what is released")
	fs.StringVar(&o.out, "out", "", "new `directory` for what is made")
	fs.StringVar(&names, "targets", "linux/amd64,linux/arm64,darwin/arm64", "systems to build for")
	fs.StringVar(&o.imageBase, "image-base", "", "`directory` with a folder an architecture of the Debian packages below the image's programs; without it no image is made")
	fs.BoolVar(&o.again, "again", false, "make everything twice, in two directories, and compare byte for byte")
	fs.BoolVar(&o.fresh, "fresh", false, "with -again: the second time with an empty build cache")
	fs.StringVar(&o.key, "key", "", "sign with this private key of the ledger, a `file`")
	fs.StringVar(&o.passphrase, "passphrase-file", "", "`file` with the key's passphrase, for its owner only")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.out == "" || fs.NArg() > 0 {
		return o, errors.New("-out DIRECTORY is needed, and no other words are taken")
	}
	if (o.key == "") != (o.passphrase == "") {
		return o, errors.New("-key and -passphrase-file go together")
	}
	if o.fresh && !o.again {
		return o, errors.New("-fresh is for -again: the first build may use what is cached")
	}
	for name := range strings.SplitSeq(names, ",") {
		t, err := parseTarget(name)
		if err != nil {
			return o, err
		}
		o.targets = append(o.targets, t)
	}
	return o, nil
}

// release makes the release in o.out, which must not be there.
func release(ctx context.Context, o options) error {
	if err := os.Mkdir(o.out, 0o755); err != nil {
		return fmt.Errorf("-out: a new directory is needed: %w", err)
	}
	work, err := os.MkdirTemp("", "assay-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c, err := readCommit(ctx, o.repository, o.commit)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.log, "%s of %s\n", c.version, c.time.Format("2006-01-02 15:04:05 MST"))
	sums, err := produce(ctx, o, c, filepath.Join(work, "first"), o.out, "")
	if err != nil {
		return err
	}
	if o.again {
		if err := o.compare(ctx, c, work, sums); err != nil {
			return err
		}
	}
	if o.key == "" {
		return nil
	}
	return signSums(ctx, o.out, o.key, o.passphrase)
}

// compare makes everything once more, elsewhere, and compares it with the first.
func (o options) compare(ctx context.Context, c commit, work string, first []byte) error {
	// A path of another length moves what a path that was left in would move.
	tree, out := filepath.Join(work, "the-second", "time"), filepath.Join(work, "again")
	if err := errors.Join(os.Mkdir(filepath.Dir(tree), 0o755), os.Mkdir(out, 0o755)); err != nil {
		return err
	}
	cache := ""
	if o.fresh {
		cache = filepath.Join(work, "cache")
	}
	second, err := produce(ctx, o, c, tree, out, cache)
	if err != nil {
		return err
	}
	if d := differing(first, second); len(d) > 0 {
		return fmt.Errorf("two builds of %s differ in %s", c.version, strings.Join(d, ", "))
	}
	fmt.Fprintf(o.log, "made twice, equal byte for byte: %d files\n", len(parseSums(first)))
	return nil
}

// differing are the files that two lists of checksums do not agree on.
func differing(a, b []byte) []string {
	x, y := parseSums(a), parseSums(b)
	var out []string
	for name, sum := range x {
		if y[name] != sum {
			out = append(out, name)
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
