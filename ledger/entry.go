package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// entryMagic opens each entry of the log.
const entryMagic = "assay/entry/v1"

// Position is where a record lies in Kafka. It is a part of the log's entry: a
// notary that starts reads the end of its log, and knows where it was.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Entry is one leaf of the log: a head line, and the envelope's bytes as they
// came.
type Entry struct {
	Position
	Time     time.Time // when the broker appended the record, by its word; milliseconds
	ID       ulid.ULID
	Envelope []byte
}

// ErrEntry marks bytes that are no entry of ours.
var ErrEntry = errors.New("not an entry of this kind of log")

// Head is the entry without its envelope: what a receipt carries as extra data,
// as the envelope lies beside it.
func (e Entry) Head() []byte {
	return fmt.Appendf(nil, "%s %s %d %d %d %s\n", entryMagic, e.Topic, e.Partition, e.Offset, e.Time.UnixMilli(), e.ID)
}

// Encode is the leaf's bytes.
func (e Entry) Encode() []byte { return append(e.Head(), e.Envelope...) }

// ParseEntry reads a leaf. It takes the one spelling that Encode writes.
func ParseEntry(b []byte) (Entry, error) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 || i > 600 {
		return Entry{}, fmt.Errorf("%w: no head line", ErrEntry)
	}
	e, err := parseHead(b[:i+1])
	if err != nil {
		return Entry{}, err
	}
	e.Envelope = b[i+1:]
	return e, nil
}

func parseHead(line []byte) (Entry, error) {
	f := strings.Split(strings.TrimSuffix(string(line), "\n"), " ")
	if len(f) != 6 || f[0] != entryMagic {
		return Entry{}, fmt.Errorf("%w: it begins %.40q", ErrEntry, line)
	}
	partition, err1 := strconv.ParseInt(f[2], 10, 32)
	offset, err2 := strconv.ParseInt(f[3], 10, 64)
	ms, err3 := strconv.ParseInt(f[4], 10, 64)
	id, err4 := ulid.ParseStrict(f[5])
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	e := Entry{Position: Position{f[1], int32(partition), offset}, Time: time.UnixMilli(ms).UTC(), ID: id}
	if !bytes.Equal(e.Head(), line) {
		return Entry{}, fmt.Errorf("%w: its head has another spelling than ours", ErrEntry)
	}
	return e, nil
}
