package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/ledger"
)

const (
	magic       = "asoutbx1" // the last byte is the format's version
	copyBytes   = 32         // one copy of a segment's header
	headerBytes = 2 * copyBytes
	frameBytes  = 12 // what precedes a payload
	fixedBytes  = 18 // id, kind, length of the node's name
	minPayload  = fixedBytes + 1
	maxPayload  = fixedBytes + ledger.MaxNode + ledger.MaxValue
	ackBytes    = 16
)

// castagnoli never changes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Size is how many bytes the records take in the outbox: what Reserve wants to
// know.
func Size(records ...ledger.Record) int64 {
	var n int64
	for i := range records {
		n += frameSize(&records[i])
	}
	return n
}

func frameSize(r *ledger.Record) int64 {
	return int64(frameBytes + fixedBytes + len(r.Node) + len(r.Value))
}

// appendFrame writes a record that was checked.
func appendFrame(b []byte, salt uint32, r *ledger.Record) []byte {
	start := len(b)
	b = append(b, make([]byte, frameBytes)...)
	b = append(b, r.ID[:]...)
	kind := byte('v')
	if r.Kind == ledger.KindEnvelope {
		kind = 'e'
	}
	b = append(b, kind, byte(len(r.Node)))
	b = append(b, r.Node...)
	b = append(b, r.Value...)
	h, p := b[start:start+frameBytes], b[start+frameBytes:]
	binary.LittleEndian.PutUint32(h, uint32(len(p)))
	binary.LittleEndian.PutUint32(h[4:], crc32.Update(salt, castagnoli, p))
	binary.LittleEndian.PutUint32(h[8:], crc32.Update(salt, castagnoli, h[:8]))
	return b
}

// frameLength reads a frame's head: the payload's length, and false for bytes
// that are no head.
func frameLength(h []byte, salt uint32) (int64, bool) {
	n := binary.LittleEndian.Uint32(h)
	if n < minPayload || n > maxPayload {
		return 0, false
	}
	return int64(n), binary.LittleEndian.Uint32(h[8:]) == crc32.Update(salt, castagnoli, h[:8])
}

func payloadFits(h, p []byte, salt uint32) bool {
	return binary.LittleEndian.Uint32(h[4:]) == crc32.Update(salt, castagnoli, p)
}

// decoder makes records of payloads. Their values are slices of the payload, and
// a name that comes again is not allocated again.
type decoder struct{ node string }

var errPayload = errors.New("its checksum fits, and it is no record")

func (d *decoder) record(p []byte) (ledger.Record, error) {
	var r ledger.Record
	if len(p) < minPayload {
		return r, errPayload
	}
	copy(r.ID[:], p)
	switch p[16] {
	case 'e':
		r.Kind = ledger.KindEnvelope
	case 'v':
		r.Kind = ledger.KindEvent
	}
	end := fixedBytes + int(p[17])
	if end >= len(p) {
		return r, errPayload
	}
	if node := p[fixedBytes:end]; d.node != string(node) {
		d.node = string(node)
	}
	r.Node = d.node
	r.Value = p[end:len(p):len(p)]
	if err := r.Check(); err != nil {
		return r, fmt.Errorf("%w: %w", errPayload, err)
	}
	return r, nil
}

// header is what a segment says of itself and of the one before it.
type header struct {
	number     uint32
	prev       uint32 // 0: it is the first
	prevLength int64
	salt       uint32
}

func (h header) encode() []byte {
	b := make([]byte, 0, headerBytes)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, h.number)
	b = binary.LittleEndian.AppendUint32(b, h.prev)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.prevLength))
	b = binary.LittleEndian.AppendUint32(b, h.salt)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, b...)
}

var (
	errHeader  = errors.New("the segment's header is damaged in both of its copies")
	errVersion = errors.New("the segment is of another format version than this program knows")
)

// parseHeader reads the first copy that is whole; spare is false when the other
// one is not.
func parseHeader(b []byte, number uint32) (h header, spare bool, err error) {
	var good []header
	for at := 0; at+copyBytes <= len(b) && at < headerBytes; at += copyBytes {
		c := b[at : at+copyBytes]
		if crc32.Checksum(c[:28], castagnoli) != binary.LittleEndian.Uint32(c[28:]) {
			continue
		}
		if m := string(c[:8]); m != magic {
			if strings.HasPrefix(m, magic[:7]) {
				return header{}, false, fmt.Errorf("%w: %q", errVersion, m)
			}
			continue
		}
		h := header{
			number:     binary.LittleEndian.Uint32(c[8:]),
			prev:       binary.LittleEndian.Uint32(c[12:]),
			prevLength: int64(binary.LittleEndian.Uint64(c[16:])),
			salt:       binary.LittleEndian.Uint32(c[24:]),
		}
		if h.number == number && h.prev < number && h.prevLength >= 0 {
			good = append(good, h)
		}
	}
	if len(good) == 0 {
		return header{}, false, errHeader
	}
	return good[0], len(good) == 2, nil
}

// position is a place in a sub-directory. The zero position is its beginning.
type position struct {
	segment uint32
	offset  int64
}

func (p position) encode() []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, ackBytes), p.segment)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.offset))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parsePosition gives the beginning for what is no position: a lost one only
// means that records are sent again.
func parsePosition(b []byte) (position, bool) {
	if len(b) != ackBytes || crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return position{}, false
	}
	return position{binary.LittleEndian.Uint32(b), int64(binary.LittleEndian.Uint64(b[4:]))}, true
}

func segmentName(number uint32) string { return fmt.Sprintf("%08d.seg", number) }

func segmentNumber(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, ".seg")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && n > 0 && segmentName(uint32(n)) == name
}
