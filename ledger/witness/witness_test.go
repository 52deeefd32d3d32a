package witness

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// cosigner is a cosignature/v1 key with a clock of the test's own.
type cosigner struct {
	name string
	key  ed25519.PrivateKey
	now  func() time.Time
}

func newCosigner(name string, now func() time.Time) *cosigner {
	seed := sha256.Sum256([]byte("witness " + name))
	return &cosigner{name, ed25519.NewKeyFromSeed(seed[:]), now}
}

func (c *cosigner) public() []byte {
	return append([]byte{4}, c.key.Public().(ed25519.PublicKey)...)
}

func (c *cosigner) Name() string { return c.name }

func (c *cosigner) KeyHash() uint32 {
	sum := sha256.Sum256(append([]byte(c.name+"\n"), c.public()...))
	return binary.BigEndian.Uint32(sum[:])
}

func (c *cosigner) Sign(msg []byte) ([]byte, error) {
	t := uint64(c.now().Unix())
	sig := ed25519.Sign(c.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", t, msg))
	return append(binary.BigEndian.AppendUint64(nil, t), sig...), nil
}

func (c *cosigner) vkey() string {
	return fmt.Sprintf("%s+%08x+%s", c.name, c.KeyHash(), base64.StdEncoding.EncodeToString(c.public()))
}

// verifier is formats' own, so that our cosignatures are checked by others' code.
func (c *cosigner) verifier(tb testing.TB) note.Verifier {
	tb.Helper()
	v, err := fnote.NewVerifierForCosignatureV1(c.vkey())
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// testLog is a log of leaves whose hashes x/mod computes.
type testLog struct {
	tb     testing.TB
	signer note.Signer
	key    note.Verifier
	leaves []string
}

func newTestLog(tb testing.TB, origin string, leaves ...string) *testLog {
	tb.Helper()
	skey, vkey, err := note.GenerateKey(strings.NewReader(strings.Repeat(origin, 64)), origin)
	if err != nil {
		tb.Fatal(err)
	}
	s, err1 := note.NewSigner(skey)
	v, err2 := note.NewVerifier(vkey)
	if err := errors.Join(err1, err2); err != nil {
		tb.Fatal(err)
	}
	return &testLog{tb, s, v, leaves}
}

func (l *testLog) grow(n int, word string) *testLog {
	for len(l.leaves) < n {
		l.leaves = append(l.leaves, fmt.Sprint(word, len(l.leaves)))
	}
	return l
}

func (l *testLog) hashes() tlog.HashReaderFunc {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(idx []int64) ([]tlog.Hash, error) {
		var out []tlog.Hash
		for _, i := range idx {
			out = append(out, stored[i])
		}
		return out, nil
	})
	for i, leaf := range l.leaves {
		hs, err := tlog.StoredHashes(int64(i), []byte(leaf), reader)
		if err != nil {
			l.tb.Fatal(err)
		}
		stored = append(stored, hs...)
	}
	return reader
}

func (l *testLog) text(size int) string {
	root := tlog.Hash(sha256.Sum256(nil))
	if size > 0 {
		var err error
		if root, err = tlog.TreeHash(int64(size), l.hashes()); err != nil {
			l.tb.Fatal(err)
		}
	}
	return fmt.Sprintf("%s\n%d\n%s\n", l.key.Name(), size, root)
}

func (l *testLog) checkpoint(size int, signers ...note.Signer) string {
	if len(signers) == 0 {
		signers = []note.Signer{l.signer}
	}
	b, err := note.Sign(&note.Note{Text: l.text(size)}, signers...)
	if err != nil {
		l.tb.Fatal(err)
	}
	return string(b)
}

func (l *testLog) proof(from, to int) string {
	if from == 0 || from == to {
		return ""
	}
	p, err := tlog.ProveTree(int64(to), int64(from), l.hashes())
	if err != nil {
		l.tb.Fatal(err)
	}
	var b strings.Builder
	for _, h := range p {
		fmt.Fprintln(&b, h)
	}
	return b.String()
}

func (l *testLog) body(from, to int) string {
	return fmt.Sprintf("old %d\n%s\n%s", from, l.proof(from, to), l.checkpoint(to))
}

// words collects what the witness says.
type words struct {
	mu  sync.Mutex
	all []string
}

func (w *words) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(line))
	return len(line), nil
}

// log collects each line in w.
func (w *words) log() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.all, "\n")
}

func open(tb testing.TB, o Options) *Witness {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	if o.Signer == nil {
		c := newCosigner("witness.test/w1", time.Now)
		o.Signer, o.Verifier = c, c.verifier(tb)
	}
	begin(tb, o)
	w, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.Close() })
	return w
}

// begin makes a directory a witness's, unless it is one.
func begin(tb testing.TB, o Options) {
	tb.Helper()
	if err := Create(o); err != nil && !errors.Is(err, ErrBegun) {
		tb.Fatal(err)
	}
}

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("POST", "/add-checkpoint", strings.NewReader(body)))
	return rec
}

