// Package journal is the run directory: what a measurement writes, and what
// everything else reads.
//
// It promises that a run which dies at any byte can be read: files are only
// appended to, whole lines at a time, or replaced by renaming; the reader drops
// a torn last line and says so; a run that was interrupted can be resumed, and no
// request is then recorded twice. At most one second is lost to a kill. Memory
// does not grow with the run's length, neither for the writer nor for the
// reader, and recording a request takes no allocation and no system call.
//
// It refuses to guess: a broken line in the middle of a file is an error with
// its file and line, never skipped. It stores summaries and computes none.
//
// docs/formats/run.md specifies the bytes.
package journal

import (
	"errors"
	"fmt"
)

// The files of a run directory.
const (
	RunFile        = "run.json"
	RequestsFile   = "requests.jsonl"
	TelemetryFile  = "telemetry.jsonl"
	ChecksFile     = "checks.jsonl"
	EventsFile     = "events.jsonl"
	CheckpointFile = "checkpoint.json"
	SummaryFile    = "summary.json"
	HealthFile     = "health.json"
)

// appended are the files that grow, in the order of the specification.
var appended = [...]string{RequestsFile, TelemetryFile, ChecksFile, EventsFile}

// MaxLine is the longest line, in bytes without its newline, that is written or
// read.
const MaxLine = 16 << 20

var (
	// ErrNotEmpty is returned by Create for a directory that holds something.
	// Choose another directory, or resume the run that is in it.
	ErrNotEmpty = errors.New("the directory is not empty; choose another, or resume the run that is in it")
	// ErrInUse is returned by Resume while another process writes the run. Wait
	// for that process, or end it.
	ErrInUse = errors.New("another process is writing this run")
	// ErrComplete is returned by Resume for a run that has nothing left to do.
	ErrComplete = errors.New("the run is complete")
	// ErrRecorded is returned by a resumed Writer for a request whose id was
	// recorded before the run was interrupted. Nothing is written: go on with the
	// next request.
	ErrRecorded = errors.New("a request of this id is recorded already")
	// ErrClosed is returned by a Writer that was closed.
	ErrClosed = errors.New("the run is closed")
	// ErrNone is returned by Checkpoint, Summary and Health of a Run that has none.
	ErrNone = errors.New("there is none")
)

// LineError is a line that is not of the format, in the middle of a file: the
// file was altered or damaged. It is not a torn last line.
type LineError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s line %d: %v", e.File, e.Line, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }
