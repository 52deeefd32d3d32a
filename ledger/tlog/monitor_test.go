package tlog

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// served is a log over HTTP whose directory can be exchanged.
type served struct {
	*httptest.Server
	dir string
}

func serve(t *testing.T, dir string) *served {
	s := &served{dir: dir}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.FileServerFS(os.DirFS(s.dir)).ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func monitor(t *testing.T, src Source, o MonitorOptions) *Monitor {
	t.Helper()
	m, err := NewMonitor(t.Context(), src, testPolicy(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestMonitorFollowsAndMirrors(t *testing.T) {
	dir, mirror := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "mirror")
	state := filepath.Join(t.TempDir(), "state")
	s := serve(t, dir)
	a := startLog(t, dir, logOptions{batch: 1024, collect: 50 * time.Millisecond})
	at := 0
	for i, to := range []int{5, 5, 200, 256, 257, 600, 1100} {
		if to > at {
			a.append(t, history("a", at, to)...)
		}
		// A new monitor each time: all that it knows is in its files.
		m := monitor(t, open(t, s.URL), MonitorOptions{State: state, Mirror: mirror})
		seen, err := m.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if seen.Size != uint64(to) || seen.Before != uint64(at) || seen.First != (i == 0) || *seen.Mirrored != uint64(to) {
			t.Fatalf("at %d: %+v", to, seen)
		}
		at = to
		if r := fsckDir(t, mirror); !r.OK() || r.Size != uint64(to) || len(r.Notes) != 0 {
			t.Fatalf("the mirror at %d: %+v", to, r)
		}
	}
	a.end(t)
	got, err := os.ReadFile(state)
	if err != nil || !bytes.Equal(got, checkpointOf(t, dir)) {
		t.Fatal(err)
	}
	// The mirror has the same tiles as the log.
	for _, f := range files(t, mirror) {
		want, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Join(mirror, f)); !bytes.Equal(got, want) {
			t.Errorf("%s differs", f)
		}
	}
}

func TestMonitorShouts(t *testing.T) {
	base := t.TempDir()
	at := func(h string, sizes ...int) string {
		d := filepath.Join(base, h+strings.Repeat("i", len(sizes)), "log")
		makeLog(t, d, h, sizes...)
		return d
	}
	good, longer := at("a", 300), at("a", 300, 400)
	forked, forkedLonger, shorter := at("b", 300), at("b", 300, 400), filepath.Join(base, "short", "log")
	makeLog(t, shorter, "a", 200)

	broken := copyDir(t, longer)
	b, err := os.ReadFile(broken + "/tile/0/001.p/144")
	if err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if err := os.WriteFile(broken+"/tile/0/001.p/144", b, 0o644); err != nil {
		t.Fatal(err)
	}
	lying := copyDir(t, longer)
	b, err = os.ReadFile(lying + "/tile/entries/001.p/144")
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(lying+"/tile/entries/001.p/144", b, 0o644); err != nil {
		t.Fatal(err)
	}
	unsigned := copyDir(t, longer)
	raw := bytes.Replace(checkpointOf(t, unsigned), []byte("\n400\n"), []byte("\n401\n"), 1)
	if err := os.WriteFile(unsigned+"/checkpoint", raw, 0o644); err != nil {
		t.Fatal(err)
	}
	stranger := copyDir(t, longer)
	raw = append(checkpointOf(t, stranger), []byte("— stranger AAAAAAAAAAAAAAAA\n")...)
	if err := os.WriteFile(stranger+"/checkpoint", raw, 0o644); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name   string
		then   string
		mirror bool
		kind   error
		what   string
	}{
		{"fork of the same size", forked, false, ErrFork, "two checkpoints of 300 entries have different roots"},
		{"fork that is longer", forkedLonger, false, ErrFork, "the 400 entries that it signed now do not begin with the 300"},
		{"rollback", shorter, false, ErrRollback, "it had 300 entries and now has 200: entries 200..299 were taken away"},
		{"tiles of something else", broken, false, ErrAltered, "no proof that 400 entries go on from 300"},
		{"entries of something else", lying, true, ErrAltered, "its 400 entries do not give the root"},
		{"size changed", unsigned, false, ErrUnsigned, "does not fit"},
		{"signed by a stranger too", stranger, false, ErrUnsigned, "does not know"},
		{"grown", longer, true, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, good)
			o := MonitorOptions{State: filepath.Join(t.TempDir(), "state")}
			if c.mirror {
				o.Mirror = filepath.Join(t.TempDir(), "mirror")
			}
			m := monitor(t, open(t, s.URL), o)
			if _, err := m.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.dir = c.then
			_, err := m.Check(t.Context())
			if !errors.Is(err, c.kind) {
				t.Fatalf("%v", err)
			}
			if c.kind == nil {
				return
			}
			var alarm *Alarm
			if !errors.As(err, &alarm) || !strings.Contains(alarm.What, c.what) || len(alarm.Evidence) != 2 {
				t.Fatalf("%v", err)
			}
			for i, want := range [][]byte{checkpointOf(t, good), checkpointOf(t, c.then)} {
				if got, err := os.ReadFile(alarm.Evidence[i]); err != nil || !bytes.Equal(got, want) {
					t.Errorf("evidence %d: %v", i, err)
				}
			}
			// It does not forget: a new monitor says the same, and keeps no more files.
			n := len(files(t, filepath.Dir(o.State)))
			again := monitor(t, open(t, s.URL), o)
			if _, err := again.Check(t.Context()); !errors.Is(err, c.kind) {
				t.Fatalf("the second time: %v", err)
			}
			if len(files(t, filepath.Dir(o.State))) != n {
				t.Error("evidence was kept twice")
			}
			s.dir = longer
			if _, err := again.Check(t.Context()); err != nil {
				t.Errorf("after it was put right: %v", err)
			}
			if c.mirror {
				if r := fsckDir(t, o.Mirror); !r.OK() || r.Size != 400 {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

func TestMonitorDoesNotTakeAnErrorPageForALog(t *testing.T) {
	s := serve(t, t.TempDir())
	if err := os.WriteFile(s.dir+"/checkpoint", []byte("<html>busy</html>"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := monitor(t, open(t, s.URL), MonitorOptions{State: filepath.Join(t.TempDir(), "s")}).Check(t.Context())
	var alarm *Alarm
	if err == nil || errors.As(err, &alarm) {
		t.Fatal(err)
	}
}

func TestHostileServer(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it went elsewhere") }))
	t.Cleanup(elsewhere.Close)
	stop := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/endless/", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/away/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	mux.HandleFunc("/loop/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) })
	mux.HandleFunc("/slow/", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	})
	mux.HandleFunc("/drip/", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-time.After(20 * time.Millisecond):
			case <-stop:
				return
			}
		}
	})
	mux.HandleFunc("/short/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 33)) })
	mux.HandleFunc("/cut/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("x"))
	})
	mux.HandleFunc("/broken/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	s := httptest.NewServer(mux)
	t.Cleanup(func() { // after the subtests, which run beside each other
		close(stop)
		s.Close()
	})
	for _, c := range []struct{ path, want string }{
		{"endless", "more than 8192 bytes"},
		{"away", "sent us elsewhere"},
		{"loop", "sent us on more than 3 times"},
		{"slow", "exceeded"},
		{"drip", "exceeded"},
		{"short", "33 bytes where 8192 were due"},
		{"cut", "unexpected EOF"},
		{"broken", "502"},
		{"nothing", "not exist"},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			l, err := Open(s.URL+"/"+c.path, OpenOptions{Timeout: 300 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := readTile(ctx, l, 0, 0, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if _, err := l.Checkpoint(ctx); err == nil && c.path != "short" {
				t.Error("a checkpoint?")
			}
		})
	}
}
