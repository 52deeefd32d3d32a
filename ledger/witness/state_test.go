package witness

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
)

func TestRemembersOverRestart(t *testing.T) {
	dir := t.TempDir()
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	fork := newTestLog(t, "log.test/a").grow(20, "other")
	w := open(t, Options{Dir: dir, Logs: []note.Verifier{l.key}})
	mustSign(t, w, l, 0, 8)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = open(t, Options{Dir: dir, Logs: []note.Verifier{l.key}})
	if rec := post(w, fork.body(0, 8)); rec.Code != 409 {
		t.Errorf("fork from nothing after a restart: %d", rec.Code)
	}
	if rec := post(w, fork.body(8, 13)); rec.Code != 422 {
		t.Errorf("fork after a restart: %d", rec.Code)
	}
	mustSign(t, w, l, 8, 20)
}

// The state file is itself a cosigned checkpoint.
func TestStateIsACosignedCheckpoint(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	w := open(t, Options{Logs: []note.Verifier{l.key}})
	mustSign(t, w, l, 0, 8)
	b, err := os.ReadFile(w.logs["log.test/a"].path())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(b, note.VerifierList(l.key, newCosigner("witness.test/w1", time.Now).verifier(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Sigs) != 2 || n.Text != l.text(8) {
		t.Errorf("%d signatures on %q", len(n.Sigs), n.Text)
	}
}

func TestOneProcessADirectory(t *testing.T) {
	dir := t.TempDir()
	l := newTestLog(t, "log.test/a")
	w := open(t, Options{Dir: dir, Logs: []note.Verifier{l.key}})
	_, err := New(Options{Dir: dir, Logs: []note.Verifier{l.key}, Signer: newCosigner("witness.test/w1", time.Now)})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("second witness: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir, Logs: []note.Verifier{l.key}})
}

// Every flipped bit of the state is found, or means the same.
func TestAlteredState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newTestLog(t, "log.test/a").grow(8, "leaf")
	c := newCosigner("witness.test/w1", time.Now)
	o := Options{Dir: dir, Logs: []note.Verifier{l.key}, Signer: c, Verifier: c.verifier(t)}
	w := open(t, o)
	mustSign(t, w, l, 0, 8)
	path, want := w.logs["log.test/a"].path(), w.logs["log.test/a"].last
	w.Close()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for _, bit := range []byte{1, 0x80} {
			bad := append([]byte(nil), good...)
			bad[i] ^= bit
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			w, err := New(o)
			if err == nil {
				if got := w.logs["log.test/a"].last; got.tree != want.tree || got.time != want.time {
					t.Errorf("byte %d, bit %#x: not found", i, bit)
				}
				w.Close()
			} else if !errors.Is(err, ErrState) {
				t.Errorf("byte %d, bit %#x: %v", i, bit, err)
			}
		}
	}
	for _, cut := range []int{0, 1, len(good) / 2, len(good) - 1} {
		if err := os.WriteFile(path, good[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(o); !errors.Is(err, ErrState) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	other := newCosigner("witness.test/w2", time.Now)
	if _, err := New(Options{Dir: dir, Logs: o.Logs, Signer: other}); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "another directory") {
		t.Errorf("another witness's key: %v", err)
	}
}

func TestLogChangesItsKey(t *testing.T) {
	dir := t.TempDir()
	old := newTestLog(t, "log.test/a").grow(12, "leaf")
	skey, vkey, err := note.GenerateKey(nil, "log.test/a")
	if err != nil {
		t.Fatal(err)
	}
	signer, err1 := note.NewSigner(skey)
	key, err2 := note.NewVerifier(vkey)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	w := open(t, Options{Dir: dir, Logs: []note.Verifier{old.key}})
	mustSign(t, w, old, 0, 8)
	w.Close()
	if _, err := New(Options{Dir: dir, Logs: []note.Verifier{key}, Signer: newCosigner("witness.test/w1", time.Now)}); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "former key") {
		t.Fatalf("new key only: %v", err)
	}
	w = open(t, Options{Dir: dir, Logs: []note.Verifier{old.key, key}})
	rec := post(w, "old 8\n"+old.proof(8, 9)+"\n"+old.checkpoint(9, signer))
	if rec.Code != 200 {
		t.Fatalf("new key: %d %s", rec.Code, rec.Body)
	}
	mustSign(t, w, old, 9, 10)
}

func TestClock(t *testing.T) {
	t.Parallel()
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	var mu sync.Mutex
	now := time.Unix(1_800_000_000, 500_000_000)
	set := func(d time.Duration) { mu.Lock(); now = now.Add(d); mu.Unlock() }
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	var said words
	dir := t.TempDir()
	start := func() *Witness {
		c := newCosigner("witness.test/w1", clock)
		return open(t, Options{Dir: dir, Logs: []note.Verifier{l.key}, Signer: c, Verifier: c.verifier(t), Now: clock, Log: said.log()})
	}
	w := start()
	first := mustSign(t, w, l, 0, 8)
	set(-time.Hour)
	if rec := post(w, l.body(8, 9)); rec.Code != 500 {
		t.Fatalf("clock an hour back: %d %s", rec.Code, rec.Body)
	}
	if !strings.Contains(said.String(), "the clock went back") {
		t.Errorf("said %q", said.String())
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest("GET", "/healthz", http.NoBody))
	if rec.Code != 503 || !strings.Contains(rec.Body.String(), "the clock went back") {
		t.Errorf("healthz: %d %s", rec.Code, rec.Body)
	}
	w.Close()
	w = start() // and it is remembered over a restart
	if rec := post(w, l.body(8, 9)); rec.Code != 500 {
		t.Fatalf("clock an hour back, after a restart: %d", rec.Code)
	}
	// A little back is waited for.
	set(time.Hour - 1600*time.Millisecond)
	time.AfterFunc(500*time.Millisecond, func() { set(1600 * time.Millisecond) })
	if at := mustSign(t, w, l, 8, 9); at.Before(first) {
		t.Errorf("signed at %v, before %v", at, first)
	}
	rec = httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest("GET", "/healthz", http.NoBody))
	if rec.Code != 200 {
		t.Errorf("healthz after it went well: %d", rec.Code)
	}
}

// A signer whose own clock goes back, against the clock that was given.
func TestSignersClock(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	at := time.Now()
	c := newCosigner("witness.test/w1", func() time.Time { return at })
	w := open(t, Options{Logs: []note.Verifier{l.key}, Signer: c})
	mustSign(t, w, l, 0, 8)
	at = at.Add(-2 * time.Second)
	if rec := post(w, l.body(8, 9)); rec.Code != 500 {
		t.Fatalf("status %d", rec.Code)
	}
	at = at.Add(2 * time.Second)
	mustSign(t, w, l, 8, 9)
}

func TestBadSigner(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	c := newCosigner("witness.test/w1", time.Now)
	for name, s := range map[string]note.Signer{
		"fails":   failing{c},
		"short":   fakeBytes{c, make([]byte, 8)},
		"rubbish": fakeBytes{c, append(make([]byte, 8), make([]byte, 64)...)},
	} {
		w := open(t, Options{Logs: []note.Verifier{l.key}, Signer: s, Verifier: c.verifier(t)})
		if rec := post(w, l.body(0, 8)); rec.Code != 500 || strings.Contains(rec.Body.String(), "—") {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		if rec := post(w, l.body(3, 8)); rec.Body.String() != "0\n" {
			t.Errorf("%s: it remembers what it did not sign: %s", name, rec.Body)
		}
	}
}

type failing struct{ note.Signer }

func (failing) Sign([]byte) ([]byte, error) { return nil, errors.New("the key is gone") }

type fakeBytes struct {
	note.Signer
	sig []byte
}

func (f fakeBytes) Sign([]byte) ([]byte, error) { return f.sig, nil }

// The specification's race: A with N and B with N+K at once. Whatever the order,
// the size that is remembered never falls, and every signature that was given
// is for a tree at least as large as the one given before.
func TestRaceOfTheSpecification(t *testing.T) {
	t.Parallel()
	l := newTestLog(t, "log.test/a").grow(64, "leaf")
	w := open(t, Options{Logs: []note.Verifier{l.key}})
	mustSign(t, w, l, 0, 8)
	bodies := map[[2]int]string{}
	for from := 8; from < 64; from++ {
		for _, to := range []int{from, from + 1, 64} {
			bodies[[2]int{from, to}] = l.body(from, to)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	signed := map[int]bool{}
	for g := range 8 {
		wg.Go(func() {
			for from := 8; from < 63; from++ {
				to := from + 1
				if g == 7 && from == 40 {
					to = 64
				}
				rec := post(w, bodies[[2]int{from, to}])
				if rec.Code == 200 {
					mu.Lock()
					signed[to] = true
					mu.Unlock()
				}
				var size int
				if rec.Code == 409 {
					if _, err := fmt.Sscan(rec.Body.String(), &size); err != nil || size < 8 {
						t.Errorf("conflict with %q", rec.Body)
					}
				}
			}
		})
	}
	wg.Wait()
	if len(signed) == 0 {
		t.Fatal("nothing was signed")
	}
	largest := 0
	for to := range signed {
		largest = max(largest, to)
	}
	if got := int(w.logs["log.test/a"].last.size); got != largest {
		t.Errorf("remembers size %d, and signed %d", got, largest)
	}
}

// A slow request for N, checked before one for N+K, must not overwrite it.
func TestNoRollbackByASlowRequest(t *testing.T) {
	l := newTestLog(t, "log.test/a").grow(64, "leaf")
	c := &slowCosigner{cosigner: newCosigner("witness.test/w1", time.Now), in: make(chan struct{}, 8), out: make(chan struct{})}
	w := open(t, Options{Logs: []note.Verifier{l.key}, Signer: c})
	a := make(chan *httptest.ResponseRecorder)
	go func() { a <- post(w, l.body(0, 8)) }()
	<-c.in // A is being signed
	b := make(chan *httptest.ResponseRecorder)
	go func() { b <- post(w, l.body(0, 13)) }()
	select {
	case rec := <-b:
		t.Fatalf("B was answered while A was under way: %d", rec.Code)
	case <-time.After(50 * time.Millisecond):
	}
	close(c.out)
	if rec := <-a; rec.Code != 200 {
		t.Errorf("A: %d", rec.Code)
	}
	if rec := <-b; rec.Code != 409 || rec.Body.String() != "8\n" {
		t.Errorf("B: %d %s", rec.Code, rec.Body)
	}
}

type slowCosigner struct {
	*cosigner
	in, out chan struct{}
}

func (s *slowCosigner) Sign(b []byte) ([]byte, error) {
	s.in <- struct{}{}
	<-s.out
	return s.cosigner.Sign(b)
}

// Two logs do not wait for each other.
func TestLogsAreApart(t *testing.T) {
	la := newTestLog(t, "log.test/a").grow(9, "leaf")
	lb := newTestLog(t, "log.test/b").grow(9, "leaf")
	w := open(t, Options{Logs: []note.Verifier{la.key, lb.key}})
	w.logs["log.test/a"].mu.Lock()
	mustSign(t, w, lb, 0, 8)
	w.logs["log.test/a"].mu.Unlock()
	mustSign(t, w, la, 0, 9)
	mustSign(t, w, lb, 8, 9)
}

func TestEvidenceIsBoundedAndConvicts(t *testing.T) {
	t.Parallel()
	l := newTestLog(t, "log.test/a").grow(8, "leaf")
	var said words
	w := open(t, Options{Logs: []note.Verifier{l.key}, Log: said.log()})
	mustSign(t, w, l, 0, 8)
	dir := w.logs["log.test/a"].dir
	// A flood of bad proofs first: forks must still find their place.
	long := newTestLog(t, "log.test/a").grow(8, "leaf").grow(8+maxEvidence+10, "x")
	for size := 9; size <= 8+maxEvidence+10; size++ {
		post(w, "old 8\n\n"+long.checkpoint(size))
	}
	for i := range maxEvidence + 10 {
		fork := newTestLog(t, "log.test/a", fmt.Sprint("fork", i)).grow(8, "leaf")
		for range 2 {
			if rec := post(w, fork.body(8, 8)); rec.Code != 409 {
				t.Fatalf("fork %d: %d", i, rec.Code)
			}
		}
	}
	for _, kind := range []string{"fork", "mismatch"} {
		files, _ := filepath.Glob(filepath.Join(dir, kind+"-*.json"))
		if len(files) != maxEvidence {
			t.Errorf("%d files of kind %s, want %d", len(files), kind, maxEvidence)
		}
	}
	if n := strings.Count(said.String(), "FORK"); n != 1 {
		t.Errorf("said the fork %d times within a minute:\n%s", n, said.String())
	}
	files, _ := filepath.Glob(filepath.Join(dir, "fork-*.json"))
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var e evidence
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	// Anybody with the log's key can convict it from the file alone.
	one, err1 := note.Open([]byte(e.Cosigned), note.VerifierList(l.key))
	two, err2 := note.Open([]byte(e.Offered), note.VerifierList(l.key))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	a, err1 := parseTree(one.Text)
	c, err2 := parseTree(two.Text)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if a.size != c.size || a.root == c.root {
		t.Errorf("no fork: %v and %v", a, c)
	}
}

func TestDiskTrouble(t *testing.T) {
	if os.Getuid() == 0 {
		// Root may write anywhere: a directory in the file's place does it too.
		t.Log("as root: by a directory in the way")
	}
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	var said words
	w := open(t, Options{Logs: []note.Verifier{l.key}, Log: said.log()})
	mustSign(t, w, l, 0, 8)
	path := w.logs["log.test/a"].path()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	rec := post(w, l.body(8, 9))
	if rec.Code != 500 || strings.Contains(rec.Body.String(), "—") || strings.Contains(rec.Body.String(), w.o.Dir) {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if !strings.Contains(said.String(), `msg="no cosignature" log=log.test/a size=9`) {
		t.Errorf("said %q", said.String())
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	mustSign(t, w, l, 8, 9)
}
