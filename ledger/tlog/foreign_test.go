package tlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/assay-bench/assay/ledger"
)

// theirTiles reads a log's directory for x/mod's tlog. Its paths begin
// "tile/8/": tiles there have a height, and tlog-tiles has only height 8.
type theirTiles struct{ dir string }

func theirPath(t tlog.Tile) string {
	rest := strings.TrimPrefix(t.Path(), "tile/8/")
	return strings.Replace(filepath.Join("tile", rest), "tile/data", "tile/entries", 1)
}

func (theirTiles) Height() int { return 8 }

func (r theirTiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var out [][]byte
	for _, t := range tiles {
		b, err := os.ReadFile(filepath.Join(r.dir, theirPath(t)))
		if err != nil && t.W < 256 {
			full := t
			full.W = 256
			if b, err = os.ReadFile(filepath.Join(r.dir, theirPath(full))); err == nil {
				b = b[:t.W*tlog.HashSize]
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func (theirTiles) SaveTiles([]tlog.Tile, [][]byte) {}

// theirTree opens a checkpoint with x/mod's own code.
func theirTree(t *testing.T, raw []byte) tlog.Tree {
	t.Helper()
	v, err := note.NewVerifier(logVKey())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(raw, note.VerifierList(v))
	if err != nil {
		t.Fatal(err)
	}
	var tree tlog.Tree
	f := strings.Split(n.Text, "\n")
	if f[0] != testOrigin {
		t.Fatalf("origin %q", f[0])
	}
	if _, err := fmt.Sscan(f[1], &tree.N); err != nil {
		t.Fatal(err)
	}
	if tree.Hash, err = tlog.ParseHash(f[2]); err != nil {
		t.Fatal(err)
	}
	return tree
}

// A log as the notary sets Tessera up, checked by code that is neither ours nor
// Tessera's: the root is made again from the entries, each entry is in the tree,
// and older trees are its beginnings.
func TestForeignReaderAcceptsTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	a := startLog(t, dir, logOptions{batch: 1024})
	a.append(t, history("a", 0, 300)...)
	older := checkpointOf(t, dir)
	a.append(t, history("a", 300, 1000)...)
	a.end(t)

	raw := checkpointOf(t, dir)
	before, now := theirTree(t, older), theirTree(t, raw)
	if before.N != 300 || now.N != 1000 {
		t.Fatalf("sizes %d and %d", before.N, now.N)
	}
	hashes := tlog.TileHashReader(now, theirTiles{dir})
	p, err := tlog.ProveTree(now.N, before.N, hashes)
	if err != nil {
		t.Fatal(err)
	}
	if err := tlog.CheckTree(p, now.N, now.Hash, before.N, before.Hash); err != nil {
		t.Fatal(err)
	}
	var stored []tlog.Hash
	src := open(t, dir)
	for l, err := range ReadEntries(t.Context(), src, 0, 1000, 1000) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Index%97 == 0 {
			p, err := tlog.ProveRecord(now.N, int64(l.Index), hashes)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckRecord(p, now.N, now.Hash, int64(l.Index), tlog.RecordHash(l.Data)); err != nil {
				t.Fatal(err)
			}
		}
		hs, err := tlog.StoredHashes(int64(l.Index), l.Data, memHashes(stored))
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hs...)
	}
	if h, err := tlog.TreeHash(1000, memHashes(stored)); err != nil || h != now.Hash {
		t.Fatalf("the entries give another root: %v %v", h, err)
	}
}

func memHashes(stored []tlog.Hash) tlog.HashReader {
	return tlog.HashReaderFunc(func(list []int64) ([]tlog.Hash, error) {
		var out []tlog.Hash
		for _, i := range list {
			out = append(out, stored[i])
		}
		return out, nil
	})
}

// writeTheirs writes a log with x/mod's tlog.
func writeTheirs(t *testing.T, dir string, entries []ledger.Entry) {
	t.Helper()
	var stored []tlog.Hash
	var bundle []byte
	write := func(name string, b []byte) {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range entries {
		b := e.Encode()
		hs, err := tlog.StoredHashes(int64(i), b, memHashes(stored))
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hs...)
		bundle = append(append(bundle, byte(len(b)>>8), byte(len(b))), b...)
		if w := i%256 + 1; w == 256 || i == len(entries)-1 {
			write(theirPath(tlog.Tile{H: 8, L: -1, N: int64(i / 256), W: w}), bundle)
			bundle = nil
		}
	}
	n := int64(len(entries))
	for _, tile := range tlog.NewTiles(8, 0, n) {
		b, err := tlog.ReadTileData(tile, memHashes(stored))
		if err != nil {
			t.Fatal(err)
		}
		write(theirPath(tile), b)
	}
	root, err := tlog.TreeHash(n, memHashes(stored))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", testOrigin, n, root)}, logSigner(t))
	if err != nil {
		t.Fatal(err)
	}
	write("checkpoint", raw)
}

func TestForeignLogIsAccepted(t *testing.T) {
	for _, n := range []int{1, 255, 256, 257, 513, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir := t.TempDir()
			writeTheirs(t, dir, history("x", 0, n))
			if r := fsckDir(t, dir); !r.OK() || r.Size != uint64(n) {
				t.Fatalf("%+v", r)
			}
			src := open(t, dir)
			for _, i := range []int{0, n / 2, n - 1} {
				r, envelope, err := prove(t.Context(), src, testPolicy(t), uint64(i))
				if err != nil {
					t.Fatal(err)
				}
				again, err := ledger.ReadReceipt(r.Encode())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := testPolicy(t).VerifyReceipt(again, envelope); err != nil || !bytes.Equal(envelope, testEntry("x", i).Envelope) {
					t.Fatal(err, string(envelope))
				}
			}
		})
	}
}

