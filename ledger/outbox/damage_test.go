package outbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay/ledger"
)

// left makes a directory in which a dead process left records, and gives its
// sub-directory's path.
func left(t testing.TB, o Options, calls ...[]ledger.Record) string {
	t.Helper()
	b := mustOpen(t, o)
	for _, rs := range calls {
		add(t, b, rs...)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return b.own.path
}

func copyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o700); err != nil {
		t.Fatal(err)
	}
}

// in gives the same sub-directory or file of a copy.
func in(copied, original, path string) string {
	rel, err := filepath.Rel(original, path)
	if err != nil {
		panic(err)
	}
	return filepath.Join(copied, rel)
}

func edit(t testing.TB, file string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every single byte of a segment, flipped: never silent, and at most the one
// record that has the byte is lost.
func TestEachByteFlipped(t *testing.T) {
	t.Parallel()
	o := testOptions(filepath.Join(t.TempDir(), "box"))
	rs := records(0, 4, 20)
	sub := left(t, o, rs[:2], rs[2:])
	seg := filepath.Join(sub, segmentName(1))
	whole, err := os.ReadFile(seg)
	if err != nil {
		t.Fatal(err)
	}
	owner := func(at int) int { // the record that a byte belongs to
		end := headerBytes
		if at < end {
			return -1
		}
		for i := range rs {
			if end += int(Size(rs[i])); at < end {
				return i
			}
		}
		panic(at)
	}
	for at := range whole {
		c := o
		c.Dir = filepath.Join(t.TempDir(), "copy")
		copyDir(t, o.Dir, c.Dir)
		file := in(c.Dir, o.Dir, seg)
		edit(t, file, func(b []byte) []byte { b[at] ^= 1 << (at % 8); return b })
		got, said, err := drain(t, c)
		var d *DamageError
		if !errors.As(err, &d) || !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d: %v, said %q", at, err, said)
		}
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, file) && strings.Contains(s, "offset ") }) {
			t.Errorf("byte %d: said %q", at, said)
		}
		want := ints(0, 4)
		if i := owner(at); i >= 0 {
			want = slices.Delete(want, i, i+1)
			if start := int64(headerBytes) + Size(rs[:i]...); d.Offset != start || d.Places != 1 || d.Bytes != Size(rs[i]) {
				t.Errorf("byte %d: damage at %d, %d bytes; record %d begins at %d", at, d.Offset, d.Bytes, i, start)
			}
		}
		if !slices.Equal(numbersOf(got), want) {
			t.Errorf("byte %d: got %v, want %v", at, numbersOf(got), want)
		}
		if kept, err := os.ReadFile(d.Kept); err != nil || len(kept) != len(whole) {
			t.Errorf("byte %d: the file was not kept: %v", at, err)
		}
		if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("byte %d: the sub-directory is still there", at)
		}
	}
}

// Every length that a torn write may leave: what was accepted before it comes, and
// nobody is alarmed.
func TestEachTornLength(t *testing.T) {
	t.Parallel()
	o := testOptions(filepath.Join(t.TempDir(), "box"))
	rs := records(0, 2, 10)
	sub := left(t, o, rs)
	seg := filepath.Join(sub, segmentName(1))
	size := int(headerBytes + Size(rs...))
	for cut := 0; cut < size; cut++ {
		for _, pad := range []int{0, 40} { // some file systems leave zeros
			c := o
			c.Dir = filepath.Join(t.TempDir(), "copy")
			copyDir(t, o.Dir, c.Dir)
			edit(t, in(c.Dir, o.Dir, seg), func(b []byte) []byte { return append(b[:cut:cut], make([]byte, pad)...) })
			var want []int
			clean := cut == headerBytes
			for i := range rs {
				end := int(headerBytes + Size(rs[:i+1]...))
				if cut >= end {
					want = append(want, i)
				}
				clean = clean || cut == end
			}
			got, said, err := drain(t, c)
			if !slices.Equal(numbersOf(got), want) {
				t.Errorf("cut at %d: got %v, want %v", cut, numbersOf(got), want)
			}
			if pad > 0 && !clean {
				continue // half a frame and zeros: said one way or the other
			}
			if err != nil || (len(said) == 0) != (clean && pad == 0) {
				t.Errorf("cut at %d, %d zeros: %v, said %q", cut, pad, err, said)
			}
		}
	}
}

