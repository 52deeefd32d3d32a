package journal

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/disk"
)

// Resumed is what a run that was interrupted had come to: what is needed to go
// on, and no more. It holds some sixteen bytes a recorded request.
type Resumed struct {
	Manifest assay.Manifest
	// Checkpoint is the last one; nil when none was written.
	Checkpoint *assay.Checkpoint
	// Torn is what was cut off; see [Run.Torn].
	Torn []string
	// Down is the time since the last sign of life of the process before.
	Down time.Duration
	// Stages are those that were started, in that order.
	Stages []Progress
	// Requests is the number of requests on record.
	Requests int

	recorded ids
	next     int
}

// Progress is how far a stage came. Times are those of its events, zero for one
// that did not come.
type Progress struct {
	Plan                            assay.Stage
	Started, Steady, LoadEnd, Ended int64
	Requests                        int // on record, warm-ups included
	Warmups                         int
	Ran                             int64 // ns that it ran before it was started last
	Cancelled                       int   // of the judged ones, those that the interruption broke off
}

// Recorded reports whether a request of this id is on record.
func (r *Resumed) Recorded(id string) bool { return r.recorded.has(id) }

// NextPrompt is one more than the highest prompt number on record.
func (r *Resumed) NextPrompt() int { return r.next }

// ids is a set of request ids by a 64-bit hash: of a million ids, the chance
// that any new one is taken for a recorded one is about one in ten million.
type ids map[uint64]struct{}

func fingerprint(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails, by its documentation
	return h.Sum64()
}

func (s ids) has(id string) bool {
	if len(s) == 0 {
		return false
	}
	_, ok := s[fingerprint(id)]
	return ok
}

// Resume takes up a run that was interrupted: it cuts off torn last lines,
// removes a summary and health that are out of date, appends a resumed event (Data:
// down_seconds, and cut_bytes if there were any), and gives back what is on
// record. It refuses a run that is complete (ErrComplete) or that another
// process writes (ErrInUse).
func Resume(dir string) (*Writer, *Resumed, error) {
	wrap := func(err error) error { return fmt.Errorf("resume run %s: %w", dir, err) }
	if _, err := Open(dir); err != nil { // before open creates anything
		return nil, nil, err
	}
	w, err := open(dir, 0)
	if err != nil {
		return nil, nil, wrap(err)
	}
	r, err := w.takeUp()
	if err != nil {
		return nil, nil, errors.Join(wrap(err), w.Close())
	}
	return w, r, nil
}

func (w *Writer) takeUp() (*Resumed, error) {
	run, err := Open(w.dir) // again, now that nobody else writes
	if err != nil {
		return nil, err
	}
	run.locked = false // by us
	if run.Status() == assay.StatusComplete {
		return nil, ErrComplete
	}
	r := &Resumed{Manifest: run.manifest, Checkpoint: run.checkpoint, Torn: run.torn,
		recorded: ids{}}
	if err := r.read(run); err != nil {
		return nil, err
	}
	cut := int64(0)
	for i, a := range w.files {
		if a.size > run.whole[i] {
			cut += a.size - run.whole[i]
			if err := a.f.Truncate(run.whole[i]); err != nil {
				return nil, fmt.Errorf("cut the torn line off %s: %w", a.name, err)
			}
			a.size = run.whole[i]
		}
	}
	if err := disk.Tidy(w.dir); err != nil {
		return nil, fmt.Errorf("remove what was left unfinished: %w", err)
	}
	for _, derived := range []string{SummaryFile, HealthFile} {
		if err := os.Remove(filepath.Join(w.dir, derived)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove the old %s: %w", derived, err)
		}
	}
	w.recorded = r.recorded
	now := time.Now()
	last := run.manifest.Created
	if run.checkpoint != nil {
		last = run.checkpoint.At
	}
	r.Down = max(0, now.Sub(time.Unix(0, last)))
	data := map[string]float64{"down_seconds": r.Down.Seconds()}
	if cut > 0 {
		data["cut_bytes"] = float64(cut)
	}
	err = w.Event(assay.Event{At: now.UnixNano(), Kind: assay.EventResumed, Data: data,
		Text: fmt.Sprintf("resumed with %d requests on record", r.Requests)})
	return r, err
}

func (r *Resumed) read(run *Run) error {
	stage := map[string]int{}
	for e, err := range run.Events() {
		if err != nil {
			return err
		}
		i, known := stage[e.Stage]
		if e.Kind == assay.EventStageStarted && e.Plan != nil {
			if !known {
				i = len(r.Stages)
				stage[e.Stage] = i
				r.Stages = append(r.Stages, Progress{})
			}
			// A stage that is started again begins anew, but for what it ran.
			r.Stages[i] = Progress{Plan: *e.Plan, Started: e.At, Ran: r.Stages[i].Ran}
			continue
		}
		if e.Kind == assay.EventResumed {
			for i := range r.Stages {
				if p := &r.Stages[i]; p.Ended == 0 && p.Started > 0 {
					p.Ran += max(0, e.At-int64(e.Data["down_seconds"]*1e9)-p.Started)
					p.Started = 0
				}
			}
			continue
		}
		if !known {
			continue
		}
		switch p := &r.Stages[i]; e.Kind {
		case assay.EventStageSteady:
			p.Steady = e.At
		case assay.EventStageLoadEnd:
			p.LoadEnd = e.At
		case assay.EventStageEnded:
			p.Ended = e.At
		}
	}
	for q, err := range run.Requests() {
		if err != nil {
			return err
		}
		r.Requests++
		r.recorded[fingerprint(q.ID)] = struct{}{}
		if q.Prompt >= 0 {
			r.next = max(r.next, q.Prompt+1)
		}
		if i, ok := stage[q.Stage]; ok {
			r.Stages[i].Requests++
			switch {
			case q.Warmup:
				r.Stages[i].Warmups++
			case q.Error == assay.FailCancelled:
				r.Stages[i].Cancelled++
			}
		}
	}
	return nil
}