func fsckDir(t *testing.T, dir string) Report {
	t.Helper()
	r, err := Fsck(t.Context(), open(t, dir), testPolicy(t), FsckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tesseraFetcher gives Tessera's own fsck our sources to read.
type tesseraFetcher struct{ Source }

func (f tesseraFetcher) ReadCheckpoint(ctx context.Context) ([]byte, error) { return f.Checkpoint(ctx) }
func (f tesseraFetcher) ReadTile(ctx context.Context, l, i uint64, p uint8) ([]byte, error) {
	return f.Tile(ctx, l, i, p)
}
func (f tesseraFetcher) ReadEntryBundle(ctx context.Context, i uint64, p uint8) ([]byte, error) {
	return f.Entries(ctx, i, p)
}

func tesseraFsck(t *testing.T, src Source) error {
	t.Helper()
	v, err := note.NewVerifier(logVKey())
	if err != nil {
		t.Fatal(err)
	}
	// One worker that finds a fault ends, and the rest waits for it for ever: with
	// several, one fault at a time is reported.
	return fsck.New(testOrigin, v, tesseraFetcher{src}, func(b []byte) ([][]byte, error) {
		var eb api.EntryBundle
		if err := eb.UnmarshalText(b); err != nil {
			return nil, err
		}
		var out [][]byte
		for _, e := range eb.Entries {
			out = append(out, rfc6962.DefaultHasher.HashLeaf(e))
		}
		return out, nil
	}, fsck.Opts{N: 8}).Check(t.Context())
}

func TestTesserasOwnFsckAgrees(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 20, 600)
	if err := tesseraFsck(t, open(t, dir)); err != nil {
		t.Fatal(err)
	}
	if r := fsckDir(t, dir); !r.OK() {
		t.Fatalf("%+v", r)
	}
	for _, f := range []string{"tile/entries/001", "tile/0/001", "tile/1/000.p/2"} {
		d := copyDir(t, dir)
		b, err := os.ReadFile(filepath.Join(d, f))
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1
		if err := os.WriteFile(filepath.Join(d, f), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := tesseraFsck(t, open(t, d)); err == nil {
			t.Errorf("%s: Tessera's does not see it", f)
		}
		if r := fsckDir(t, d); !names(r, f) {
			t.Errorf("%s: %+v", f, r.Problems)
		}
	}
}
