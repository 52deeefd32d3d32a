package tlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/ledger"
)

// What a monitor shouts about. Each is a different thing that the log, or
// somebody between it and us, has done; none can happen by accident to a log
// that is kept well.
var (
	ErrFork     = errors.New("FORK: the log shows two histories")
	ErrRollback = errors.New("ROLLBACK: the log has become smaller")
	ErrUnsigned = errors.New("UNSIGNED: the checkpoint is not signed as the policy asks")
	ErrAltered  = errors.New("ALTERED: what the log serves does not lead to the root that it signed")
)

// Alarm is what a monitor found. The checkpoints are kept: two that are signed
// and contradict each other prove to anybody that the log broke its word.
type Alarm struct {
	Kind     error // ErrFork, ErrRollback, ErrUnsigned or ErrAltered
	What     string
	Evidence []string // files
}

func (a *Alarm) Error() string {
	s := fmt.Sprintf("%v: %s", a.Kind, a.What)
	if len(a.Evidence) > 0 {
		s += fmt.Sprintf("; kept as evidence: %q", a.Evidence)
	}
	return s
}

func (a *Alarm) Unwrap() error { return a.Kind }

// MonitorOptions say what a monitor keeps.
type MonitorOptions struct {
	State  string                  // file: the last checkpoint. It must outlive the monitor
	Mirror string                  // directory: a full copy, checked entry by entry. "": none
	Now    func() time.Time        // nil: time.Now
	Copied func(done, size uint64) // entries of the mirror; nil: nobody looks
}

// Monitor follows a log: each checkpoint must be signed, not smaller than the
// last, and a continuation of it.
type Monitor struct {
	src    Source
	p      ledger.Policy
	o      MonitorOptions
	last   ledger.Checkpoint // Raw nil: none yet
	mirror *store
}

// Seen is what one look at a log gave.
type Seen struct {
	Origin    string               `json:"origin"`
	Size      uint64               `json:"size"`
	Before    uint64               `json:"before"` // the size at the last look
	First     bool                 `json:"first"`  // there was no look before: nothing to compare with
	Witnesses []ledger.Cosignature `json:"witnesses"`
	At        time.Time            `json:"at"`
	Mirrored  *uint64              `json:"mirrored,omitempty"` // entries of the mirror
}