func TestDamagedChains(t *testing.T) {
	o := testOptions(filepath.Join(t.TempDir(), "box"))
	o.SegmentBytes = 1 // 64 KiB: three of these records
	var calls [][]ledger.Record
	for i := range 9 {
		calls = append(calls, records(i, 1, 20_000))
	}
	sub := left(t, o, calls...)
	file := func(n int) string { return filepath.Join(sub, segmentName(uint32(n))) }
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, at func(int) string)
		want  []int
		says  string // empty: no damage
	}{
		{"whole", func(t *testing.T, at func(int) string) {}, ints(0, 9), ""},
		{"middle cut", func(t *testing.T, at func(int) string) { os.Truncate(at(2), 40_000) }, []int{0, 1, 2, 3, 6, 7, 8}, "00000002.seg, offset"},
		{"middle cut at a frame", func(t *testing.T, at func(int) string) { os.Truncate(at(2), headerBytes+Size(record(3, 20_000))) }, []int{0, 1, 2, 3, 6, 7, 8}, "shorter"},
		{"middle missing", func(t *testing.T, at func(int) string) { os.Remove(at(2)) }, []int{0, 1, 2, 6, 7, 8}, "00000002.seg, offset 0: the file is missing"},
		{"middle empty", func(t *testing.T, at func(int) string) { os.Truncate(at(2), 0) }, []int{0, 1, 2, 6, 7, 8}, "00000002.seg"},
		{"middle without a header", func(t *testing.T, at func(int) string) {
			edit(t, at(2), func(b []byte) []byte { b[3]++; b[40]++; return b })
		}, []int{0, 1, 2, 6, 7, 8}, "both of its copies"},
		{"segments swapped", func(t *testing.T, at func(int) string) {
			os.Rename(at(1), at(10))
			os.Rename(at(2), at(1))
			os.Rename(at(10), at(2))
		}, []int{6, 7, 8}, "00000001.seg"},
		{"more behind what was accepted", func(t *testing.T, at func(int) string) {
			edit(t, at(1), func(b []byte) []byte { return append(b, "not accepted"...) })
		}, ints(0, 9), ""},
		{"an attempt that came to nothing", func(t *testing.T, at func(int) string) {
			os.WriteFile(at(4), header{number: 4, prev: 3, prevLength: headerBytes + 3*Size(record(0, 20_000))}.encode()[:20], 0o600)
		}, ints(0, 9), ""},
		{"position lost", func(t *testing.T, at func(int) string) {
			os.WriteFile(filepath.Join(filepath.Dir(at(1)), ackedFile), []byte("?"), 0o600)
		}, ints(0, 9), ""},
		{"position in the middle", func(t *testing.T, at func(int) string) {
			p := position{2, headerBytes + Size(record(3, 20_000))}
			os.WriteFile(filepath.Join(filepath.Dir(at(1)), ackedFile), p.encode(), 0o600)
		}, ints(4, 5), ""},
		{"what was acknowledged is missing", func(t *testing.T, at func(int) string) {
			os.Remove(at(1))
			os.WriteFile(filepath.Join(filepath.Dir(at(1)), ackedFile), position{2, headerBytes}.encode(), 0o600)
		}, ints(3, 6), ""},
		{"more is missing than was acknowledged", func(t *testing.T, at func(int) string) {
			os.Remove(at(1))
			os.WriteFile(filepath.Join(filepath.Dir(at(1)), ackedFile), position{1, headerBytes}.encode(), 0o600)
		}, ints(3, 6), "00000001.seg, offset 0: the file is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := o
			c.Dir = filepath.Join(t.TempDir(), "copy")
			copyDir(t, o.Dir, c.Dir)
			tt.spoil(t, func(n int) string { return in(c.Dir, o.Dir, file(n)) })
			got, said, err := drain(t, c)
			if !slices.Equal(numbersOf(got), tt.want) {
				t.Errorf("got %v, want %v", numbersOf(got), tt.want)
			}
			if errors.Is(err, ErrDamaged) != (tt.says != "") || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("got %v, said %q", err, said)
			}
		})
	}
}

