package tlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/assay-bench/assay/ledger"
)

func TestTowerAgreesWithAnotherTree(t *testing.T) {
	r := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	tw := &tower{}
	for i := range 70_000 {
		if i < 600 || i%997 == 0 || i > 65_530 && i < 65_550 {
			want, err := r.GetRootHash(nil)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				want = rfc6962.DefaultHasher.EmptyRoot()
			}
			if got := tw.root(); !bytes.Equal(got[:], want) {
				t.Fatalf("at %d: %x, want %x", i, got, want)
			}
		}
		e := fmt.Appendf(nil, "%d", i)
		h := leafHash(e)
		if i < 10 && !bytes.Equal(h[:], rfc6962.DefaultHasher.HashLeaf(e)) {
			t.Fatal("leaf hash")
		}
		if err := errors.Join(tw.add(h), r.Append(h[:], nil)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "log")
	makeLog(t, dir, "a", 600)
	var ids []byte
	for i, e := range history("a", 0, 600) {
		m := MarkOf(e.ID, e.Envelope)
		if i == 77 {
			m.ID[3] ^= 1 // the index is wrong here
		}
		ids = m.Append(ids)
	}
	for _, c := range []struct {
		name  string
		ids   []byte
		where string
	}{
		{"by index", ids, base},
		{"by index, from the log's own directory", ids, dir},
		{"torn index", ids[:100*MarkSize+5], base},
		{"index of something else", bytes.Repeat([]byte{7}, len(ids)), base},
		{"no index", nil, base},
	} {
		t.Run(c.name, func(t *testing.T) {
			os.Remove(filepath.Join(base, "ids"))
			if c.ids != nil {
				if err := os.WriteFile(filepath.Join(base, "ids"), c.ids, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			src := open(t, c.where)
			for _, i := range []int{0, 77, 255, 256, 599} {
				if n, err := Find(t.Context(), src, testEntry("a", i).ID, "", 600); err != nil || n != uint64(i) {
					t.Errorf("%d: %d %v", i, n, err)
				}
			}
			if _, err := Find(t.Context(), src, testEntry("other", 1).ID, "", 600); !errors.Is(err, ErrNotFound) {
				t.Errorf("%v", err)
			}
			if _, err := Find(t.Context(), src, testEntry("a", 599).ID, "", 500); !errors.Is(err, ErrNotFound) {
				t.Errorf("beyond the size: %v", err)
			}
		})
	}
	// A liar's index leads to another entry, and the right one is found all the same.
	swapped := bytes.Clone(ids)
	copy(swapped[MarkSize*5:MarkSize*6], ids[MarkSize*9:MarkSize*10])
	copy(swapped[MarkSize*9:MarkSize*10], ids[MarkSize*5:MarkSize*6])
	if err := os.WriteFile(filepath.Join(base, "ids"), swapped, 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := Find(t.Context(), open(t, base), testEntry("a", 5).ID, "", 600); err != nil || n != 5 {
		t.Errorf("%d %v", n, err)
	}
}

// Over HTTP the notary's word saves reading the whole log, and a server of files
// is read from its end.
func TestFindOverHTTP(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 600)
	for _, notary := range []bool{true, false} {
		bundles := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if id, ok := strings.CutPrefix(r.URL.Path, "/lookup/"); ok && notary {
				for i := range 600 {
					if testEntry("a", i).ID.String() == id {
						fmt.Fprintf(w, `{"index": %d}`, i)
						return
					}
				}
			}
			if strings.Contains(r.URL.Path, "entries") {
				bundles++
			}
			http.FileServerFS(os.DirFS(dir)).ServeHTTP(w, r)
		}))
		src := open(t, s.URL)
		if n, err := Find(t.Context(), src, testEntry("a", 5).ID, "", 600); err != nil || n != 5 {
			t.Errorf("%d %v", n, err)
		}
		if want := map[bool]int{true: 1, false: 4}[notary]; bundles != want {
			t.Errorf("notary %v: %d bundles were read to find one, not %d", notary, bundles, want)
		}
		bundles = 0
		if _, err := Find(t.Context(), src, testEntry("other", 5).ID, "", 600); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		if notary && bundles != 1 {
			t.Errorf("%d bundles were read for what is not there", bundles)
		}
		if notary {
			if _, err := Find(t.Context(), src, testEntry("a", 599).ID, "", 500); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "it is at 599") {
				t.Error(err)
			}
		}
		s.Close()
	}
}

func TestProveRefusesATamperedLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 600)
	p := testPolicy(t)
	if _, _, err := prove(t.Context(), open(t, dir), p, 600); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	for _, f := range []string{"tile/entries/000", "tile/0/000"} {
		d := copyDir(t, dir)
		b, err := os.ReadFile(filepath.Join(d, f))
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1
		if err := os.WriteFile(filepath.Join(d, f), b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, err = prove(t.Context(), open(t, d), p, 255)
		if f == "tile/0/000" {
			_, _, err = prove(t.Context(), open(t, d), p, 254)
		}
		if !errors.Is(err, ledger.ErrNotInTheLog) || !strings.Contains(err.Error(), "fsck") {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestProveEachEntry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	makeLog(t, dir, "a", 600)
	src, p := open(t, dir), testPolicy(t)
	c, err := Checkpoint(t.Context(), src, p)
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		i := rand.Uint64N(600)
		if _, _, err := ProveAt(t.Context(), src, p, c, i); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzBundle(f *testing.F) {
	f.Add([]byte{0, 1, 'a', 0, 0}, uint8(2))
	f.Add([]byte{0xff, 0xff, 1}, uint8(1))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, p uint8) {
		n := width(p)
		entries, err := parseBundle(b, n)
		if err != nil {
			return
		}
		if len(entries) != n || !bytes.Equal(joinBundle(entries), b) {
			t.Fatal("what was read is not what was written")
		}
		for k := range n {
			cut, err := cutBundle(b, k)
			if err != nil || !bytes.Equal(cut, joinBundle(entries[:k])) {
				t.Fatalf("the first %d: %v", k, err)
			}
		}
	})
}
