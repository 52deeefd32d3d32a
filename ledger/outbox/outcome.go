package outbox

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay/ledger"
)

// State is what became of a record. The zero State says nothing, and a sink that
// answers with it has not answered.
type State uint8

// What a sink can do with a record. All three are final: the record leaves the
// outbox.
const (
	Taken     State = iota + 1 // it is kept at the other end
	Duplicate                  // the same bytes were there already
	Refused                    // the other end will never take it; Outcome.Reason says why
)

// Outcome is the answer for one record.
type Outcome struct {
	State  State
	Reason string // of a refused one: foreign text, cleaned where it is written down
}

// AllTaken is the answer of a sink that took n records.
func AllTaken(n int) []Outcome {
	out := make([]Outcome, n)
	for i := range out {
		out[i].State = Taken
	}
	return out
}

// Counts is how many records came to which end since the outbox was opened.
type Counts struct{ Taken, Duplicate, Refused uint64 }

// Counts are of this process: its own records and those that its Run took over.
func (o *Outbox) Counts() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts
}

// checkOutcomes makes an error of an answer that leaves a record's fate open:
// unknown is never taken.
func checkOutcomes(records []ledger.Record, outcomes []Outcome) error {
	if len(outcomes) != len(records) {
		return fmt.Errorf("the sink answered for %d of %d records: all of them are sent again", len(outcomes), len(records))
	}
	for i := range outcomes {
		if s := outcomes[i].State; s < Taken || s > Refused {
			return fmt.Errorf("the sink did not say what became of record %s: all are sent again", records[i].ID)
		}
	}
	return nil
}

// settleOutcomes writes down what was refused and counts the rest. It is called
// before the position moves: a crash in between refuses a record once more, which
// is better than refusing it without a word.
func (d *delivery) settleOutcomes(outcomes []Outcome) {
	var n Counts
	var refused []refusal
	for i := range outcomes {
		switch outcomes[i].State {
		case Taken:
			n.Taken++
		case Duplicate:
			n.Duplicate++
		case Refused:
			n.Refused++
			refused = append(refused, newRefusal(time.Now(), &d.parcel.records[i], outcomes[i].Reason))
		}
	}
	if len(refused) > 0 {
		d.keepRefused(refused)
	}
	d.o.mu.Lock()
	defer d.o.mu.Unlock()
	d.o.counts.Taken += n.Taken
	d.o.counts.Duplicate += n.Duplicate
	d.o.counts.Refused += n.Refused
}

// keepRefused logs what was refused, once for a delivery, and keeps copies. A copy
// that cannot be kept holds up nothing: the answer was given, and a full disk is
// only emptied by going on.
func (d *delivery) keepRefused(refused []refusal) {
	err := keepRefusals(d.o.dir, refused, d.o.o.RefusedBytes)
	first := refused[0]
	d.log.Warn("records were refused, and are not sent again; the copies say why",
		"records", len(refused), "first", first.ID, "reason", first.Reason, "dir", refusedIn(d.o.dir))
	if err == nil {
		return
	}
	for i, r := range refused {
		if i == maxRefusedLog {
			d.log.Error("more refused records have no copy", "records", len(refused)-i)
			break
		}
		d.log.Error("a refused record could not be copied, and is lost", "record", r.ID, "reason", r.Reason, "error", err)
	}
}
