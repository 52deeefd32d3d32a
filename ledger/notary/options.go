package notary

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-bench/assay/ledger"
)

// Range is what a partition holds: offsets from Start up to, without, End.
type Range struct{ Start, End int64 }

// Incoming is one record as the broker gave it.
type Incoming struct {
	ledger.Position
	Time   time.Time // when the broker appended it, by its word
	Record ledger.Record
	Err    error // not one of ours: why. Record is then as far as it could be read
}

// Feed is where records come from: the partitions of one topic.
type Feed interface {
	// Partitions says what there is to read.
	Partitions(ctx context.Context) (map[int32]Range, error)
	// Read gives records from these offsets on, those of a partition in order and
	// from one goroutine, until deliver or ctx says stop, or nothing will come any
	// more (nil). What it delivers belongs to the notary. An offset that is not
	// there any more is ErrDeleted or ErrTruncated, never a jump.
	Read(ctx context.Context, from map[int32]int64, deliver func([]Incoming) error) error
}

// Options say what a notary works on. Dir, Keys and Signer must be given.
type Options struct {
	// Dir holds the log and what is kept beside it; made when it is missing.
	Dir string
	// Topic is ledger.Topic unless told otherwise.
	Topic string
	// Partitions are those to be read; nil: all.
	Partitions []int32
	// Keys are the trusted ones. Key statements that are logged are added to them,
	// and are added again from the log on start.
	Keys *ledger.Keyring
	// Signer signs checkpoints; its name is the log's origin.
	Signer note.Signer
	// Policy is a text as docs/formats/log.md has it: whose cosignatures a
	// checkpoint needs before it is published. Empty: nobody's.
	Policy []byte
	// WitnessTimeout bounds one round of asking witnesses; 5 s when zero.
	WitnessTimeout time.Duration

	// BatchSize is the number of entries that are written at once; 1024 when zero.
	BatchSize int
	// BatchAge is how long a record waits for others; 100 ms when zero.
	BatchAge time.Duration
	// CheckpointInterval is the time between checkpoints of a growing log; 5 s when
	// zero, and at least 100 ms.
	CheckpointInterval time.Duration
	// SaveInterval is the time between two writings of positions.json; 1 s when
	// zero. What was logged since is read back after a crash.
	SaveInterval time.Duration
	// LookInterval is the time between two looks at how far the topic is; 5 s when
	// zero.
	LookInterval time.Duration
	// Window is how many of the last entries are searched for a record's id before
	// it is logged; 1<<20 when zero.
	Window int

	// MaxClockDifference is how far the broker's time of a record may lie after the
	// notary's own clock, or before a time at which the record was not there yet.
	// 10 minutes when zero.
	MaxClockDifference time.Duration
	// RefusedBytes is the size at which refused.jsonl is put aside and a new one is
	// begun; 16 MiB when zero. MaxRefused such files are kept.
	RefusedBytes int64

	// Now tells the time: for ages in metrics, and to compare the broker's with;
	// time.Now when nil.
	Now func() time.Time
	// Log has what a person should know; nil: nobody is told.
	Log *slog.Logger
}

// Errors that stop a notary. Each is a different thing to do.
var (
	// ErrLocked: another notary works in this directory. Stop one of them.
	ErrLocked = errors.New("another notary works in this directory")
	// ErrTruncated: a partition ends before what was read of it. Records were taken
	// away, or the topic was made anew: give the topic back as it was, or begin a new
	// log under a new origin.
	ErrTruncated = errors.New("the topic ends before what was already read of it")
	// ErrDeleted: a partition begins after what was read of it. What lay between is
	// gone unread: look for it elsewhere, or begin a new log under a new origin.
	ErrDeleted = errors.New("records were deleted before they were read")
	// ErrRewritten: a record is not the one that was logged from its place. As above.
	ErrRewritten = errors.New("a record in the topic is not what was logged from its place")
	// ErrRolledBack: the log's state is older than the checkpoint beside it, as after
	// a restored backup. Going on would show witnesses a fork: see `assay ledger restore`.
	ErrRolledBack = errors.New("the log is behind its own checkpoint")
	// ErrOtherLog: the directory holds a log of another origin or of another shape.
	ErrOtherLog = errors.New("the directory holds another log")
	// ErrWrite: the log, or a file beside it, could not be written. Nothing is lost:
	// mend the disk and start again.
	ErrWrite = errors.New("could not write")
)

func (o *Options) fill() error {
	switch {
	case o.Dir == "":
		return errors.New("notary: no directory was given")
	case o.Keys == nil:
		return errors.New("notary: no trusted keys were given; every record would be refused")
	case o.Signer == nil:
		return errors.New("notary: no key to sign checkpoints with was given")
	}
	if o.Topic == "" {
		o.Topic = ledger.Topic
	}
	// The name is a word of each entry's head line.
	if len(o.Topic) > 249 || strings.Trim(o.Topic, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		return fmt.Errorf("notary: %.80q is no name of a topic", o.Topic)
	}
	def(&o.WitnessTimeout, 5*time.Second)
	def(&o.BatchSize, 1024)
	def(&o.BatchAge, 100*time.Millisecond)
	def(&o.CheckpointInterval, 5*time.Second)
	def(&o.SaveInterval, time.Second)
	def(&o.LookInterval, 5*time.Second)
	def(&o.Window, 1<<20)
	def(&o.MaxClockDifference, 10*time.Minute)
	def(&o.RefusedBytes, 16<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.BatchSize < 1 || o.Window < 1 || o.BatchAge < 0 || o.MaxClockDifference < 0 || o.RefusedBytes < 0 {
		return errors.New("notary: batch size, batch age, window, clock difference and size of refused.jsonl are positive")
	}
	return nil
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}
