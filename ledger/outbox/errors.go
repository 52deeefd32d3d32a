package outbox

import (
	"errors"
	"fmt"
)

var (
	// ErrFull: there is no room. Nothing of the call was accepted. Let Run deliver
	// what waits, or raise Options.MaxBytes; start no new run until then.
	ErrFull = errors.New("the outbox is full")

	// ErrDamaged: bytes on the disk are not those that were written. What could be
	// read is delivered; see the file that the DamageError names.
	ErrDamaged = errors.New("records in the outbox are damaged")

	// ErrRefused: the sink said of records that it will never take them. They hold
	// up nothing; see the reasons beside their copies in refused/.
	ErrRefused = errors.New("records were refused")

	// ErrClosed: the outbox was closed before or during the call.
	ErrClosed = errors.New("the outbox is closed")

	// ErrRunning: another Run of this Outbox is under way.
	ErrRunning = errors.New("the outbox is being delivered already")
)

// DamageError says where bytes are not those that were written. It is an
// ErrDamaged.
type DamageError struct {
	File   string // where the segment lies
	Kept   string // where it will lie when the rest of it is delivered; empty: it is missing
	Offset int64  // of the first damaged place
	Places int    // how many there are in this segment
	Bytes  int64  // how many bytes they have together; the records in them are lost
	Why    string // of the first
}

func (e *DamageError) Error() string {
	s := fmt.Sprintf("%s: %s, offset %d: %s", ErrDamaged, e.File, e.Offset, e.Why)
	if e.Places > 1 {
		s += fmt.Sprintf(", and %d more places, %d bytes in total", e.Places-1, e.Bytes)
	} else if e.Bytes > 0 {
		s += fmt.Sprintf(", %d bytes", e.Bytes)
	}
	if e.Kept == "" {
		return s + "; the records in it cannot be delivered"
	}
	return s + "; what can be read of it is delivered, and the file is then kept as " + e.Kept + ": look at it, then delete it"
}

// Is makes every DamageError an ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

func (e *DamageError) add(g *gap) {
	if e.Places == 0 {
		e.Offset, e.Why = g.offset, g.why
	}
	e.Places++
	e.Bytes += g.length
}

// amount is a number of bytes for a person.
func amount(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
