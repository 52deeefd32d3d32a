package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

func TestResumeRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := journal.Create(dir, exampleManifest())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := journal.Resume(dir); !errors.Is(err, journal.ErrInUse) {
		t.Errorf("a run under way: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w, _, err = journal.Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	done := filepath.Join(t.TempDir(), "done")
	copyRun(t, exampleDir, done)
	if _, _, err := journal.Resume(done); !errors.Is(err, journal.ErrComplete) {
		t.Errorf("a complete run: %v", err)
	}
	empty := t.TempDir()
	if _, _, err := journal.Resume(empty); err == nil {
		t.Error("an empty directory")
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) != 0 {
		t.Errorf("it left %v behind, %v", entries, err)
	}
}

// However a run was cut off, a resumed one records each request once, and is
// complete at the end.
func TestResumeAfterEveryCut(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	makeExample(t, whole, second/3)
	var all []assay.Request
	run, err := journal.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range run.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		c := *r
		c.Gaps, c.ChunkTokens, c.OtherUS, c.Engine = nil, nil, nil, nil
		all = append(all, c)
	}
	info, err := os.Stat(filepath.Join(whole, journal.RequestsFile))
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at <= info.Size(); at += 97 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint("cut", at))
		copyRun(t, whole, dir)
		if err := os.Truncate(filepath.Join(dir, journal.RequestsFile), at); err != nil {
			t.Fatal(err)
		}
		resumeAndFinish(t, dir, all)
	}
}

func resumeAndFinish(t *testing.T, dir string, all []assay.Request) {
	t.Helper()
	w, r, err := journal.Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, journal.SummaryFile)); err == nil {
		t.Error("the old summary is still there")
	}
	refused, written := 0, 0
	for i := range all {
		known := r.Recorded(all[i].ID)
		err := w.Request(&all[i])
		switch {
		case known && errors.Is(err, journal.ErrRecorded):
			refused++
		case !known && err == nil:
			written++
		default:
			t.Fatalf("%s: on record %v, error %v", all[i].ID, known, err)
		}
	}
	if refused != r.Requests || refused+written != len(all) {
		t.Errorf("%d refused, %d on record, %d written of %d", refused, r.Requests, written, len(all))
	}
	last := assay.Checkpoint{At: exampleTime, Status: assay.StatusComplete}
	if err := errors.Join(w.Checkpoint(last), w.Summary(&assay.Summary{Status: assay.StatusComplete}), w.Close()); err != nil {
		t.Fatal(err)
	}
	run, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := run.Status(); got != assay.StatusComplete {
		t.Errorf("status %s, torn %q", got, run.Torn())
	}
	ids := map[string]bool{}
	for q, err := range run.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		if ids[q.ID] {
			t.Errorf("%s is counted twice", q.ID)
		}
		ids[q.ID] = true
	}
	if len(ids) != len(all) {
		t.Errorf("%d of %d requests", len(ids), len(all))
	}
	resumed := 0
	for e, err := range run.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == assay.EventResumed {
			resumed++
			if e.Data["down_seconds"] <= 0 {
				t.Errorf("down for %v s", e.Data["down_seconds"])
			}
		}
	}
	if resumed != 1 {
		t.Errorf("%d resumed events", resumed)
	}
}

func TestResumeKnowsTheStages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	copyRun(t, exampleDir, dir)
	// Cut off in the third stage: its start is on record, its end is not.
	path := filepath.Join(dir, journal.EventsFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for range 9 {
		for b[at] != '\n' {
			at++
		}
		at++
	}
	if err := os.WriteFile(path, append(b[:at:at], `{"t_ns":17`...), 0o644); err != nil {
		t.Fatal(err)
	}
	w, r, err := journal.Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if len(r.Stages) != 3 || r.Stages[0].Ended == 0 || r.Stages[1].Ended == 0 || r.Stages[2].Ended != 0 || r.Stages[2].Started == 0 {
		t.Fatalf("stages %+v", r.Stages)
	}
	if s := r.Stages[2]; s.Plan.Name != "c8" || s.Plan.Concurrency != 8 || s.Requests == 0 || s.Warmups != 2 {
		t.Errorf("stage %+v", s)
	}
	if r.Requests == 0 || r.NextPrompt() != r.Requests || len(r.Torn) == 0 || r.Checkpoint == nil || r.Manifest.Seed != 42 {
		t.Errorf("%d requests, next prompt %d, torn %q", r.Requests, r.NextPrompt(), r.Torn)
	}
}
