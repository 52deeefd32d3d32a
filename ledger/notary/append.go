package notary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/transparency-dev/tessera"

	"github.com/assay-bench/assay/ledger/tlog"
)

// appendAll logs what comes until the channel is closed or work ends. One batch
// is under way at a time: checking the next ones goes on meanwhile, the log's
// writer has nothing to gain from more, and a batch that fails has none behind it.
func (n *Notary) appendAll(work context.Context, out <-chan []checked) error {
	var waiting []checked
	save := time.NewTicker(n.o.SaveInterval)
	defer save.Stop()
	for open := true; open; {
		var due bool
		var err error
		if waiting, due, open, err = n.gather(work, out, waiting, save.C); err != nil {
			return err
		}
		for len(waiting) > 0 && (due || !open || n.full(waiting)) {
			if work.Err() != nil {
				return nil // what waits was not begun, and is read again
			}
			k := batchOf(waiting, n.o.BatchSize)
			if err := n.append(waiting[:k]); err != nil {
				return err
			}
			waiting = waiting[k:]
		}
		if work.Err() != nil {
			return nil
		}
	}
	return nil
}

// gather waits for records: for the first as long as it takes, and then for a
// full batch as long as BatchAge; then it is due.
func (n *Notary) gather(work context.Context, out <-chan []checked, waiting []checked, save <-chan time.Time) (_ []checked, due, open bool, err error) {
	var late <-chan time.Time
	for !n.full(waiting) {
		if len(waiting) > 0 && late == nil {
			t := time.NewTimer(n.o.BatchAge)
			defer t.Stop()
			late = t.C
		}
		select {
		case c, ok := <-out:
			if !ok {
				return waiting, true, false, nil
			}
			waiting = append(waiting, c...)
		case <-late:
			return waiting, true, true, nil
		case <-save:
			if err := n.save(); err != nil {
				return nil, false, true, err
			}
		case <-work.Done():
			return waiting, true, true, nil
		}
	}
	select { // a stream without a pause saves too
	case <-save:
		err = n.save()
	default:
	}
	return waiting, false, true, err
}

// full reports whether the records make a batch, or are many that do not.
func (n *Notary) full(cs []checked) bool {
	return batchOf(cs, n.o.BatchSize-1) < len(cs) || len(cs) >= 8*n.o.BatchSize
}

// batchOf says how many of the records have together at most size entries.
func batchOf(cs []checked, size int) int {
	entries := 0
	for i, c := range cs {
		if c.fate == toBeLogged {
			if entries++; entries > size {
				return i
			}
		}
	}
	return len(cs)
}

// append logs one batch and waits until it is durable.
func (n *Notary) append(batch []checked) error {
	var add []*checked
	var events, again, doubles uint64
	for i := range batch {
		c := &batch[i]
		switch c.fate {
		case passedOver:
			events++
		case inLogAlready:
			again++
		case refusedRecord:
			n.refused.add(c.refusal)
			if k := n.m.refuse(c.refusal.Reason, n.o.Now()); powerOfTen(k) {
				n.o.Log.Warn("a record was refused", "partition", c.partition, "offset", c.offset, "reason", c.refusal.Reason, "so_far", k, "why", c.refusal.Why)
			}
		case duplicate:
			doubles++
		case toBeLogged:
			add = append(add, c)
		}
		if len(n.start.old) > 0 && c.offset+1 >= n.start.old[c.partition] {
			if delete(n.start.old, c.partition); len(n.start.old) == 0 {
				n.ids.recentOnly()
			}
		}
	}
	if err := n.refused.flush(); err != nil {
		return err
	}
	if err := n.addAll(add); err != nil {
		return err
	}
	for i := range batch {
		p, next := batch[i].partition, batch[i].offset+1
		if next > n.handled[p] {
			n.handled[p] = next
		}
	}
	n.m.done(n.size, events, again, doubles, n.handled, n.o.Now())
	return nil
}

// addAll appends entries and waits for all of them. The first that fails is the
// error; what is in the log then, only the log can say.
func (n *Notary) addAll(add []*checked) error {
	if len(add) == 0 {
		return nil
	}
	futures := make([]tessera.IndexFuture, len(add))
	for i, c := range add {
		futures[i] = n.appender.Add(context.Background(), c.entry)
	}
	batch := make([]tlog.Mark, len(add))
	placed := make([]bool, len(add))
	ordered := true
	var failed error
	for i, future := range futures {
		at, err := future()
		if err != nil {
			if failed == nil {
				failed = fmt.Errorf("%w: log entry of %d/%d: %w", ErrWrite, add[i].partition, add[i].offset, err)
			}
			continue // each is waited for: none may be under way when we return
		}
		k := at.Index - n.size
		if failed == nil && (at.Index < n.size || k >= uint64(len(add)) || placed[k]) {
			failed = fmt.Errorf("%w: the log grew from %d by entry %d, and nobody but this notary may write to it", ErrOtherLog, n.size, at.Index)
		}
		if failed != nil {
			continue
		}
		batch[k], placed[k] = add[i].mark, true
		ordered = ordered && k == uint64(i)
		if k == uint64(len(add))-1 {
			n.leaf = add[i].entry.LeafHash()
		}
		if keep, ok := n.last[add[i].partition]; !ok || at.Index > keep {
			n.last[add[i].partition] = at.Index
		}
		if add[i].aboutKey {
			n.keys = append(n.keys, at.Index)
		}
	}
	if failed != nil {
		return failed
	}
	if !ordered {
		n.o.Log.Warn("entries are not in their order in the topic; each is there once", "from", n.size, "to", n.size+uint64(len(add))-1)
	}
	if err := n.ids.add(batch); err != nil {
		return err
	}
	n.size += uint64(len(add))
	return nil
}

func powerOfTen(k uint64) bool {
	for k >= 10 && k%10 == 0 {
		k /= 10
	}
	return k == 1
}

// advise says what to do about a disk that does not take what it is given. Some
// of these errors come as words only.
func advise(dir string, err error) error {
	for _, a := range []struct {
		errno syscall.Errno
		words string
	}{
		{syscall.ENOSPC, "the disk is full: make room for " + dir},
		{syscall.EDQUOT, "the quota is used up: make room for " + dir},
		{syscall.EACCES, "this user may not write there: give it the rights to " + dir},
		{syscall.EROFS, "the file system is read-only: mount it writable for " + dir},
		{syscall.EIO, "the disk has an error: look at the kernel's log before you go on with " + dir},
	} {
		if errors.Is(err, a.errno) || strings.Contains(err.Error(), a.errno.Error()) {
			return fmt.Errorf("%w. %s and start again; what is not in the log is still in Kafka", err, a.words)
		}
	}
	return err
}
