package witness

import (
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-bench/assay"
)

// A checkpoint that is gone is not a log that was never seen: the witness does not
// start, and so signs no second history.
func TestALostCheckpointIsNotANewLog(t *testing.T) {
	dir := t.TempDir()
	a := newTestLog(t, "log.test/a").grow(20, "leaf")
	b := newTestLog(t, "log.test/b").grow(20, "leaf")
	c := newCosigner("witness.test/w1", time.Now)
	o := Options{Dir: dir, Logs: []note.Verifier{a.key}, Signer: c, Verifier: c.verifier(t)}
	w := open(t, o)
	mustSign(t, w, a, 0, 8)
	path := w.logs["log.test/a"].path()
	w.Close()
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lose := func(what string) {
		t.Helper()
		if err := os.RemoveAll(what); err != nil {
			t.Fatal(err)
		}
	}
	lose(path)
	refused := func(want error, words string) {
		t.Helper()
		w, err := New(o)
		if err == nil {
			w.Close()
		}
		if !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v; want %v with %q", err, want, words)
		}
	}
	refused(ErrState, "restore the file from a backup")
	lose(w.logs["log.test/a"].dir)
	refused(ErrState, "restore the file from a backup")
	if err := os.WriteFile(path, kept, 0o600); err != nil { // the directory was made again
		t.Fatal(err)
	}

	// Another log may be new where one is known.
	o.Logs = append(o.Logs, b.key)
	w = open(t, o)
	if rec := post(w, b.body(0, 8)); rec.Code != 200 {
		t.Errorf("a new log: %d %s", rec.Code, rec.Body)
	}
	mustSign(t, w, a, 8, 13)
	w.Close()

	// The file that knows: altered, another witness's, gone, and made again.
	memory, err := os.ReadFile(memoryPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "{}", strings.Replace(string(memory), "log.test/b", "log.test/c", 1) + " "} {
		if err := os.WriteFile(memoryPath(dir), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(ErrState, "not as it was written")
	}
	lose(memoryPath(dir))
	refused(ErrNotBegun, "--new")
	if err := Create(o); err != nil {
		t.Fatal(err)
	}
	w = open(t, o) // both logs are known from their checkpoints
	if len(w.memory.Logs) != 2 {
		t.Errorf("knows %q", w.memory.Logs)
	}
	mustSign(t, w, a, 13, 20)
	w.Close()
	if err := Create(o); !errors.Is(err, ErrBegun) {
		t.Errorf("begun twice: %v", err)
	}
	lose(dir)
	refused(ErrNotBegun, "not mounted")
}

// Killed between a log's first checkpoint and the note that there is one.
func TestTheFirstCheckpointIsKnownAfterACrash(t *testing.T) {
	dir := t.TempDir()
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	o := Options{Dir: dir, Logs: []note.Verifier{l.key}}
	w := open(t, o)
	before, err := os.ReadFile(memoryPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	mustSign(t, w, l, 0, 8)
	path := w.logs["log.test/a"].path()
	w.Close()
	if err := os.WriteFile(memoryPath(dir), before, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, o).Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	o.Signer = newCosigner("witness.test/w1", time.Now)
	if _, err := New(o); !errors.Is(err, ErrState) {
		t.Errorf("lost after that: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	a := newTestLog(t, "log.test/a").grow(20, "leaf")
	b := newTestLog(t, `log.test/b`)
	fork := newTestLog(t, "log.test/a").grow(20, "other")
	at := time.Unix(1_800_000_000, 0)
	c := newCosigner("witness.test/w1", func() time.Time { return at })
	w := open(t, Options{Logs: []note.Verifier{a.key, b.key}, Signer: c, Now: func() time.Time { return at }})
	mustSign(t, w, a, 0, 8)
	post(w, fork.body(8, 8))             // a fork
	post(w, fork.body(8, 13))            // does not fit
	post(w, "old 5\n\n"+a.checkpoint(5)) // shrunk
	post(w, "nonsense")
	post(w, newTestLog(t, "log.test/unknown").grow(3, "x").body(0, 3))
	at = at.Add(-time.Hour)
	post(w, a.body(8, 9)) // by our own fault
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	body := rec.Body.String()
	for _, m := range assay.Metrics() {
		if m.In == assay.WitnessPage && !strings.Contains(body, "# HELP "+m.Name+" "+m.Help) {
			t.Errorf("the page has no %s", m.Name)
		}
	}
	for _, want := range []string{
		`assay_witness_cosigned_total{log="log.test/a"} 1`, `assay_witness_cosigned_total{log="log.test/b"} 0`,
		`assay_witness_refused_total{log="",status="400"} 1`, `assay_witness_refused_total{log="",status="404"} 1`,
		`assay_witness_refused_total{log="log.test/a",status="409"} 1`, `assay_witness_refused_total{log="log.test/a",status="422"} 1`,
		`assay_witness_refused_total{log="log.test/a",status="500"} 1`,
		`assay_witness_found_total{log="log.test/a",found="fork"} 1`, `assay_witness_found_total{log="log.test/a",found="mismatch"} 1`, `assay_witness_found_total{log="log.test/a",found="shrunk"} 1`,
		`assay_witness_healthy{log="log.test/a"} 0`, `assay_witness_healthy{log="log.test/b"} 1`,
		`assay_witness_log_entries{log="log.test/a"} 8`, `assay_witness_cosigned_time_seconds{log="log.test/a"} 1.8e+09`,
		"# TYPE assay_witness_cosigned_total counter", "# HELP assay_witness_log_entries ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, `entries{log="log.test/b"}`) {
		t.Errorf("a log that was never signed for has a size:\n%s", body)
	}
}
