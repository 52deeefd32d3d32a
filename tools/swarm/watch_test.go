package main

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
)

// watch sees what agents sign, and when they delete it.
type watch struct {
	t    *testing.T
	db   *sql.DB
	dirs []string
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	records map[string][]byte // statements, by id
	runs    map[string]string // the id of a run's statement, by its directory, until that is deleted
	all     int               // runs
	early   []string          // deleted and not confirmed
}

// watchRuns looks at the runs of agents every few milliseconds, until end.
func watchRuns(t *testing.T, db *sql.DB, dirs []string) *watch {
	w := &watch{t: t, db: db, dirs: dirs, stop: make(chan struct{}), done: make(chan struct{}), records: map[string][]byte{}, runs: map[string]string{}}
	go func() {
		defer close(w.done)
		for {
			w.look()
			select {
			case <-w.stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(w.end)
	return w
}

// end looks a last time.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.stop:
		return
	default:
	}
	close(w.stop)
	w.mu.Unlock()
	<-w.done
	w.mu.Lock()
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, dir := range w.dirs {
		runs, _ := filepath.Glob(filepath.Join(dir, "runs", "*"))
		for _, run := range runs {
			if w.runs[run] == "" {
				w.read(run)
			}
		}
	}
	for run, id := range w.runs {
		if _, err := os.Stat(run); !os.IsNotExist(err) {
			continue
		}
		var n int
		err := w.db.QueryRow("SELECT count(*) FROM reports WHERE statement = $1 AND confirmed_at IS NOT NULL", id).Scan(&n)
		if err != nil || n != 1 {
			w.early = append(w.early, id)
		}
		delete(w.runs, run)
	}
}

// read takes the statements of a run down, once all of them are there.
func (w *watch) read(run string) {
	found := map[string][]byte{}
	about := ""
	for _, file := range append([]string{ledger.KeyFile}, ledger.StatementFiles(run)...) {
		b, err := os.ReadFile(filepath.Join(run, file))
		if err != nil {
			return
		}
		r, err := ledger.RecordOf(b)
		if err != nil {
			return
		}
		found[r.ID.String()] = r.Value
		if file == ledger.BenchmarkFile {
			about = r.ID.String()
		}
	}
	for id, b := range found {
		w.records[id] = b
	}
	w.runs[run] = about
	w.all++
}

// signed is how many runs were seen.
func (w *watch) signed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// count compares what was signed with what the server has.
func (w *storm) count() {
	w.t.Helper()
	for _, id := range w.watch.early {
		w.t.Errorf("the run of statement %s was deleted and is not confirmed", id)
	}
	there := w.outbox()
	for id, b := range w.watch.records {
		if got, ok := there[id]; !ok {
			w.t.Errorf("statement %s was signed, and the server does not have it", id)
		} else if !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(b)) {
			w.t.Errorf("statement %s is not what was signed", id)
		}
	}
	runs, files := w.reports(there)
	deaths := 0
	for _, a := range w.agents {
		deaths += a.deaths - 1 // the last one is the end
		refused, _ := filepath.Glob(filepath.Join(a.dir, "outbox", "refused", "*"))
		if len(refused) > 0 {
			w.t.Errorf("%d records were refused", len(refused))
		}
	}
	if deaths < 2 || runs < wantRuns {
		w.t.Errorf("%d runs, and agents died %d times: that was no storm", runs, deaths)
	}
	parttest.Figure(w.t, "%d statements were seen to be signed and are there once, %d runs with %d files are confirmed, agents were killed %d times", len(w.watch.records), runs, files, deaths)
}

// outbox is every statement of a node that the server has.
func (w *storm) outbox() map[string][]byte {
	w.t.Helper()
	there := map[string][]byte{}
	rows, err := w.watch.db.Query("SELECT id, bytes FROM outbox WHERE topic = 'ledger'")
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var b []byte
		if err := rows.Scan(&id, &b); err != nil {
			w.t.Fatal(err)
		}
		there[id] = b
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return there
}

// reports looks at each: one for a run, one for a statement, its files there with
// their hashes; and each check that an agent called done has one.
func (w *storm) reports(there map[string][]byte) (runs, files int) {
	w.t.Helper()
	rows, err := w.watch.db.Query("SELECT run, statement, confirmed_at IS NOT NULL, files FROM reports")
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	known := map[string]bool{}
	for rows.Next() {
		var run, statement, text string
		var confirmed bool
		if err := rows.Scan(&run, &statement, &confirmed, &text); err != nil {
			w.t.Fatal(err)
		}
		switch {
		case known[run] || known[statement]:
			w.t.Errorf("run %s has two reports", run)
		case !confirmed:
			w.t.Errorf("run %s is not confirmed", run)
		case there[statement] == nil:
			w.t.Errorf("run %s has no statement", run)
		}
		known[run], known[statement] = true, true
		runs++
		files += w.stored(text)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	statements := 0
	for id, b := range there {
		if isRun(b) {
			if statements++; !known[id] {
				w.t.Errorf("statement %s is about a run, and there is no report of it", id)
			}
		}
	}
	if statements != runs {
		w.t.Errorf("there are %d statements about %d runs", statements, runs)
	}
	w.acknowledged(known)
	return runs, files
}

// stored hashes the objects of a report.
func (w *storm) stored(text string) int {
	w.t.Helper()
	var files []struct{ Name, SHA256 string }
	if err := json.Unmarshal([]byte(text), &files); err != nil || len(files) == 0 {
		w.t.Fatalf("%s: %v", text, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(w.path("state"), "evidence", f.SHA256))
		if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != f.SHA256 {
			w.t.Errorf("%s is not stored with its hash: %v", f.Name, err)
		}
		var confirmed bool
		if err := w.watch.db.QueryRow("SELECT confirmed_at IS NOT NULL FROM evidence WHERE sha256 = $1", f.SHA256).Scan(&confirmed); err != nil || !confirmed {
			w.t.Errorf("%s is not confirmed: %v", f.Name, err)
		}
	}
	return len(files)
}

// acknowledged compares checks that agents called done with the reports.
func (w *storm) acknowledged(known map[string]bool) {
	w.t.Helper()
	rows, err := w.watch.db.Query("SELECT id, run FROM commands WHERE kind = 'check' AND outcome = 'done'")
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, run string
		if err := rows.Scan(&id, &run); err != nil {
			w.t.Fatal(err)
		}
		if !known[run] {
			w.t.Errorf("check %s was done as run %q, and there is no report of it", id, run)
		}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
}

func isRun(envelope []byte) bool {
	e, err := ledger.ReadEnvelope(envelope)
	if err != nil {
		return false
	}
	s, _, err := ledger.ParseStatement(e.Payload)
	return err == nil && s.PredicateType == ledger.GPUBenchmark
}

// readJSON reads a file of an agent; one that is not there leaves v as it is.
func readJSON(file string, v any) {
	if b, err := os.ReadFile(file); err == nil {
		_ = json.Unmarshal(b, v) // a file that is being replaced is read the next time
	}
}
