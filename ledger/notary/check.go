package notary

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transparency-dev/tessera"

	"github.com/assay-bench/assay/internal/parallel"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/tlog"
)

// fate is what becomes of a record.
type fate uint8

const (
	undecided     fate = iota
	passedOver         // an event: for people, not for the log
	inLogAlready       // read again after a start
	duplicate          // the same bytes were logged from another place
	refusedRecord      // on record with its reason
	toBeLogged
)

// checked is a record with its fate.
type checked struct {
	partition int32
	offset    int64
	fate      fate
	refusal   refusal
	mark      tlog.Mark
	aboutKey  bool           // a key statement or a revocation
	entry     *tessera.Entry // hashed already, so that appending is quick
}

// parsed is a record between reading and checking.
type parsed struct {
	envelope  ledger.Envelope
	statement ledger.Statement // of a run only its types, where it was read in one pass
	stamp     ledger.Stamp
}

// check decides about records on all cores and keeps their order. A statement
// about a key takes effect between the record before it and the one after it: a
// node's key comes just before its first run.
func (n *Notary) check(ctx context.Context, in []Incoming) []checked {
	out := make([]checked, len(in))
	ps := make([]parsed, len(in))
	for i := range in {
		out[i] = n.meet(&in[i])
	}
	now := n.o.Now()
	parallel.Do(ctx, len(in), func(i int) { n.read(&in[i], &ps[i], &out[i], now) })
	n.looks.passed(in)
	from := 0
	for i := range out {
		if out[i].aboutKey && out[i].fate == undecided {
			n.settle(ctx, in[from:i], ps[from:i], out[from:i])
			n.settle(ctx, in[i:i+1], ps[i:i+1], out[i:i+1])
			from = i + 1
		}
	}
	n.settle(ctx, in[from:], ps[from:], out[from:])
	return out
}

// settle judges signatures on all cores, and then ids in the records' order.
func (n *Notary) settle(ctx context.Context, in []Incoming, ps []parsed, out []checked) {
	parallel.Do(ctx, len(in), func(i int) { n.judge(&in[i], &ps[i], &out[i]) })
	for i := range out {
		if out[i].fate == toBeLogged {
			n.claim(&in[i], &out[i])
		}
	}
}

// meet begins with a record. What was dealt with before is done: before this
// start, or in it, where the feed gives a record twice.
func (n *Notary) meet(in *Incoming) checked {
	c := checked{partition: in.Partition, offset: in.Offset}
	if n.known(in.Partition, in.Offset) || in.Offset < n.next[in.Partition] {
		c.fate = inLogAlready
		return c
	}
	n.next[in.Partition] = in.Offset + 1
	return c
}

// rewind forgets what was met and not appended: it is read again.
func (n *Notary) rewind() {
	n.next = map[int32]int64{}
	n.ids.restart()
}

// read does everything that needs no key.
func (n *Notary) read(in *Incoming, p *parsed, c *checked, now time.Time) {
	if c.fate != undecided {
		return
	}
	if reason, err := n.parse(in, p, c, now); err != nil {
		c.refuse(in, reason, err)
	}
}

func (n *Notary) parse(in *Incoming, p *parsed, c *checked, now time.Time) (Reason, error) {
	if in.Err != nil {
		return ReasonRecord, in.Err
	}
	if err := in.Record.Check(); err != nil {
		return ReasonRecord, err
	}
	if in.Record.Kind == ledger.KindEvent {
		c.fate = passedOver
		return "", nil
	}
	if in.Time.UnixMilli() <= 0 {
		return ReasonTime, errors.New("the broker gave it no time; the topic needs message.timestamp.type=LogAppendTime")
	}
	if err := n.clocks(in, now); err != nil {
		return ReasonClock, err
	}
	var err error
	if p.envelope, err = ledger.ReadEnvelope(in.Record.Value); err != nil {
		return ReasonEnvelope, err
	}
	kind, stamp, quick := quickStatement(p.envelope.Payload)
	if quick {
		p.statement, p.stamp = ledger.Statement{Type: ledger.StatementType, PredicateType: kind}, stamp
	} else if p.statement, p.stamp, err = ledger.ParseStatement(p.envelope.Payload); err != nil {
		return ReasonStatement, err
	}
	if p.stamp.ID != in.Record.ID {
		return ReasonID, fmt.Errorf("its header says %s, its statement %s: an old statement sent under a new id", in.Record.ID, p.stamp.ID)
	}
	if p.stamp.Node != in.Record.Node {
		return ReasonNode, fmt.Errorf("its key is the node %.80q, its statement is of %.80q", in.Record.Node, p.stamp.Node)
	}
	if !quick {
		if err := shape(p.statement); err != nil {
			return ReasonSchema, err
		}
	}
	c.aboutKey = p.statement.AboutKey()
	return "", nil
}

// judge asks whether the signature counts, and makes the entry.
func (n *Notary) judge(in *Incoming, p *parsed, c *checked) {
	if c.fate != undecided {
		return
	}
	at := entryTime(in)
	if _, err := n.o.Keys.Check(p.envelope, p.statement, p.stamp, at); err != nil {
		c.refuse(in, reasonOf(err), err)
		return
	}
	e := ledger.Entry{Position: in.Position, Time: at, ID: in.Record.ID, Envelope: in.Record.Value}
	c.entry, c.fate = tessera.NewEntry(e.Encode()), toBeLogged
	c.mark = tlog.MarkOf(in.Record.ID, in.Record.Value)
}

// entryTime has whole milliseconds: whoever checks the entry later has no more.
func entryTime(in *Incoming) time.Time { return time.UnixMilli(in.Time.UnixMilli()).UTC() }

// claim takes the statement's id for it, and gives a statement about a key to the
// keyring: only what will be in the log may count.
func (n *Notary) claim(in *Incoming, c *checked) {
	switch n.ids.claim(c.mark) {
	case sameBytes:
		c.fate = duplicate
		return
	case otherBytes:
		c.refuse(in, ReasonIDUsed, fmt.Errorf("its key has signed another statement with the id %s before: a statement that is changed needs a new id", c.mark.ID))
		return
	}
	if !c.aboutKey {
		return
	}
	if err := n.o.Keys.Add(in.Record.Value, entryTime(in)); err != nil {
		n.ids.unclaim(c.mark.Name)
		c.refuse(in, ReasonKeyring, err)
	}
}

func (c *checked) refuse(in *Incoming, r Reason, why error) {
	c.fate, c.refusal = refusedRecord, newRefusal(*in, r, why)
}

func reasonOf(err error) Reason {
	for _, r := range []struct {
		err    error
		reason Reason
	}{
		{ledger.ErrSignature, ReasonSignature},
		{ledger.ErrUnknownKey, ReasonKey},
		{ledger.ErrKeyNotYetValid, ReasonEarly},
		{ledger.ErrKeyExpired, ReasonExpired},
		{ledger.ErrKeyRevoked, ReasonRevoked},
		{ledger.ErrOtherNode, ReasonOtherNode},
		{ledger.ErrRole, ReasonRole},
	} {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return ReasonEnvelope
}
