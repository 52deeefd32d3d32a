// Package outbox keeps a node's records on its disk until somebody else has
// them.
//
// What it promises: a record that Add accepted was fsynced first, and is
// delivered at least once, in the order of the Adds, whatever kills the process
// and whenever. It is removed when the sink has acknowledged it, and not before.
// The disk that all of it takes is bounded.
//
// A record that the sink refuses for good has been delivered: waiting would not
// make it better, and what is behind it must not wait for it. It is kept, with the
// sink's reason, in refused/, of which the oldest half goes when it is full: what a
// person has not looked at by then is gone, and how many there were is counted.
//
// What it refuses: to drop anything. When there is no room, Add and Reserve say
// so with ErrFull and how much waits; when a byte on the disk was altered, the
// records that are still whole are delivered, the damage is said with its file
// and offset, and the file is kept for a person to look at. It does not order by
// clocks: the ids of records are the caller's, and are only carried.
//
// An Add that failed promises nothing: the record may still be delivered, if it
// reached the disk before the error did.
//
// # Several processes
//
// Each process that opens the directory has a sub-directory of its own with a
// lock, which the kernel takes back when the process ends, however it ends. Run
// also takes over the sub-directories whose process is dead, oldest first and
// before its own, delivers them and removes them. The names are ULIDs, each made
// later than those that are there, so that a clock that steps back does not turn
// the order around. Limits hold over all of them: each process holds a claim to a
// part of Options.MaxBytes, and more is claimed under the lock of the directory.
//
// # On the disk
//
// The format is private to this package; the magic word of a segment has its
// version. All numbers are little endian, all checksums CRC-32C.
//
//	DIR/lock               locked for a moment by who looks at all sub-directories
//	DIR/damaged/           segments that had altered bytes, for a person
//	DIR/refused/new.jsonl  what the sink refused, a line each, for a person
//	DIR/refused/old.jsonl  the same, older; both have at most half of Options.RefusedBytes
//	DIR/ULID/lock          locked by the process whose sub-directory it is
//	DIR/ULID/room          its size is the claim; it holds no bytes
//	DIR/ULID/acked         segment (4), offset (8) up to where all was acknowledged, checksum (4)
//	DIR/ULID/00000001.seg  segments, each a header and frames
//
// A segment's header is written twice, so that one flipped byte in it loses
// nothing: magic (8), the segment's number (4), number (4) and accepted length (8)
// of the segment before it, salt (4), checksum (4). A segment therefore tells
// where the one before it ends: what lies behind that was never accepted, and what
// is missing before it was lost.
//
// A frame is the length of its payload (4), the payload's checksum (4), the
// checksum of these eight bytes (4), and the payload: id (16), kind (1), length of
// the node's name (1), the name, the value. Checksums start from the salt, which
// is random: a value that looks like frames is never taken for some, even where
// the reader must look for the next whole frame behind a damage.
//
// Bytes that end within a frame, or zeros, at the end of the last segment were
// being written when the process or the machine died: nobody was told that they
// were accepted, and they are dropped with a word. Anything else that does not
// check is damage, and so is a whole frame at the end whose payload does not: it
// may be a write that a power cut tore, and it may not, and nobody can tell.
//
// A line of refused/ is a JSON object: at (RFC 3339, when it was refused), id, kind,
// node, reason, and value, the record's bytes in base64. It is on the disk before
// the record leaves its segment, so that a process that dies in between leaves it
// twice. Where it cannot be written, such as on a full disk, id and reason are
// logged and delivery goes on: only that makes room again.
//
// A failed write or fsync ends a segment: the kernel may have dropped the pages
// and would call the next fsync of the file a success. The Adds that waited for it
// fail, rather than being tried again elsewhere: the caller knows whether the
// record is worth waiting for, and a disk that refuses once seldom means it once.
// The next Add starts a new segment, so that space that was freed is used at once.
package outbox
