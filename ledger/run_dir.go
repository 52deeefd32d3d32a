package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/journal"
)

// Subjects that are no file of their own.
const (
	configSubject = journal.RunFile + "#config"
	binarySubject = "binary"
)

// signedFiles are the files of a run that a statement covers, in the order of
// docs/formats/statement.md. No other name can be a subject of a run.
var signedFiles = []string{
	journal.RunFile, journal.RequestsFile, journal.TelemetryFile, journal.ChecksFile,
	journal.EventsFile, journal.CheckpointFile, journal.SummaryFile, journal.HealthFile,
}

// maxManifest bounds run.json.
const maxManifest = 64 << 20

// runDir is a directory as it is signed and verified, of a run or of operations:
// what a link in it leads to is not read.
type runDir struct {
	path   string
	root   *os.Root
	layout *layout
	run    *runFile        // what was read of run.json; nil: nothing yet
	ops    *readOperations // what was read of operations; nil: nothing yet
}

// runFile is run.json, read once: what is hashed is what is decoded.
type runFile struct {
	sum, config string
	manifest    assay.Manifest
	err         error // of decoding
}

func openRunDir(path string, l *layout) (*runDir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &runDir{path: path, root: root, layout: l}, nil
}

func (d *runDir) Close() error { return d.root.Close() }

// open opens a regular file of the directory. A link or a pipe in its place is
// disk.ErrNotRegular.
func (d *runDir) open(name string) (*os.File, error) { return disk.Open(d.root, name, os.O_RDONLY, 0) }

// bytes reads a small file.
func (d *runDir) bytes(name string, most int64) ([]byte, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	// As long as it is, so that a large one is not held twice while it is read.
	buf := bytes.NewBuffer(make([]byte, 0, min(info.Size(), most)+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(f, most+1)); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	b := buf.Bytes()
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return b, nil
}

// sum hashes a file of any length.
func (d *runDir) sum(name string) (string, error) {
	if d.layout == &operationsLayout {
		r := d.operations()
		return r.sums[name], r.errs[name]
	}
	if name == journal.RunFile {
		r, err := d.runFile()
		if err != nil {
			return "", err
		}
		return r.sum, nil
	}
	f, err := d.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// existing gives those of the names that are there, whatever they are.
func (d *runDir) existing(names ...string) (out []string) {
	for _, n := range names {
		if _, err := d.root.Lstat(n); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// status is how the run ended, by its own files; one that cannot be read is partial.
func (d *runDir) status() assay.Status {
	run, err := journal.Open(d.path)
	if err != nil {
		return assay.StatusPartial
	}
	return run.Status()
}

// read reads what the statements are made from.
func (d *runDir) read() (*readRun, error) {
	for _, name := range d.existing(signedFiles...) {
		f, err := d.open(name)
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	run, err := journal.Open(d.path)
	if err != nil {
		return nil, err
	}
	r := &readRun{manifest: run.Manifest(), status: run.Status()}
	if r.status == assay.StatusRunning {
		return nil, ErrRunning
	}
	if r.checks, err = worstCheck(run); err != nil {
		return nil, err
	}
	if r.summary, err = run.Summary(); err != nil && !errors.Is(err, journal.ErrNone) {
		return nil, err
	}
	if r.health, err = run.Health(); err != nil && !errors.Is(err, journal.ErrNone) {
		return nil, err
	}
	return r, nil
}

// replaceable refuses to sign again what has receipts, unless it was asked for.
func (d *runDir) replaceable(o SignOptions) error {
	if len(d.existing(d.layout.receipts()...)) > 0 && !o.Replace {
		return ErrReceipts
	}
	return nil
}

// subject is a thing and its hash.
func subject(name, sum string) ResourceDescriptor {
	return ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sum}}
}

// subjects names every file of the run by its hash, and its configuration and
// program with them.
func (d *runDir) subjects(m assay.Manifest) ([]ResourceDescriptor, error) {
	var out []ResourceDescriptor
	for _, name := range signedFiles {
		sum, err := d.sum(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, subject(name, sum))
	}
	sum, err := d.configSum()
	if err != nil {
		return nil, err
	}
	out = append(out, subject(configSubject, sum))
	if b := m.Version.BinarySHA256; b != "" {
		if !isSHA256(b) {
			return nil, fmt.Errorf("%s: version.binary_sha256 is %.80q, which is no SHA-256", journal.RunFile, b)
		}
		out = append(out, subject(binarySubject, b))
	}
	return out, nil
}

// configSum hashes the member config of run.json without spaces between tokens.
func (d *runDir) configSum() (string, error) {
	r, err := d.runFile()
	if err == nil {
		err = r.err
	}
	if err != nil {
		return "", err
	}
	return r.config, nil
}

// runFile reads run.json. That it cannot be decoded is in it and no error: it has
// a hash all the same.
func (d *runDir) runFile() (*runFile, error) {
	if d.run != nil {
		return d.run, nil
	}
	b, err := d.bytes(journal.RunFile, maxManifest)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	r := &runFile{sum: hex.EncodeToString(sum[:])}
	if r.manifest, err = journal.DecodeManifest(b); err != nil {
		r.err = fmt.Errorf("%s: %w", journal.RunFile, err)
	} else {
		r.config, r.err = compactSum(r.manifest.Config)
	}
	d.run = r
	return r, nil
}

// compactSum hashes a JSON value without the spaces between its tokens.
func compactSum(v json.RawMessage) (string, error) {
	var c bytes.Buffer
	c.Grow(len(v))
	if len(v) > 0 {
		if err := json.Compact(&c, v); err != nil {
			return "", fmt.Errorf("%s: config: %w", journal.RunFile, err)
		}
	}
	sum := sha256.Sum256(c.Bytes())
	return hex.EncodeToString(sum[:]), nil
}

// others lists what lies in the directory and is not of its layout: at most a
// hundred names, and whether there are more.
func (d *runDir) others() (names []string, more bool, err error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	entries, err := f.ReadDir(1000)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	for _, e := range entries {
		if !slices.Contains(d.layout.files, e.Name()) && !slices.Contains(d.layout.proofs(), e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	more = len(entries) == 1000 || len(names) > 100
	return names[:min(len(names), 100)], more, nil
}

type proofFile struct {
	name string
	data []byte
}

// write replaces files so that each is there in full or not at all, and stays.
func (d *runDir) write(files []proofFile) error {
	for _, f := range files {
		if err := disk.Put(d.root, f.name, 0o644, disk.PowerCut, disk.Bytes(f.data)); err != nil {
			return err
		}
	}
	return nil
}
