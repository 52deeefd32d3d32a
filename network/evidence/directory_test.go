package evidence_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/network/evidence"
)

// directorySuite serves a directory as the server does.
func directorySuite(t *testing.T, dir string) suite {
	t.Helper()
	var late atomic.Int64
	d, err := evidence.NewDirectory(evidence.DirectoryOptions{
		Dir: dir, Now: func() time.Time { return time.Now().Add(time.Duration(late.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/objects/", d)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return suite{
		store: d,
		base:  base,
		tamper: func(t *testing.T, name, with string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(with), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		expired: func(t *testing.T, o evidence.Object) evidence.Link {
			t.Helper()
			l, err := d.Presign(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			late.Store(int64(time.Until(l.Expires)))
			t.Cleanup(func() { late.Store(0) })
			return l
		},
		status: map[string]int{
			"wrong bytes":           http.StatusBadRequest,
			"wrong bytes, its sum":  http.StatusForbidden,
			"shorter":               http.StatusBadRequest,
			"longer":                http.StatusRequestEntityTooLarge,
			"no length":             http.StatusLengthRequired,
			"no checksum":           http.StatusBadRequest,
			"another object's name": http.StatusForbidden,
			"another object":        http.StatusForbidden,
			"no signature":          http.StatusBadRequest,
			"forged":                http.StatusForbidden,
			"a later expiry":        http.StatusForbidden,
			"read by the link":      http.StatusMethodNotAllowed,
		},
	}
}

func TestDirectoryConforms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "evidence")
	conform(t, directorySuite(t, dir))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "lock" && len(e.Name()) != 64 {
			t.Errorf("%s was left behind", e.Name())
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others can read %s: %v %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestDirectoryIsOfOneProcess(t *testing.T) {
	dir := t.TempDir()
	directorySuite(t, dir)
	if _, err := evidence.NewDirectory(evidence.DirectoryOptions{Dir: dir}); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
}

// The links of a server do not work at another one: keys are its own.
func TestDirectoryLinksAreOfOneStart(t *testing.T) {
	one, two := directorySuite(t, t.TempDir()), directorySuite(t, t.TempDir())
	l, err := one.store.Presign(t.Context(), object("x"))
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := two.follow(t, l, "x").send(t); status != http.StatusForbidden {
		t.Errorf("%d", status)
	}
	two.absent(t, object("x"))
}

// Whatever the path, nothing is stored but under a hash: with the mux in front,
// and without.
func TestDirectoryPathTricks(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "evidence")
	s := directorySuite(t, dir)
	good := s.link(t, "x")
	query := good.url[strings.Index(good.url, "?"):]
	name := object("x").SHA256
	for _, path := range []string{
		"/objects/", "/objects/lock", "/objects/../" + name, "/objects/%2e%2e%2f" + name, "/objects/..%2f..%2fetc%2fpasswd",
		"/objects//" + name, "/objects/" + name + "/", "/objects/" + name + "%00", "/objects/./" + name, "/objects/" + strings.ToUpper(name),
		"/objects/" + name + ".tmp", "/objects/.." + name,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.base.String()+path+query, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(checksumHeader, checksum("x"))
		w := httptest.NewRecorder()
		s.store.(http.Handler).ServeHTTP(w, req)
		if w.Code < 400 || w.Code > 499 {
			t.Errorf("%s: %d", path, w.Code)
		}
		resp, err := http.DefaultTransport.RoundTrip(req.Clone(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 300 {
			t.Errorf("%s through the mux: %d", path, resp.StatusCode)
		}
	}
	for dir, most := range map[string]int{above: 1, dir: 1} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > most {
			t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
}

func TestDirectoryRefusesALinkInTheObjectsPlace(t *testing.T) {
	dir := t.TempDir()
	s := directorySuite(t, dir)
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, object("x").SHA256)); err != nil {
		t.Fatal(err)
	}
	if status, answer := s.link(t, "x").send(t); status != http.StatusConflict {
		t.Errorf("%d %s", status, answer)
	}
	if err := s.store.Confirm(t.Context(), object("x")); err == nil {
		t.Error("the target of a link is confirmed")
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "kept" {
		t.Errorf("the target has %q, %v", b, err)
	}
}

// child serves a directory until it is killed. It prints its address and a link
// for the object that the variable names.
func child(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	d, err := evidence.NewDirectory(evidence.DirectoryOptions{Dir: dir})
	fail(err)
	var o evidence.Object
	fail(json.Unmarshal([]byte(os.Getenv("EVIDENCE_OBJECT")), &o))
	l, err := d.Presign(context.Background(), o)
	fail(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fail(err)
	fmt.Printf("http://%s%s\n", listener.Addr(), l.URL)
	fail(http.Serve(listener, d))
}

func TestDirectoryKilledWhileUploading(t *testing.T) {
	dir, text := t.TempDir(), content(t)
	o, err := json.Marshal(object(text))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EVIDENCE_CHILD="+dir, "EVIDENCE_OBJECT="+string(o))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	upload{
		method: http.MethodPut, url: strings.TrimSpace(line), body: text,
		headers: map[string]string{"Content-Length": fmt.Sprint(len(text)), checksumHeader: checksum(text)},
	}.half(t)
	for unfinished(t, dir) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, err := os.Lstat(filepath.Join(dir, object(text).SHA256)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half of it has its name: %v", err)
	}
	s := directorySuite(t, dir)
	if n := unfinished(t, dir); n != 0 {
		t.Errorf("%d unfinished files are kept", n)
	}
	s.absent(t, object(text))
	s.link(t, text).stored(t)
}

func unfinished(t *testing.T, dir string) (n int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if disk.Unfinished(e.Name()) {
			n++
		}
	}
	return n
}
