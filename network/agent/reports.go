package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/outbox"
)

// Stages of a report. Each is on the disk before the next begins, and each can be
// done again: whatever dies in between, the next look goes on from there.
const (
	stageMeasuring = "measuring" // its run is being recorded, or was interrupted
	stageSigned    = "signed"    // the run's directory has its statements
	stageKept      = "kept"      // they are in the outbox
	stageTaken     = "taken"     // the server has them; files are uploaded
	stageRefused   = "refused"   // the server will never have them
)

const (
	// maxWaiting is how many runs may wait for the server before none is started.
	maxWaiting = 64
	// maxRefusedRuns are kept for a person to look at; older ones go.
	maxRefusedRuns = 4
)

// report is a file of reports/, named as the run's directory in runs/.
type report struct {
	Stage     string    `json:"stage"`
	Run       string    `json:"run,omitempty"`       // the run's own id
	Statement string    `json:"statement,omitempty"` // id of the statement that is announced
	Command   string    `json:"command,omitempty"`   // that asked for it
	Created   time.Time `json:"created"`
	Reason    string    `json:"reason,omitempty"` // of a refused one
}

// reports brings runs to the server, from the state directory alone.
type reports struct {
	state   *state
	session *session
	box     *outbox.Outbox
	log     *slog.Logger

	mu     sync.Mutex // guards files of reports/ and what follows
	active string     // the run that is being recorded
}

// begin names a new run's directory.
func (r *reports) begin(command string) (name, dir string, err error) {
	waiting, err := r.list()
	if err != nil {
		return "", "", err
	}
	n := 0
	for _, name := range waiting {
		if x, err := r.read(name); err != nil || x.Stage != stageRefused {
			n++
		}
	}
	if n >= maxWaiting {
		return "", "", fmt.Errorf("%d runs wait for the server already: no other is started before it takes some", n)
	}
	name = ulid.Make().String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.write(name, report{Stage: stageMeasuring, Command: command, Created: time.Now().UTC()}); err != nil {
		return "", "", err
	}
	r.active = name
	return name, r.state.path(runsDir, name), nil
}

// end lets the next look have the run.
func (r *reports) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = ""
}

