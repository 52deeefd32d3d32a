package notary

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/transparency-dev/tessera"

	"github.com/assay-bench/assay/internal/parallel"
	"github.com/assay-bench/assay/ledger"
)

// fate is what becomes of a record.
type fate uint8

const (
	undecided     fate = iota
	passedOver         // an event: for people, not for the log
	inLogAlready       // read again after a start
	refusedRecord      // on record with its reason
	toBeLogged
)

// checked is a record with its fate.
type checked struct {
	partition int32
	offset    int64
	fate      fate
	refusal   refusal
	id        ulid.ULID
	aboutKey  bool           // a key statement or a revocation
	entry     *tessera.Entry // hashed already, so that appending is quick
}

// parsed is a record between reading and checking.
type parsed struct {
	envelope  ledger.Envelope
	statement ledger.Statement
	stamp     ledger.Stamp
}

// check decides about records on all cores and keeps their order. A statement
// about a key takes effect between the record before it and the one after it: a
// node's key comes just before its first run.
func (n *Notary) check(ctx context.Context, in []Incoming) []checked {
	out := make([]checked, len(in))
	ps := make([]parsed, len(in))
	parallel.Do(ctx, len(in), func(i int) { out[i] = n.read(&in[i], &ps[i]) })
	from := 0
	for i := range out {
		if out[i].aboutKey && out[i].fate == undecided {
			n.judge(ctx, in, ps, out, from, i)
			n.judgeOne(&in[i], &ps[i], &out[i])
			from = i + 1
		}
	}
	n.judge(ctx, in, ps, out, from, len(out))
	return out
}

func (n *Notary) judge(ctx context.Context, in []Incoming, ps []parsed, out []checked, from, to int) {
	parallel.Do(ctx, to-from, func(i int) { n.judgeOne(&in[from+i], &ps[from+i], &out[from+i]) })
}

// read does everything that needs no key.
func (n *Notary) read(in *Incoming, p *parsed) checked {
	c := checked{partition: in.Partition, offset: in.Offset, id: in.Record.ID}
	refuse := func(r Reason, why error) checked {
		c.fate, c.refusal = refusedRecord, newRefusal(*in, r, why)
		return c
	}
	if n.known(in.Partition, in.Offset) {
		c.fate = inLogAlready
		return c
	}
	if in.Err != nil {
		return refuse(ReasonRecord, in.Err)
	}
	if err := in.Record.Check(); err != nil {
		return refuse(ReasonRecord, err)
	}
	if in.Record.Kind == ledger.KindEvent {
		c.fate = passedOver
		return c
	}
	if in.Time.UnixMilli() <= 0 {
		return refuse(ReasonTime, errors.New("the broker gave it no time; the topic needs message.timestamp.type=LogAppendTime"))
	}
	var err error
	if p.envelope, err = ledger.ReadEnvelope(in.Record.Value); err != nil {
		return refuse(ReasonEnvelope, err)
	}
	if p.statement, p.stamp, err = ledger.ParseStatement(p.envelope.Payload); err != nil {
		return refuse(ReasonStatement, err)
	}
	if p.stamp.ID != in.Record.ID {
		return refuse(ReasonID, fmt.Errorf("its header says %s, its statement %s: an old statement sent under a new id", in.Record.ID, p.stamp.ID))
	}
	if p.stamp.Node != in.Record.Node {
		return refuse(ReasonNode, fmt.Errorf("its key is the node %.80q, its statement is of %.80q", in.Record.Node, p.stamp.Node))
	}
	if err := shape(p.statement); err != nil {
		return refuse(ReasonSchema, err)
	}
	c.aboutKey = p.statement.AboutKey()
	return c
}

// judgeOne asks whether the signature counts, and makes the entry.
func (n *Notary) judgeOne(in *Incoming, p *parsed, c *checked) {
	if c.fate != undecided {
		return
	}
	// The entry has whole milliseconds, and whoever checks it later has no more.
	at := time.UnixMilli(in.Time.UnixMilli()).UTC()
	_, err := n.o.Keys.Check(p.envelope, p.statement, p.stamp, at)
	reason := reasonOf(err)
	if err == nil && c.aboutKey {
		if err = n.o.Keys.AddLogged(in.Record.Value, at); err != nil {
			reason = ReasonKeyring
		}
	}
	if err != nil {
		c.fate, c.refusal = refusedRecord, newRefusal(*in, reason, err)
		return
	}
	e := ledger.Entry{Position: in.Position, Time: at, ID: c.id, Envelope: in.Record.Value}
	c.entry, c.fate = tessera.NewEntry(e.Encode()), toBeLogged
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