// NewMonitor takes up where the state file ends.
func NewMonitor(ctx context.Context, src Source, p ledger.Policy, o MonitorOptions) (*Monitor, error) {
	if o.State == "" {
		return nil, errors.New("a monitor needs a file to remember the last checkpoint in")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Monitor{src: src, p: p, o: o}
	raw, err := readSmall(o.State, maxCheckpoint)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read the monitor's state: %w", err)
	default:
		// The policy may have got more witnesses since: what was good then is good.
		if m.last, err = withoutQuorum(p).Open(raw); err != nil {
			return nil, fmt.Errorf("the monitor's state in %s: %w; restore the file, or move it away and begin anew, which forgets what was seen", o.State, err)
		}
	}
	if o.Mirror != "" {
		if err := m.openMirror(ctx); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Close gives files back.
func (m *Monitor) Close() error {
	if m.mirror != nil {
		return m.mirror.close()
	}
	return nil
}

func (m *Monitor) openMirror(ctx context.Context) error {
	s, err := openStore(m.o.Mirror)
	if err != nil {
		return err
	}
	raw, err := (&dirLog{name: s.name, root: s.root}).Checkpoint(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil:
		var c ledger.Checkpoint
		if c, err = withoutQuorum(m.p).Open(raw); err != nil {
			err = fmt.Errorf("mirror in %s: %w", m.o.Mirror, err)
		} else {
			err = s.resume(ctx, c)
		}
	}
	if err != nil {
		return errors.Join(err, s.close())
	}
	m.mirror = s
	return nil
}

// Check looks at the log once. An *Alarm says what the log did; any other error
// that it could not be looked at. What was seen is remembered only when it is
// good.
func (m *Monitor) Check(ctx context.Context) (Seen, error) {
	raw, err := m.src.Checkpoint(ctx)
	if err != nil {
		return Seen{}, err
	}
	c, err := m.p.Open(raw)
	if errors.Is(err, ledger.ErrCheckpoint) {
		return Seen{}, fmt.Errorf("checkpoint of %s: %w", nameOf(m.src), err)
	}
	if err != nil {
		return Seen{}, m.alarm(ErrUnsigned, raw, "%v", err)
	}
	first := m.last.Raw == nil
	seen := Seen{Origin: c.Origin, Size: c.Size, Before: m.last.Size, First: first, Witnesses: c.Cosigned, At: m.o.Now().UTC()}
	if !first {
		if err := m.compare(ctx, c); err != nil {
			return seen, err
		}
	}
	if m.mirror != nil {
		if err := m.copy(ctx, c); err != nil {
			return seen, err
		}
		seen.Mirrored = &m.mirror.tower.size
	}
	if err := m.remember(c); err != nil {
		return seen, err
	}
	return seen, nil
}

// compare holds a checkpoint against the last.
func (m *Monitor) compare(ctx context.Context, c ledger.Checkpoint) error {
	last := m.last
	switch {
	case c.Origin != last.Origin:
		return fmt.Errorf("%s serves the log %q, and %s remembers %q: one of them is the wrong one", nameOf(m.src), c.Origin, m.o.State, last.Origin)
	case c.Size < last.Size:
		return m.alarm(ErrRollback, c.Raw, "it had %d entries and now has %d: entries %d..%d were taken away", last.Size, c.Size, c.Size, last.Size-1)
	case c.Size == last.Size && c.Root != last.Root:
		return m.alarm(ErrFork, c.Raw, "two checkpoints of %d entries have different roots, and the log signed both", c.Size)
	case c.Size == last.Size, last.Size == 0:
		return nil
	}
	r := &nodeReader{src: m.src, size: c.Size}
	hashes, err := r.consistency(ctx, last.Size)
	if err != nil && !errors.Is(err, ErrAnswer) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("prove that the log goes on from %d to %d entries: %w", last.Size, c.Size, err)
	}
	if err == nil {
		if err = proof.VerifyConsistency(rfc6962.DefaultHasher, last.Size, c.Size, hashes, last.Root[:], c.Root[:]); err == nil {
			return nil
		}
		// With tiles that do lead to the new root, the old one is no part of it.
		if t, terr := loadTower(ctx, m.src, c.Size); terr == nil && t.root() == c.Root {
			return m.alarm(ErrFork, c.Raw, "the %d entries that it signed now do not begin with the %d that it signed before", c.Size, last.Size)
		}
	}
	return m.alarm(ErrAltered, c.Raw, "no proof that %d entries go on from %d: %v", c.Size, last.Size, err)
}

// copy brings the mirror up to a checkpoint and compares its root.
func (m *Monitor) copy(ctx context.Context, c ledger.Checkpoint) error {
	if m.mirror.tower.size > c.Size {
		return m.alarm(ErrRollback, c.Raw, "the mirror has %d entries and the log now has %d", m.mirror.tower.size, c.Size)
	}
	// A copy that went wrong is begun again at the mirror's own checkpoint.
	before := m.mirror.tower.clone()
	tail := m.mirror.tail
	err := m.mirror.grow(ctx, c.Size, fetchFrom(m.src, c.Size), func(size uint64) error {
		if m.o.Copied != nil && (size%tileWidth == 0 || size == c.Size) {
			m.o.Copied(size, c.Size)
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrAnswer), errors.Is(err, ErrAltered), errors.Is(err, fs.ErrNotExist):
		err = m.alarm(ErrAltered, c.Raw, "copy to the mirror: %v", err)
	case err != nil:
		err = fmt.Errorf("copy the log to %s: %w", m.o.Mirror, err)
	case m.mirror.tower.root() != c.Root:
		err = m.alarm(ErrAltered, c.Raw, "its %d entries do not give the root that it signed", c.Size)
	default:
		if err = m.mirror.commit(c.Raw); err == nil {
			return nil
		}
		err = fmt.Errorf("copy the log to %s: %w", m.o.Mirror, err)
	}
	m.mirror.tower, m.mirror.tail = before, tail
	return err
}

// remember keeps a checkpoint as the last one, also over a crash.
func (m *Monitor) remember(c ledger.Checkpoint) error {
	root, name, err := openFor(m.o.State)
	if err != nil {
		return fmt.Errorf("remember the checkpoint: %w", err)
	}
	defer root.Close()
	if err := writeFile(root, name, c.Raw, disk.PowerCut); err != nil {
		return fmt.Errorf("remember the checkpoint: %w", err)
	}
	m.last = c
	return nil
}

const maxEvidence = 100

// alarm keeps both checkpoints, and says so.
func (m *Monitor) alarm(kind error, now []byte, format string, args ...any) error {
	a := &Alarm{Kind: kind, What: fmt.Sprintf(format, args...)}
	root, name, err := openFor(m.o.State)
	if err != nil {
		return errors.Join(a, fmt.Errorf("keep the evidence: %w", err))
	}
	defer root.Close()
	pairs := []struct {
		what string
		raw  []byte
	}{{"before", m.last.Raw}, {"now", now}}
	for _, p := range pairs {
		if p.raw == nil {
			continue
		}
		// Named by what they hold: the same pair is kept once, however often it is seen.
		sum := leafHash(p.raw)
		file := fmt.Sprintf("%s.evidence-%x-%s", name, sum[:6], p.what)
		if _, err := root.Stat(file); err == nil {
			a.Evidence = append(a.Evidence, filepath.Join(filepath.Dir(m.o.State), file))
			continue
		}
		if n, err := countEvidence(root, name); err != nil || n >= maxEvidence {
			return errors.Join(a, fmt.Errorf("keep the evidence: there are %d files already: %w", n, errOr(err)))
		}
		if err := writeFile(root, file, p.raw, disk.PowerCut); err != nil {
			return errors.Join(a, fmt.Errorf("keep the evidence: %w", err))
		}
		a.Evidence = append(a.Evidence, filepath.Join(filepath.Dir(m.o.State), file))
	}
	return a
}

func countEvidence(root *os.Root, name string) (int, error) {
	list, err := fs.ReadDir(root.FS(), ".")
	n := 0
	for _, f := range list {
		if strings.HasPrefix(f.Name(), name+".evidence-") {
			n++
		}
	}
	return n, err
}

func errOr(err error) error {
	if err == nil {
		return errors.New("move them away")
	}
	return err
}

// readSmall reads a file of at most limit bytes.
func readSmall(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b, err
}
