package tlog

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/assay-bench/assay/ledger"
)

func check(t testing.TB, dir string, o FsckOptions) Report {
	t.Helper()
	l, err := Open(dir, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := Fsck(t.Context(), l, testPolicy(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func names(r Report, file string) bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.File == file })
}

func TestFsckOfAGoodLog(t *testing.T) {
	for _, sizes := range [][]int{{1}, {255}, {256}, {257}, {20, 300}, {100, 200, 300, 600}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "log")
			makeLog(t, dir, "a", sizes...)
			r := check(t, dir, FsckOptions{})
			if !r.OK() || len(r.Notes) != 0 || r.Size != uint64(sizes[len(sizes)-1]) || !r.Listed {
				t.Fatalf("%+v", r)
			}
		})
	}
}

// Each byte of each file of a small log, in two ways. The log has a full and a
// partial tile, a tile above them, and older partial tiles beside. It takes a
// minute; without ASSAY_LONG=1 it takes each byte of the small files in one way,
// and each 97th of the two large ones.
func TestFsckFindsEachFlippedByte(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 3, 258)
	want := []string{"checkpoint", ".state/treeState", ".state/version", "tile/entries/000", "tile/entries/000.p/3", "tile/entries/001.p/2",
		"tile/0/000", "tile/0/000.p/3", "tile/0/001.p/2", "tile/1/000.p/1"}
	list := files(t, dir)
	for _, f := range want {
		if !slices.Contains(list, f) {
			t.Fatalf("the log has no %s: %q", f, list)
		}
	}
	if r := check(t, dir, FsckOptions{}); !r.OK() {
		t.Fatalf("%+v", r)
	}
	l := open(t, dir)
	p := testPolicy(t)
	n := 0
	for _, f := range list {
		file := filepath.Join(dir, f)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			masks := []byte{1, 0x80}
			if os.Getenv("ASSAY_LONG") != "1" {
				if len(b) > 1000 && i%97 != 0 {
					continue
				}
				masks = masks[i%2 : i%2+1]
			}
			for _, mask := range masks {
				if _, err := w.WriteAt([]byte{b[i] ^ mask}, int64(i)); err != nil {
					t.Fatal(err)
				}
				r, err := Fsck(t.Context(), l, p, FsckOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if !names(r, f) {
					t.Fatalf("byte %d of %s flipped by %#x: %+v", i, f, mask, r.Problems)
				}
				n++
			}
			if _, err := w.WriteAt(b[i:i+1], int64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if r := check(t, dir, FsckOptions{}); !r.OK() {
		t.Fatalf("the test did not put everything back: %+v", r)
	}
	t.Logf("%d flips in %d files", n, len(list))
}

func TestFsckFindsFlipsInALargeLog(t *testing.T) {
	t.Parallel()
	const size = 20_000
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 7000, size)
	list := files(t, dir)
	rnd := rand.New(rand.NewPCG(1, 2))
	flips := 4
	if os.Getenv("ASSAY_LONG") == "1" {
		flips = 300
	}
	for range flips {
		f := list[rnd.IntN(len(list))]
		file := filepath.Join(dir, f)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) == 0 {
			continue
		}
		i, mask := rnd.IntN(len(b)), byte(1+rnd.IntN(255))
		flipped := slices.Clone(b)
		flipped[i] ^= mask
		if err := os.WriteFile(file, flipped, 0o644); err != nil {
			t.Fatal(err)
		}
		if r := check(t, dir, FsckOptions{}); !names(r, f) {
			t.Errorf("byte %d of %s flipped by %#x: %+v", i, f, mask, r.Problems)
		}
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFsckNamesWhatIsMissingAndWhatDoesNotBelong(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 20, 300)
	for _, c := range []struct {
		name string
		do   func(dir string) error
		file string
		what string
	}{
		{"bundle away", func(d string) error { return os.Remove(d + "/tile/entries/000") }, "tile/entries/000", "missing"},
		{"partial bundle away", func(d string) error { return os.Remove(d + "/tile/entries/001.p/44") }, "tile/entries/001.p/44", "missing"},
		{"tile away", func(d string) error { return os.Remove(d + "/tile/0/000") }, "tile/0/000", "missing"},
		{"upper tile away", func(d string) error { return os.Remove(d + "/tile/1/000.p/1") }, "tile/1/000.p/1", "missing"},
		{"checkpoint away", func(d string) error { return os.Remove(d + "/checkpoint") }, "checkpoint", "missing"},
		{"bundle longer", func(d string) error { return appendTo(d+"/tile/entries/000", "\x00\x00") }, "tile/entries/000", "more bytes"},
		{"bundle shorter", func(d string) error { return os.Truncate(d+"/tile/entries/000", 1000) }, "tile/entries/000", "ends within"},
		{"tile longer", func(d string) error { return appendTo(d+"/tile/0/001.p/44", strings.Repeat("x", 32)) }, "tile/0/001.p/44", "bytes where"},
		{"a stranger", func(d string) error { return os.WriteFile(d+"/tile/entries/readme", nil, 0o644) }, "tile/entries/readme", "does not belong"},
		{"a wrong spelling", func(d string) error { return os.WriteFile(d+"/tile/0/001.p/044", nil, 0o644) }, "tile/0/001.p/044", "does not belong"},
		{"a link", func(d string) error { return os.Symlink("000", d+"/tile/entries/x000") }, "tile/entries/x000", "no regular file"},
		{"state goes back", func(d string) error {
			return os.WriteFile(d+"/.state/treeState", []byte(`{"size":20,"root":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`), 0o644)
		}, ".state/treeState", "would go on from too early"},
		{"state is huge", func(d string) error {
			return os.WriteFile(d+"/.state/treeState", []byte(`{"size":18446744073709551615,"root":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`), 0o644)
		}, ".state/treeState", "missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := copyDir(t, dir)
			if err := c.do(d); err != nil {
				t.Fatal(err)
			}
			r := check(t, d, FsckOptions{})
			if !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.File == c.file && strings.Contains(p.What, c.what) }) {
				t.Fatalf("%+v", r.Problems)
			}
		})
	}
}