func TestOtherVersionIsLeftAlone(t *testing.T) {
	o := testOptions(t.TempDir())
	sub := left(t, o, records(0, 3, 20))
	seg := filepath.Join(sub, segmentName(1))
	edit(t, seg, func(b []byte) []byte {
		for _, at := range []int{0, copyBytes} {
			c := b[at : at+copyBytes]
			c[7] = '2'
			binary.LittleEndian.PutUint32(c[28:], crc32.Checksum(c[:28], castagnoli))
		}
		return b
	})
	got, said, err := drain(t, o)
	if len(got) > 0 || err != nil || len(said) != 1 || !strings.Contains(said[0], "version") {
		t.Errorf("got %v, %v, said %q", got, err, said)
	}
	if _, err := os.Stat(seg); err != nil {
		t.Error(err)
	}
}

// Our own file, altered while it waits to be read back.
func TestDamageWhileWaiting(t *testing.T) {
	o := testOptions(t.TempDir())
	o.MemoryBytes = -1
	b := mustOpen(t, o)
	rs := records(0, 5, 100)
	add(t, b, rs...)
	edit := filepath.Join(b.own.path, segmentName(1))
	f, err := os.OpenFile(edit, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte{255}, headerBytes+Size(rs[:2]...)+50)
	f.Close()
	var m memory
	var w words
	stop := start(t, b, &m, w.log())
	if err := flush(t, b); !errors.Is(err, ErrDamaged) {
		t.Errorf("flush: %v", err)
	}
	if err := stop(); !errors.Is(err, ErrDamaged) {
		t.Errorf("run: %v", err)
	}
	if got := m.numbers(); !slices.Equal(got, []int{0, 1, 3, 4}) {
		t.Errorf("got %v", got)
	}
	if n, bytes := b.Pending(); n != 0 || bytes != 0 {
		t.Errorf("%d records, %d bytes wait", n, bytes)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if kept, _ := filepath.Glob(filepath.Join(o.Dir, damageDir, "*")); len(kept) != 1 {
		t.Errorf("kept: %v", kept)
	}
}

// A write that failed half way ends its segment. What it left there is not taken
// for damage, and what comes next goes elsewhere.
func TestHalfAWrite(t *testing.T) {
	o := testOptions(t.TempDir())
	b := mustOpen(t, o)
	add(t, b, record(0, 100))
	seg := filepath.Join(b.own.path, segmentName(1))
	r := record(1, 100)
	edit(t, seg, func(c []byte) []byte { return append(c, appendFrame(nil, b.own.salt, &r)[:50]...) })
	readOnly, err := os.Open(seg) // neither writes nor cuts
	if err != nil {
		t.Fatal(err)
	}
	b.active.Close()
	b.active = readOnly
	if err := b.Add(context.Background(), r); err == nil || !strings.Contains(err.Error(), "not accepted") {
		t.Fatalf("got %v", err)
	}
	// An attempt at a segment that came to nothing, and was not removed.
	if err := os.WriteFile(filepath.Join(b.own.path, segmentName(2)), bytes.Repeat([]byte("junk"), 50), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(context.Background(), r); !errors.Is(err, os.ErrExist) {
		t.Fatalf("got %v", err)
	}
	add(t, b, record(2, 100))
	if n, _ := b.Pending(); n != 2 {
		t.Errorf("%d wait", n)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	got, said, err := drain(t, o)
	if !slices.Equal(numbersOf(got), []int{0, 2}) || err != nil || len(said) > 0 {
		t.Errorf("got %v, %v, said %q", numbersOf(got), err, said)
	}
}

// A value that looks like frames is never taken for some, even behind a damage.
func TestFramesWithinAValue(t *testing.T) {
	o := testOptions(t.TempDir())
	evil := record(0, 10)
	evil.Value = appendFrame(nil, 0, &ledger.Record{ID: id(666), Kind: ledger.KindEvent, Node: "n", Value: []byte("forged")})
	sub := left(t, o, []ledger.Record{evil, record(1, 10)})
	edit(t, filepath.Join(sub, segmentName(1)), func(b []byte) []byte { b[headerBytes]++; return b })
	got, _, err := drain(t, o)
	if !slices.Equal(numbersOf(got), []int{1}) || !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, %v", numbersOf(got), err)
	}
}

// FuzzSegment reads hostile bytes, also such that were given a frame that checks:
// frames and gaps together are all of the bytes, each once.
func FuzzSegment(f *testing.F) {
	r := record(1, 30)
	frame := appendFrame(nil, 7, &r)
	f.Add(frame, frame[frameBytes:], 0)
	f.Add(append(frame, make([]byte, 40)...), []byte{}, 3)
	f.Fuzz(func(t *testing.T, before, payload []byte, after int) {
		h := make([]byte, frameBytes)
		binary.LittleEndian.PutUint32(h, uint32(len(payload)))
		binary.LittleEndian.PutUint32(h[4:], crc32.Update(7, castagnoli, payload))
		binary.LittleEndian.PutUint32(h[8:], crc32.Update(7, castagnoli, h[:8]))
		b := slices.Concat(before, h, payload, make([]byte, after&63))
		sc := &scanner{r: bytes.NewReader(b), salt: 7, end: int64(len(b) + after&1)} // perhaps shorter than it should be
		var d decoder
		found := false
		for at := int64(0); ; {
			p, g, err := sc.next()
			if errors.Is(err, io.EOF) {
				if at != sc.end {
					t.Fatalf("it ends at %d of %d", at, sc.end)
				}
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if g != nil {
				if g.offset != at || g.length <= 0 {
					t.Fatalf("a gap at %d of %d bytes, at %d", g.offset, g.length, at)
				}
				at += g.length
			} else {
				found = found || bytes.Equal(p, payload)
				at += int64(len(p)) + frameBytes
				if r, err := d.record(p); err == nil && r.Check() != nil {
					t.Fatal(r)
				}
			}
			if at != sc.off {
				t.Fatalf("it is at %d, and should be at %d", sc.off, at)
			}
		}
		if len(before) == 0 && len(payload) >= minPayload && len(payload) <= maxPayload && !found {
			t.Fatal("a whole frame was not found")
		}
	})
}

// FuzzLeftovers takes over hostile files.
func FuzzLeftovers(f *testing.F) {
	h := header{number: 1, salt: 7}.encode()
	f.Add(h, []byte{})
	body := h
	for i := range 3 {
		r := record(i, 30)
		body = appendFrame(body, 7, &r)
	}
	f.Add(body, position{1, headerBytes}.encode())
	f.Add(body[:len(body)-5], []byte("x"))
	f.Add(append(body[:len(body):len(body)], make([]byte, 50)...), position{1, math.MaxInt64}.encode())
	f.Fuzz(func(t *testing.T, seg, acked []byte) {
		if len(seg) > 1<<16 {
			return
		}
		s := &spool{path: t.TempDir()}
		os.WriteFile(filepath.Join(s.path, segmentName(1)), seg, 0o600)
		os.WriteFile(filepath.Join(s.path, segmentName(2)), seg, 0o600)
		os.WriteFile(filepath.Join(s.path, ackedFile), acked, 0o600)
		defer s.release()
		if ok, err := s.open3(); !ok {
			t.Fatal(err)
		}
		if err := s.recover(slog.New(slog.DiscardHandler)); err != nil {
			if !errors.Is(err, errVersion) {
				t.Fatal(err)
			}
			return
		}
		want := s.records
		var p parcel
		var got int
		for len(s.chunks) > 0 {
			if err := s.next(s.chunks, 2, 100, &p); err != nil {
				t.Fatal(err)
			}
			got += len(p.records)
			for _, r := range p.records {
				if err := r.Check(); err != nil {
					t.Fatal(err)
				}
			}
			before := s.records
			if s.advance(&p); s.records == before && len(p.records) > 0 {
				t.Fatal("it does not go on")
			}
		}
		if got != want || s.records != 0 || s.bytes != 0 || got > len(seg)/frameBytes {
			t.Fatalf("%d records were found, %d delivered; %d and %d bytes left", want, got, s.records, s.bytes)
		}
	})
}
