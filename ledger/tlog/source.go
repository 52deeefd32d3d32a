package tlog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/transparency-dev/tessera/api/layout"
)

// Source is where a log is read from, by the names of C2SP's tlog-tiles. What it
// gives is bounded and otherwise unchecked.
//
// A partial of 0 means full. A source that no longer has a partial tile gives as
// much of the full one. What is not there is fs.ErrNotExist.
type Source interface {
	Checkpoint(ctx context.Context) ([]byte, error)
	Tile(ctx context.Context, level, index uint64, partial uint8) ([]byte, error)
	Entries(ctx context.Context, index uint64, partial uint8) ([]byte, error)
}

// hinter is a source that can say where an entry lies.
type hinter interface {
	// lookup gives the index of an entry, signed by a key if one is named;
	// errNotListed when it is not in an index of ids, if there is one; errNoHint
	// when there is none.
	lookup(ctx context.Context, id ulid.ULID, keyID string) (uint64, error)
}

// Limits of what a source may give.
const (
	tileWidth     = layout.TileWidth
	hashSize      = 32
	maxCheckpoint = 64 << 10
	maxEntry      = 1<<16 - 1
	maxBundle     = tileWidth * (2 + maxEntry)
)

// Errors of a source.
var (
	// ErrNotFound: no entry with this id is in the log as it is now. It may come
	// with a later checkpoint.
	ErrNotFound = errors.New("not in the log")
	// ErrAnswer: the log gave bytes that cannot be what was asked for.
	ErrAnswer = errors.New("the log gave an answer that cannot be right")

	errNoHint    = errors.New("no index of ids")
	errNotListed = errors.New("not in the index of ids")
)

// OpenOptions say how a log is read. The zero value is good.
type OpenOptions struct {
	Timeout   time.Duration     // of one request over HTTP; 0: 30 seconds
	Transport http.RoundTripper // nil: the standard one
}

// Log is a source that was opened by name.
type Log interface {
	Source
	Close() error
}

// Open opens a log: a directory (the log's own, or the notary's, which has it in
// log/), or an http or https URL.
func Open(where string, o OpenOptions) (Log, error) {
	if strings.HasPrefix(where, "http://") || strings.HasPrefix(where, "https://") {
		return openHTTP(where, o)
	}
	if i := strings.Index(where, "://"); i > 0 {
		return nil, fmt.Errorf("open log %s: only directories, http:// and https:// can be read", where)
	}
	return openDir(where)
}

// nameOf is a source's name for a person.
func nameOf(s Source) string {
	if n, ok := s.(fmt.Stringer); ok {
		return n.String()
	}
	return "the log"
}

// cutTile takes a tile's first n hashes.
func cutTile(b []byte, n int) ([]byte, error) {
	if len(b)%hashSize != 0 || len(b) < n*hashSize {
		return nil, fmt.Errorf("%w: a tile of %d bytes where %d hashes of %d bytes were due", ErrAnswer, len(b), n, hashSize)
	}
	return b[:n*hashSize], nil
}

// width is how many entries or hashes a tile with this partial has.
func width(partial uint8) int {
	if partial == 0 {
		return tileWidth
	}
	return int(partial)
}