func mustSign(tb testing.TB, w *Witness, l *testLog, from, to int) time.Time {
	tb.Helper()
	rec := post(w, l.body(from, to))
	if rec.Code != 200 {
		tb.Fatalf("%d to %d: %d %s", from, to, rec.Code, rec.Body)
	}
	return checkCosignature(tb, l.checkpoint(to), rec.Body.String())
}

// checkCosignature verifies an answer with formats/note.
func checkCosignature(tb testing.TB, checkpoint, lines string) time.Time {
	tb.Helper()
	n, err := note.Open([]byte(checkpoint+lines), note.VerifierList(newCosigner("witness.test/w1", time.Now).verifier(tb)))
	if err != nil {
		tb.Fatalf("cosignature: %v\n%s", err, lines)
	}
	at, err := fnote.CoSigV1Timestamp(n.Sigs[0])
	if err != nil {
		tb.Fatal(err)
	}
	return at
}

func TestStatuses(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	forked := newTestLog(t, "log.test/a").grow(6, "leaf").grow(20, "other")
	stranger := newTestLog(t, "log.test/b").grow(20, "leaf")
	replaceLast := func(s, old, new string) string {
		i := strings.LastIndex(s, old)
		return s[:i] + new + s[i+len(old):]
	}
	badSignature := func() string {
		n := &note.Note{Text: l.text(9)}
		other := newTestLog(t, "log.test/a")
		other.signer = fake{other.signer}
		b, err := note.Sign(n, other.signer)
		if err != nil {
			t.Fatal(err)
		}
		return "old 8\n" + l.proof(8, 9) + "\n" + string(b)
	}
	extended := func() string {
		b, err := note.Sign(&note.Note{Text: l.text(9) + "extension line\n"}, l.signer)
		if err != nil {
			t.Fatal(err)
		}
		return "old 8\n" + l.proof(8, 9) + "\n" + string(b)
	}
	// Each case meets a witness that has signed size 8 of l.
	for _, c := range []struct {
		name, body, size string
		status           int
		says             string
		kept             string
	}{
		{name: "grows", body: l.body(8, 13), status: 200},
		{name: "grows by one", body: l.body(8, 9), status: 200},
		{name: "same again", body: l.body(8, 8), status: 200},
		{name: "extension lines", body: extended(), status: 200},
		{name: "a stranger's signature beside the log's", body: "old 8\n" + l.proof(8, 9) + "\n" + l.checkpoint(9, stranger.signer, l.signer), status: 200},
		{name: "empty", body: "", status: 400},
		{name: "no checkpoint", body: "old 8\n\n", status: 400},
		{name: "no old line", body: l.checkpoint(9), status: 400},
		{name: "leading zero", body: strings.Replace(l.body(8, 9), "old 8", "old 08", 1), status: 400},
		{name: "plus sign", body: strings.Replace(l.body(8, 9), "old 8", "old +8", 1), status: 400},
		{name: "two spaces", body: strings.Replace(l.body(8, 9), "old 8", "old  8", 1), status: 400},
		{name: "carriage returns", body: strings.ReplaceAll(l.body(8, 9), "\n", "\r\n"), status: 400},
		{name: "old larger than new", body: "old 9\n\n" + l.checkpoint(8), status: 400},
		{name: "64 lines of proof", body: "old 8\n" + strings.Repeat(tlog.Hash{}.String()+"\n", 64) + "\n" + l.checkpoint(9), status: 400},
		{name: "63 lines of proof", body: "old 8\n" + strings.Repeat(tlog.Hash{}.String()+"\n", 63) + "\n" + l.checkpoint(9), status: 422, says: "does not fit", kept: "mismatch-9-*.json"},
		{name: "short hash", body: "old 8\nAAAA\n\n" + l.checkpoint(9), status: 400},
		{name: "no signature at all", body: "old 8\n\n" + l.text(9), status: 400},
		{name: "huge size", body: "old 8\n\n" + replaceLast(l.checkpoint(9), "\n9\n", "\n99999999999999999999\n"), status: 400},
		{name: "unknown origin", body: stranger.body(8, 9), status: 404},
		{name: "unknown origin, no good signature", body: "old 8\n\n" + strings.Replace(l.checkpoint(9), "log.test/a\n", "log.test/c\n", 1), status: 404},
		{name: "altered", body: strings.Replace(l.body(8, 9), "\n9\n", "\n10\n", 1), status: 403},
		{name: "bad signature by the right name", body: badSignature(), status: 403},
		{name: "only a stranger signed", body: "old 8\n\n" + l.checkpoint(9, stranger.signer), status: 403},
		{name: "size not known", body: l.body(0, 13), status: 409, size: "8\n"},
		{name: "size not ours", body: l.body(7, 13), status: 409, size: "8\n"},
		{name: "size ahead of ours", body: l.body(9, 13), status: 409, size: "8\n"},
		{name: "rolled back", body: forked.body(5, 6), status: 409, size: "8\n", says: "rolled back"},
		{name: "fork of the same size", body: forked.body(8, 8), status: 409, says: "FORK", kept: "fork-8-*.json"},
		{name: "fork of the same size, size not known", body: forked.body(0, 8), status: 409, size: "8\n", says: "FORK", kept: "fork-8-*.json"},
		{name: "fork that has grown", body: forked.body(8, 13), status: 422, says: "forked", kept: "mismatch-13-*.json"},
		{name: "no proof", body: "old 8\n\n" + l.checkpoint(9), status: 422, says: "does not fit", kept: "mismatch-9-*.json"},
		{name: "a proof too many", body: "old 8\n" + l.proof(8, 9) + tlog.Hash{}.String() + "\n\n" + l.checkpoint(9), status: 422, says: "does not fit", kept: "mismatch-9-*.json"},
		{name: "proof for the same size", body: "old 8\n" + tlog.Hash{}.String() + "\n\n" + l.checkpoint(8), status: 422},
		{name: "too large", body: l.body(8, 9) + strings.Repeat("x", maxBody), status: 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said words
			w := open(t, Options{Logs: []note.Verifier{l.key}, Log: said.log()})
			mustSign(t, w, l, 0, 8)
			before, err := os.ReadFile(w.logs["log.test/a"].path())
			if err != nil {
				t.Fatal(err)
			}
			rec := post(w, c.body)
			if rec.Code != c.status {
				t.Fatalf("status %d, want %d: %s", rec.Code, c.status, rec.Body)
			}
			ct := rec.Header().Get("Content-Type")
			if (ct == "text/x.tlog.size") != (c.size != "") || c.size != "" && rec.Body.String() != c.size {
				t.Errorf("content type %q, body %q, want size %q", ct, rec.Body, c.size)
			}
			if !strings.Contains(said.String(), c.says) || c.says == "" && said.String() != "" {
				t.Errorf("said %q, want %q", said.String(), c.says)
			}
			files, _ := filepath.Glob(filepath.Join(w.logs["log.test/a"].dir, "*.json"))
			if c.kept == "" && len(files) > 0 {
				t.Errorf("kept %v", files)
			}
			if c.kept != "" {
				if ok, _ := filepath.Match(c.kept, filepath.Base(strings.Join(files, " "))); !ok {
					t.Errorf("kept %v, want %s", files, c.kept)
				}
			}
			after, err := os.ReadFile(w.logs["log.test/a"].path())
			if err != nil {
				t.Fatal(err)
			}
			if c.status != 200 && string(after) != string(before) {
				t.Errorf("refused, and the memory changed:\n%s", after)
			}
			// Whatever it was, the honest log goes on.
			if c.status != 200 {
				mustSign(t, w, l, 8, 20)
			}
		})
	}
}