// What a crash leaves behind is said and is no damage.
func TestFsckKnowsTheTracesOfACrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 20, 300)
	b, err := os.ReadFile(dir + "/tile/entries/001.p/44")
	if err != nil {
		t.Fatal(err)
	}
	more := append(b, joinBundle([][]byte{testEntry("b", 300).Encode()})...)
	for file, content := range map[string][]byte{
		"tile/entries/001.p/45":       more,
		"tile/0/000123456789":         []byte("half"),
		"tile/entries/001.p/44123456": []byte("half"),
		"checkpoint99":                []byte("half"),
		".state/treeState4242":        []byte("half"),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := check(t, dir, FsckOptions{}); !r.OK() || len(r.Notes) != 2 {
		t.Fatalf("%+v", r)
	}
	more[5] ^= 1
	if err := os.WriteFile(dir+"/tile/entries/001.p/45", more, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := check(t, dir, FsckOptions{}); !names(r, "tile/entries/001.p/45") {
		t.Fatalf("a bundle beyond the end must still begin with what the log has: %+v", r)
	}
}

func appendTo(file, s string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(s)
	return err
}

// A log that is right as a tree and wrong in what it holds.
func TestFsckFindsDuplicates(t *testing.T) {
	twice := testEntry("a", 5)
	twice.Offset, twice.Partition = 1_000_005, 0
	again := testEntry("a", 200)
	again.Position = testEntry("a", 9).Position
	entries := append(history("a", 0, 100), twice, again)
	dir := filepath.Join(t.TempDir(), "log")
	a := startLog(t, dir, logOptions{})
	a.append(t, entries...)
	a.end(t)

	r := check(t, dir, FsckOptions{})
	if len(r.Problems) != 2 || !strings.Contains(r.Problems[0].What, "entry 101: record 0/9 of t is in the log a second time") ||
		!strings.Contains(r.Problems[1].What, "entry 100: id "+twice.ID.String()+" is in the log already, at 5") {
		t.Fatalf("%+v", r.Problems)
	}
	if r := check(t, dir, FsckOptions{Window: 10}); len(r.Problems) != 1 || len(r.Notes) != 1 {
		t.Fatalf("further back than a notary looks is a note: %+v", r)
	}
}

func TestFsckComparesWithKafka(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 300)
	kafka := map[ledger.Position][]byte{}
	for _, e := range history("a", 0, 300) {
		kafka[e.Position] = e.Envelope
	}
	records := func(_ context.Context, at []ledger.Position) ([][]byte, error) {
		var out [][]byte
		for _, p := range at {
			out = append(out, kafka[p])
		}
		return out, nil
	}
	if r := check(t, dir, FsckOptions{Records: records}); !r.OK() || r.Compared != 300 {
		t.Fatalf("%+v", r)
	}
	kafka[testEntry("a", 280).Position] = []byte("{rewritten}")
	delete(kafka, testEntry("a", 7).Position)
	r := check(t, dir, FsckOptions{Records: records})
	if len(r.Problems) != 2 || !strings.Contains(r.Problems[0].What, "record 1/7 is no longer in Kafka") ||
		!strings.Contains(r.Problems[1].What, "record 1/280 in Kafka is not what was logged") {
		t.Fatalf("%+v", r.Problems)
	}
}

