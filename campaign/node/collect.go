package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
)

// MaxResults is how many bytes of results are taken from a machine.
const MaxResults = 100_000_000

// Limits bound what is read from a machine.
type Limits struct {
	File  int64         // bytes of one file; 0: 100 MB
	Total int64         // bytes of all; 0: 100 MB, which money is reserved for
	Time  time.Duration // for one file; 0: ten minutes
}

func (l Limits) resolved() Limits {
	if l.File <= 0 {
		l.File = MaxResults
	}
	if l.Total <= 0 {
		l.Total = MaxResults
	}
	if l.Time <= 0 {
		l.Time = 10 * time.Minute
	}
	return l
}

// collected are the files of a run directory that are brought home.
var collected = []string{
	journal.RunFile, journal.RequestsFile, journal.TelemetryFile, journal.ChecksFile, journal.EventsFile,
	journal.CheckpointFile, journal.SummaryFile, journal.HealthFile,
}

// File is one that was collected.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Collect brings a run directory home, into a directory that must be empty or not
// there. Names, kinds and sizes are looked at before anything is read; what comes
// must have the size and the hash that were told. Nothing that the machine says
// becomes a path: the names are ours.
func (n *Node) Collect(ctx context.Context, run, dir string, l Limits) ([]File, error) {
	l = l.resolved()
	out, err := n.ask(ctx, call{command: "run-sizes", words: words{"run": run}})
	if err != nil {
		return nil, fmt.Errorf("there is no run to collect: %w", err)
	}
	files, err := parseSizes(out, l)
	if err != nil {
		return nil, err
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for i := range files {
		if err := n.collect(ctx, run, root, &files[i], l); err != nil {
			return nil, fmt.Errorf("collect %s: %w", files[i].Name, err)
		}
	}
	return files, nil
}

// parseSizes reads lines of a size, a kind and a name.
func parseSizes(out []byte, l Limits) ([]File, error) {
	var files []File
	var total int64
	for line := range bytes.Lines(out) {
		f, err := parseSize(strings.TrimSuffix(string(line), "\n"))
		if err != nil {
			return nil, err
		}
		if total += f.Size; f.Size > l.File || total > l.Total {
			return nil, fmt.Errorf("%w: %s has %d bytes, and all together %d; at most %d and %d are taken", ErrHostile, f.Name, f.Size, total, l.File, l.Total)
		}
		if slices.ContainsFunc(files, func(o File) bool { return o.Name == f.Name }) {
			return nil, fmt.Errorf("%w: %s is listed twice", ErrHostile, f.Name)
		}
		files = append(files, f)
	}
	if !slices.ContainsFunc(files, func(f File) bool { return f.Name == journal.RunFile }) {
		return nil, fmt.Errorf("there is no run to collect: %s is missing", journal.RunFile)
	}
	return files, nil
}

func parseSize(line string) (File, error) {
	about, name, ok := strings.Cut(line, "|")
	size, kind, _ := strings.Cut(about, " ")
	bytes, err := strconv.ParseInt(size, 10, 64)
	switch {
	case !ok || err != nil || bytes < 0:
		return File{}, fmt.Errorf("%w: it lists %q, which is no file with its size", ErrHostile, foreign.Line(line, 200))
	case !slices.Contains(collected, name):
		return File{}, fmt.Errorf("%w: the run directory has %q, which is no file of a run", ErrHostile, foreign.Line(name, 200))
	case kind != "regular file" && kind != "regular empty file":
		return File{}, fmt.Errorf("%w: %s is a %s", ErrHostile, name, foreign.Line(kind, 60))
	}
	return File{Name: name, Size: bytes}, nil
}

func (n *Node) collect(ctx context.Context, run string, root *os.Root, f *File, l Limits) error {
	w := words{"run": run, "file": f.Name}
	told, err := n.hash(ctx, call{command: "run-hash", words: w, within: l.Time})
	if err != nil {
		return err
	}
	to, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	count := &counter{}
	err = n.stream(ctx, call{command: "run-read", words: w, within: l.Time}, io.MultiWriter(to, sum, count), f.Size)
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	switch {
	case count.n != f.Size:
		return fmt.Errorf("%w: it sent %d bytes of %d", ErrHostile, count.n, f.Size)
	case f.SHA256 != told:
		return fmt.Errorf("%w: it sent what hashes to %s, and said %s", ErrHostile, f.SHA256, told)
	}
	return nil
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// maxLogs bounds what is kept of a machine's logs.
const maxLogs = 64 << 10

// Logs gives the ends of the logs on a machine, as text that can be shown.
func (n *Node) Logs(ctx context.Context, run string) (string, error) {
	out, err := n.ask(ctx, call{command: "logs", words: words{"run": run}})
	return foreign.Tail(out, maxLogs), err
}