// fake signs with the right name and key hash, and wrongly.
type fake struct{ note.Signer }

func (fake) Sign([]byte) ([]byte, error) { return make([]byte, 64), nil }

func TestFirstContact(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(5, "leaf")
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"from nothing", l.body(0, 5), 200},
		{"empty tree", l.body(0, 0), 200},
		{"proof from nothing", "old 0\n" + tlog.Hash{}.String() + "\n\n" + l.checkpoint(5), 422},
		{"old size that was never signed", l.body(3, 5), 409},
		{"empty tree with a wrong root", "old 0\n\n" + func() string {
			b, err := note.Sign(&note.Note{Text: "log.test/a\n0\n" + tlog.Hash{}.String() + "\n"}, l.signer)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}(), 422},
	} {
		w := open(t, Options{Logs: []note.Verifier{l.key}})
		if rec := post(w, c.body); rec.Code != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, rec.Code, c.status, rec.Body)
		}
	}
	w := open(t, Options{Logs: []note.Verifier{l.key}})
	mustSign(t, w, l, 0, 0)
	mustSign(t, w, l, 0, 5)
}

func TestMethodsAndHealth(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(5, "leaf")
	w := open(t, Options{Logs: []note.Verifier{l.key}})
	for _, c := range []struct {
		method, path string
		status       int
	}{{"GET", "/add-checkpoint", 405}, {"POST", "/healthz", 405}, {"GET", "/healthz", 200}, {"GET", "/", 404}, {"POST", "/x/add-checkpoint", 404}} {
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, httptest.NewRequest(c.method, c.path, http.NoBody))
		if rec.Code != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, rec.Code, c.status)
		}
	}
}

func TestBrokenOffBody(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(5, "leaf")
	w := open(t, Options{Logs: []note.Verifier{l.key}})
	body := io.MultiReader(strings.NewReader(l.body(0, 5)), readerFunc(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest("POST", "/add-checkpoint", body))
	if rec.Code != 400 {
		t.Fatalf("status %d", rec.Code)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