// signedEntry is a statement of a node, signed by a key.
func signedEntry(t *testing.T, i int, node string, key testKey) ledger.Entry {
	t.Helper()
	e := testEntry("s", i)
	payload := fmt.Sprintf(`{"_type":%q,"subject":[{"name":"run.json","digest":{"sha256":"%064d"}}],"predicateType":%q,"predicate":{"id":%q,"node":%q,"nonce":"","time":%q}}`,
		ledger.StatementType, i, ledger.GPUBenchmark, e.ID, node, e.Time.Format(time.RFC3339))
	env, err := ledger.Sign(context.Background(), key, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	e.Envelope = env.Encode()
	return e
}

// Signatures count with the keys that were known at that place in the log.
func TestFsckChecksSignatures(t *testing.T) {
	authority, node := keyOf("authority"), keyOf("node")
	at := testEntry("s", 0).Time
	opt := ledger.KeyOptions{Node: "authority", Owner: "somebody", Roles: []ledger.Role{ledger.RoleAuthority}, NotBefore: at.Add(-time.Hour), NotAfter: at.Add(time.Hour), Now: at}
	root, err := ledger.StateKey(context.Background(), authority.Public(), authority, opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Node, opt.Roles, opt.ID = "node", []ledger.Role{ledger.RoleRun}, testEntry("s", 2).ID
	of, err := ledger.StateKey(context.Background(), node.Public(), authority, opt)
	if err != nil {
		t.Fatal(err)
	}
	about := testEntry("s", 2)
	about.Envelope = of.Envelope
	altered := signedEntry(t, 5, "node", node)
	altered.Envelope = bytes.Replace(altered.Envelope, []byte(`"sig":"`), []byte(`"sig":"A`), 1)
	swapped := signedEntry(t, 6, "node", node)
	swapped.ID = testEntry("s", 66).ID
	entries := []ledger.Entry{
		signedEntry(t, 0, "authority", authority),
		signedEntry(t, 1, "node", node), // its key is not known yet
		about,
		signedEntry(t, 3, "node", node),
		signedEntry(t, 4, "other", node),
		altered,
		swapped,
		signedEntry(t, 7, "node", keyOf("stranger")),
		signedEntry(t, 8, "node", node),
	}
	dir := filepath.Join(t.TempDir(), "log")
	a := startLog(t, dir, logOptions{})
	a.append(t, entries...)
	a.end(t)
	r := check(t, dir, FsckOptions{Keys: ledger.NewKeyring(root)})
	var got []string
	for _, p := range r.Problems {
		got = append(got, p.What)
	}
	want := []string{"entry 1: ", "entry 4: ", "entry 5: ", "entry 6: its statement has another id", "entry 7: "}
	if len(got) != len(want) || r.Signatures != 9 {
		t.Fatalf("%d signatures, %q", r.Signatures, got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	if r := check(t, dir, FsckOptions{}); !r.OK() {
		t.Errorf("as a log it is good: %+v", r)
	}
}

// Over HTTP nothing can be listed, and what is served is compared all the same.
func TestFsckOverHTTP(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 600)
	s := serve(t, dir)
	if r := check(t, s.URL, FsckOptions{}); !r.OK() || r.Listed || r.Size != 600 {
		t.Fatalf("%+v", r)
	}
	for _, f := range []string{"checkpoint", "tile/entries/001", "tile/0/001", "tile/1/000.p/2"} {
		s.dir = copyDir(t, dir)
		flip(t, filepath.Join(s.dir, f), -2)
		if r := check(t, s.URL, FsckOptions{}); len(r.Problems) == 0 || r.Problems[0].File != f {
			t.Errorf("%s: %+v", f, r.Problems)
		}
	}
	s.Close()
	if _, err := Fsck(t.Context(), open(t, s.URL), testPolicy(t), FsckOptions{}); err == nil {
		t.Error("a server that is away is no good log")
	}
}

// flip changes one byte; a negative place counts from the end.
func flip(t *testing.T, file string, at int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[(at+len(b))%len(b)] ^= 1
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Large enough for a full tile above the lowest, and one above that.
func TestFsckOfThreeLevels(t *testing.T) {
	t.Parallel()
	const size = 65_536 + 300
	dir := t.TempDir()
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	fetch := func(_ context.Context, index uint64, n int) ([][]byte, error) {
		var out [][]byte
		for i := range n {
			out = append(out, testEntry("a", int(index)*tileWidth+i).Encode())
		}
		return out, nil
	}
	if err := s.grow(t.Context(), size, fetch, nil); err != nil {
		t.Fatal(err)
	}
	root := s.tower.root()
	raw, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", testOrigin, size, base64.StdEncoding.EncodeToString(root[:]))}, logSigner(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.commit(raw); err != nil {
		t.Fatal(err)
	}
	hashes := tlog.TileHashReader(theirTree(t, raw), theirTiles{dir})
	if _, err := tlog.ProveRecord(size, 12_345, hashes); err != nil {
		t.Errorf("another reader of tiles: %v", err)
	}
	if r := check(t, dir, FsckOptions{}); !r.OK() || r.Tiles != 258+2+1 {
		t.Fatalf("%+v", r)
	}
	if _, _, err := prove(t.Context(), open(t, dir), testPolicy(t), 12_345); err != nil {
		t.Error(err)
	}
	flip(t, dir+"/tile/1/000", 77)
	if r := check(t, dir, FsckOptions{}); len(r.Problems) != 1 || r.Problems[0].File != "tile/1/000" || !strings.Contains(r.Problems[0].What, "its hash 2 ") {
		t.Errorf("%+v", r.Problems)
	}
}