// list gives the names of all runs and reports, oldest first.
func (r *reports) list() ([]string, error) {
	var names []string
	for _, dir := range []string{reportsDir, runsDir} {
		entries, err := os.ReadDir(r.state.path(dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name := strings.TrimSuffix(e.Name(), ".json")
			if _, err := ulid.ParseStrict(name); err == nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

func (r *reports) read(name string) (report, error) {
	var x report
	_, err := r.state.read(filepath.Join(reportsDir, name+".json"), &x)
	return x, err
}

func (r *reports) write(name string, x report) error {
	return r.state.write(filepath.Join(reportsDir, name+".json"), x)
}

// tend brings every run as far as it gets, and reports whether all are done. An
// error of one does not hold up the others.
func (r *reports) tend(ctx context.Context) (bool, error) {
	names, err := r.list()
	if err != nil {
		return false, err
	}
	done := true
	var errs []error
	for _, name := range names {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		r.mu.Lock()
		active := r.active == name
		r.mu.Unlock()
		if active {
			continue
		}
		waits, err := r.advance(ctx, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("run %s: %w", name, err))
		}
		done = done && !waits
	}
	errs = append(errs, r.trim(names))
	return done, errors.Join(errs...)
}

// advance brings one run as far as it gets; waits: there is more to do.
func (r *reports) advance(ctx context.Context, name string) (waits bool, err error) {
	x, err := r.read(name)
	if err != nil {
		return true, err
	}
	dir := r.state.path(runsDir, name)
	if x.Stage == "" || x.Stage == stageMeasuring {
		if x, err = r.sign(ctx, name, dir, x); err != nil || x.Stage == "" {
			return err != nil, err
		}
	}
	if x.Stage == stageSigned {
		if err := r.keep(ctx, dir); err != nil {
			return true, err
		}
		if x, err = r.move(name, stageSigned, stageKept); err != nil {
			return true, err
		}
	}
	if n, _ := r.box.Pending(); x.Stage == stageKept && n == 0 {
		// The server has it, and that could not be noted, as on a full disk.
		if x, err = r.move(name, stageKept, stageTaken); err != nil {
			return true, err
		}
	}
	switch x.Stage {
	case stageTaken:
		return r.upload(ctx, name, dir, x)
	case stageRefused:
		return false, nil
	}
	return true, nil
}

// sign makes a report of a run that was recorded to its end, and removes any other.
func (r *reports) sign(ctx context.Context, name, dir string, x report) (report, error) {
	run, err := journal.Open(dir)
	var sum *assay.Summary
	if err == nil {
		sum, err = run.Summary()
	}
	if err != nil || sum.Status != assay.StatusComplete {
		r.log.Info("a check that was interrupted is dropped; it is made again", "run", name)
		return report{}, errors.Join(removeRun(dir), r.remove(name))
	}
	if _, err := os.Lstat(filepath.Join(dir, ledger.BenchmarkFile)); errors.Is(err, fs.ErrNotExist) {
		signer, key, _ := r.session.signing()
		if _, err := ledger.SignRun(context.WithoutCancel(ctx), dir, signer, key, ledger.SignOptions{}); err != nil {
			return report{}, err
		}
	}
	rec, err := r.statement(dir, ledger.BenchmarkFile)
	if err != nil {
		return report{}, err
	}
	x.Stage, x.Run, x.Statement = stageSigned, run.Manifest().ID, rec.ID.String()
	if x.Created.IsZero() {
		x.Created = time.Now().UTC()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return x, r.write(name, x)
}

// statement reads a record from a run's directory.
func (r *reports) statement(dir, file string) (ledger.Record, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return ledger.Record{}, err
	}
	return ledger.RecordOf(b)
}

// keep puts a run's statements into the outbox: that of the key, if it is not the
// key's own word, before the others.
func (r *reports) keep(ctx context.Context, dir string) error {
	var records []ledger.Record
	for _, file := range append([]string{ledger.KeyFile}, ledger.StatementFiles(dir)...) {
		rec, err := r.statement(dir, file)
		if err != nil {
			return err
		}
		if file == ledger.KeyFile {
			k, err := ledger.ParseKey(rec.Value)
			if err != nil {
				return err
			}
			if k.SelfSigned() {
				continue
			}
		}
		records = append(records, rec)
	}
	return r.box.Add(ctx, records...)
}

// move changes a report's stage, if it is where the caller thinks. What it is then
// is given either way.
func (r *reports) move(name, from, to string) (report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, err := r.read(name)
	if err != nil || x.Stage != from {
		return x, err // the answer was quicker
	}
	x.Stage = to
	return x, r.write(name, x)
}

// settled is told by the sink what became of a statement. An error is only logged:
// the report stays where it is, and is announced all the same when it is looked at
// the next time.
func (r *reports) settled(rec *ledger.Record, o outbox.Outcome) {
	if rec.Kind != ledger.KindEnvelope {
		return
	}
	id := rec.ID.String()
	names, err := r.list()
	if err != nil {
		r.log.Error("what the server answered could not be noted", "statement", id, "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		x, err := r.read(name)
		if err != nil || x.Statement != id || x.Stage == stageTaken {
			continue
		}
		if x.Stage = stageTaken; o.State == outbox.Refused {
			x.Stage, x.Reason = stageRefused, foreign.Line(o.Reason, maxProblem)
		}
		if err := r.write(name, x); err != nil {
			r.log.Error("what the server answered could not be noted", "statement", id, "error", err)
		}
	}
}

// refuse marks a report that the server will not have.
func (r *reports) refuse(name string, x report, why error) error {
	r.log.Error("the server refuses a run; it is kept for a person to look at", "run", x.Run, "dir", r.state.path(runsDir, name), "error", why)
	x.Stage, x.Reason = stageRefused, foreign.Line(why.Error(), maxProblem)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.write(name, x)
}

// trim removes the oldest of the refused runs.
func (r *reports) trim(names []string) error {
	var refused []string
	for _, name := range names {
		if x, err := r.read(name); err == nil && x.Stage == stageRefused {
			refused = append(refused, name)
		}
	}
	var errs []error
	for len(refused) > maxRefusedRuns {
		errs = append(errs, removeRun(r.state.path(runsDir, refused[0])), r.remove(refused[0]))
		refused = refused[1:]
	}
	return errors.Join(errs...)
}

func (r *reports) remove(name string) error {
	err := os.Remove(r.state.path(reportsDir, name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// count is how many runs wait, and how many were refused.
func (r *reports) count() (waiting, refused int) {
	names, err := r.list()
	if err != nil {
		return 0, 0
	}
	for _, name := range names {
		if x, err := r.read(name); err == nil && x.Stage == stageRefused {
			refused++
		} else {
			waiting++
		}
	}
	return waiting, refused
}
