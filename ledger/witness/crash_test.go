package witness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"k8s.io/klog/v2"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/parttest"
)

// With WITNESS_DIR set the test binary is a witness in a process of its own, for
// parents that kill it or fail its system calls.
func TestMain(m *testing.M) {
	klog.LogToStderr(false) // Tessera's
	klog.SetOutput(io.Discard)
	if dir := os.Getenv("WITNESS_DIR"); dir != "" {
		if err := child(dir, os.Getenv("WITNESS_DIES") != ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child serves until its standard input ends. One that dies kills itself when
// the answer's first byte would leave.
func child(dir string, dies bool) error {
	skey, vkey, err := note.GenerateKey(strings.NewReader(strings.Repeat("log.test/a", 64)), "log.test/a")
	if err != nil {
		return err
	}
	_ = skey
	key, err := note.NewVerifier(vkey)
	if err != nil {
		return err
	}
	o := Options{
		Dir: dir, Logs: []note.Verifier{key}, Signer: newCosigner("witness.test/w1", time.Now),
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if err := Create(o); err != nil && !errors.Is(err, ErrBegun) {
		return err
	}
	w, err := New(o)
	if err != nil {
		return err
	}
	h := http.Handler(w)
	if dies {
		h = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.ServeHTTP(dying{rw}, r) })
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + ln.Addr().String())
	go func() { _ = http.Serve(ln, h) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

type dying struct{ http.ResponseWriter }

func (dying) Write([]byte) (int, error) {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// start runs a child, under a wrapper if one is given.
func start(t *testing.T, dir string, dies bool, wrapper ...string) (url string, stop func() string) {
	t.Helper()
	args := append(wrapper, os.Args[0])
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "WITNESS_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	if dies {
		cmd.Env = append(cmd.Env, "WITNESS_DIES=1")
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(line), func() string {
		in.Close()
		_ = cmd.Wait() // how it ended is the test's to know
		released(t, filepath.Join(dir, "lock"))
		return stderr.String()
	}
}

// released waits until nobody has the lock: a wrapper may end before the last
// thread of what it ran.
func released(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		return // it was never taken
	}
	defer f.Close()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if locked, err := disk.Locked(f); err == nil && !locked {
			return
		}
	}
	t.Errorf("%s is still locked", path)
}

func httpPost(url, body string) (int, string) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(url+"/add-checkpoint", "", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// Killed between the record and the answer: the record is there, nobody has the
// signature, the log learns the size and gets it, and a fork does not.
func TestKilledBeforeTheAnswer(t *testing.T) {
	dir := t.TempDir()
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	fork := newTestLog(t, "log.test/a").grow(20, "other")
	url, stop := start(t, dir, true)
	if code, body := httpPost(url, l.body(0, 8)); code != 0 {
		t.Fatalf("it was to die: %d %s", code, body)
	}
	stop()
	url, stop = start(t, dir, false)
	defer stop()
	if code, body := httpPost(url, fork.body(0, 8)); code != 409 {
		t.Errorf("fork: %d %s", code, body)
	}
	if code, body := httpPost(url, l.body(0, 8)); code != 409 || body != "8\n" {
		t.Fatalf("the size: %d %s", code, body)
	}
	code, body := httpPost(url, l.body(8, 8))
	if code != 200 {
		t.Fatalf("the same tree: %d %s", code, body)
	}
	checkCosignature(t, l.checkpoint(8), body)
}

// Each system call that touches the witness's files fails in turn, and is killed
// in turn: never a signature without its record, never a memory that is lost.
func TestFaults(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		parttest.Need(t, "no strace")
	}
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	// The new file has a name that cannot be guessed, so its calls are known by
	// being the only ones of their kind, or the first.
	for _, fault := range []struct{ call, inject, what string }{
		{"openat", "error=ENOSPC", "file"},
		{"openat", "error=EACCES", "file"},
		{"openat", "signal=KILL", "file"},
		{"fchmod", "error=EIO", "any"},
		{"fchmod", "signal=KILL", "any"},
		{"fsync", "error=EIO", "any"},
		{"fsync", "error=ENOSPC", "any"},
		{"fsync", "signal=KILL", "any"},
		{"renameat", "error=EIO", "file"},
		{"renameat", "error=ENOSPC", "file"},
		{"renameat", "signal=KILL", "file"},
		{"fsync", "error=EIO", "dir"},
		{"fsync", "signal=KILL", "dir"},
	} {
		t.Run(fault.call+" "+fault.inject+" "+fault.what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := open(t, Options{Dir: dir, Logs: []note.Verifier{l.key}})
			mustSign(t, w, l, 0, 8)
			logDir := w.logs["log.test/a"].dir
			w.Close()
			args := []string{strace, "-f", "-qq", "-o", "/dev/null",
				"-e", "trace=" + fault.call, "-e", "inject=" + fault.call + ":" + fault.inject + ":when=1"}
			if fault.what != "any" {
				args = append(args, "-P", logDir)
			}
			url, stop := start(t, dir, false, args...)
			if url == "" {
				parttest.Need(t, "strace cannot trace here: "+stop())
			}
			code, body := httpPost(url, l.body(8, 13))
			again, _ := httpPost(url, l.body(13, 13))
			said := stop()
			kill := strings.HasPrefix(fault.inject, "signal")
			switch {
			case kill && code != 0:
				t.Fatalf("it was to die: %d %s", code, body)
			case !kill && (code != 500 || strings.Contains(body, "—")):
				t.Fatalf("%d %s", code, body)
			case !kill && (!strings.Contains(said, "no cosignature") || !strings.Contains(said, "size=13")):
				t.Errorf("said %q", said)
			}
			// Before the file is in its place the old tree is what counts; after it,
			// the new one, which is signed when asked for again (strace counts by
			// thread, so the second call may fail too).
			if !kill && again != 409 && fault.what != "dir" || fault.what == "dir" && !kill && again != 200 && again != 500 {
				t.Errorf("asked again: %d", again)
			}
			w = open(t, Options{Dir: dir, Logs: []note.Verifier{l.key}})
			switch size := w.logs["log.test/a"].last.size; size {
			case 8:
				mustSign(t, w, l, 8, 13)
			case 13:
				mustSign(t, w, l, 13, 20)
			default:
				t.Errorf("remembers size %d", size)
			}
			fork := newTestLog(t, "log.test/a").grow(20, "other")
			if rec := post(w, fork.body(0, 8)); rec.Code != 409 {
				t.Errorf("fork: %d", rec.Code)
			}
		})
	}
}

// At the start, a directory that cannot be read is no empty directory.
func TestUnreadableState(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		parttest.Need(t, "no strace")
	}
	l := newTestLog(t, "log.test/a").grow(20, "leaf")
	dir := t.TempDir()
	w := open(t, Options{Dir: dir, Logs: []note.Verifier{l.key}})
	mustSign(t, w, l, 0, 8)
	path := w.logs["log.test/a"].path()
	w.Close()
	for _, fault := range []string{"openat:error=EACCES", "openat:error=EMFILE", "read:error=EIO"} {
		call, _, _ := strings.Cut(fault, ":")
		url, stop := start(t, dir, false, strace, "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", "trace="+call, "-e", "inject="+fault)
		if said := stop(); url != "" || !strings.Contains(said, "read what was signed") {
			t.Errorf("%s: it serves at %q, and says %q", fault, url, said)
		}
	}
}
