package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests of the ledger on its real parts: Kafka, toxiproxy, and the built
// programs as processes that are killed. Their names have Real, so they run in
// CI's step of that name.

// strict reports whether the figures are held to what is promised, and the runs
// have their full length.
func strict() bool { return os.Getenv("ASSAY_LONG") == "1" }

var built struct {
	sync.Mutex
	dir  string
	done map[string]error
}

// TestMain takes away what tests built for each other.
func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // nothing to be done about it
	}
	os.Exit(code)
}

// assay gives the program: the one in BIN, or one that is built now.
func assayProgram(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("BIN"); dir != "" {
		return filepath.Join(dir, "assay")
	}
	return goProgram(t, "assay", "github.com/assay-bench/assay/cmd/assay")
}

func statementsProgram(t *testing.T) string {
	t.Helper()
	return goProgram(t, "statements", "github.com/assay-bench/assay/tools/statements")
}

// goProgram builds a program once for all tests.
func goProgram(t *testing.T, name, pkg string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "acceptance")
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.done = dir, map[string]error{}
	}
	bin := filepath.Join(built.dir, name)
	err, ok := built.done[name]
	if !ok {
		var out []byte
		if out, err = exec.Command("go", "build", "-o", bin, pkg).CombinedOutput(); err != nil {
			err = fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		built.done[name] = err
	}
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// daemon is a process that runs until it is ended; it ends with the test at the
// latest, with all that it started.
type daemon struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// startDaemon starts a program. What it prints is appended to a file of its name,
// so that the words of all its lives are there.
func startDaemon(t *testing.T, dir, name string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	fmt.Fprintf(out, "--- %s: %s\n", time.Now().Format("15:04:05.000"), strings.Join(args, " "))
	d.cmd = exec.Command(args[0], args[1:]...)
	d.cmd.Stdout, d.cmd.Stderr = out, out
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = d.cmd.Wait(); close(d.done) }()
	t.Cleanup(d.kill)
	return d
}

// kill ends it at once, as kill -9 does.
func (d *daemon) kill() {
	_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-d.done
}

// stop asks it to end, and gives its exit code.
func (d *daemon) stop(wait time.Duration) int {
	d.t.Helper()
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	return d.end(wait)
}

// end waits for its end.
func (d *daemon) end(wait time.Duration) int {
	d.t.Helper()
	select {
	case <-d.done:
	case <-time.After(wait):
		d.kill()
		d.t.Fatalf("%s did not end within %s:\n%s", d.name, wait, d.said())
	}
	return d.cmd.ProcessState.ExitCode()
}

func (d *daemon) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// said is the end of what it printed.
func (d *daemon) said() string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	if len(b) > 4000 {
		b = b[len(b)-4000:]
	}
	return string(b)
}

// command runs one of the program's commands and must see it end with a code.
func command(t *testing.T, exit int, args ...string) string {
	t.Helper()
	r := run(t, assayProgram(t), args...)
	if r.exit != exit {
		t.Fatalf("assay %s: exit %d, want %d\n%s%s", strings.Join(args, " "), r.exit, exit, r.stdout, r.stderr)
	}
	return r.stdout + r.stderr
}

// until waits for something that comes by itself.
func until(t *testing.T, what string, wait time.Duration, ok func() (bool, string)) {
	t.Helper()
	end := time.Now().Add(wait)
	for {
		done, at := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s: %s", what, wait, at)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// office is all of a ledger but Kafka: a log, its notary, one witness, and the
// keys of all of them.
type office struct {
	t       *testing.T
	dir     string
	brokers string
	phrase  string // file with the passphrase of all keys
	policy  string // file
	trust   string // file: the authority's statement
	url     string // of the notary
	logKey  string // vkey
	witKey  string // vkey

	notary, witness *daemon
}

const origin = "log.example.org/acceptance"

// openOffice makes the keys and starts the witness; trust may come later.
func openOffice(t *testing.T, brokers []string, trust string) *office {
	t.Helper()
	dir := t.TempDir()
	o := &office{
		t: t, dir: dir, brokers: strings.Join(brokers, ","), trust: trust,
		phrase: filepath.Join(dir, "passphrase"), policy: filepath.Join(dir, "policy"),
	}
	write(t, o.phrase, "not a secret\n", 0o600)
	key := func(name string, args ...string) string {
		command(t, 0, append([]string{"ledger", "keygen", filepath.Join(dir, name), "--passphrase-file", o.phrase}, args...)...)
		b, err := os.ReadFile(filepath.Join(dir, name+".vkey"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	o.logKey = key("log", "--kind", "log", "--name", origin)
	o.witKey = key("witness", "--kind", "witness", "--name", "witness.example.org")
	at := freeAddress(t)
	write(t, o.policy, fmt.Sprintf("log %s\nwitness first %s http://%s/\nquorum first\n", o.logKey, o.witKey, at), 0o644)
	witness := []string{
		assayProgram(t), "ledger", "witness", "--dir", filepath.Join(dir, "witness"), "--key", filepath.Join(dir, "witness.key"), "--name", "witness.example.org",
		"--passphrase-file", o.phrase, "--policy", o.policy, "--listen", at,
	}
	command(t, 0, append(witness[1:len(witness):len(witness)], "--new")...)
	o.witness = startDaemon(t, dir, "witness", witness...)
	o.url = "http://" + freeAddress(t)
	until(t, "the witness answers", 20*time.Second, func() (bool, string) {
		_, err := get("http://" + at + "/healthz")
		return err == nil, fmt.Sprint(err, o.witness.said())
	})
	return o
}

func (o *office) notaryDir() string { return filepath.Join(o.dir, "notary") }
func (o *office) logDir() string    { return filepath.Join(o.dir, "notary", "log") }

// startNotary starts the notary, which may have been killed before.
func (o *office) startNotary() {
	o.t.Helper()
	o.notary = startDaemon(o.t, o.dir, "notary", assayProgram(o.t), "ledger", "notary",
		"--kafka", o.brokers, "--dir", o.notaryDir(), "--trust", o.trust,
		"--key", filepath.Join(o.dir, "log.key"), "--origin", origin, "--passphrase-file", o.phrase,
		"--policy", o.policy, "--checkpoint-interval", "1s", "--listen", strings.TrimPrefix(o.url, "http://"))
}

// tend looks whether the notary goes on: nothing but us may end it.
func (o *office) tend() {
	o.t.Helper()
	if o.notary.ended() {
		o.t.Fatalf("the notary ended: exit %d\n%s", o.notary.cmd.ProcessState.ExitCode(), o.notary.said())
	}
}

// size is that of the published checkpoint, 0 while there is none. It is read
// from the disk, where it also is while the notary is dead.
func (o *office) size() int64 {
	raw, err := os.ReadFile(filepath.Join(o.logDir(), "checkpoint"))
	if err != nil {
		return 0
	}
	f := strings.SplitN(string(raw), "\n", 3)
	if len(f) < 3 {
		return 0
	}
	n, _ := strconv.ParseInt(f[1], 10, 64)
	return n
}

// logged is how many entries the notary has written, published or not, by the
// file that has 16 bytes for each.
func (o *office) logged() int64 {
	st, err := os.Stat(filepath.Join(o.notaryDir(), "ids"))
	if err != nil {
		return 0
	}
	return st.Size() / 16
}

// covers waits until a checkpoint of exactly this size is served.
func (o *office) covers(size int64, wait time.Duration) {
	o.t.Helper()
	until(o.t, fmt.Sprintf("a checkpoint of size %d", size), wait, func() (bool, string) {
		o.tend()
		n := o.size()
		if n > size {
			o.t.Fatalf("the checkpoint has %d entries; there are %d records", n, size)
		}
		_, err := get(o.url + "/checkpoint")
		return n == size && err == nil, fmt.Sprintf("it has %d, %v; notary: %s", n, err, o.notary.said())
	})
}

// nodes are the program that plays nodes.
type nodes struct {
	t     *testing.T
	dir   string
	args  []string
	d     *daemon
	count int
}

// makeNodes makes their keys.
func makeNodes(t *testing.T, brokers []string, count int, rate float64, more ...string) *nodes {
	t.Helper()
	n := &nodes{t: t, dir: t.TempDir(), count: count}
	n.args = append([]string{statementsProgram(t), "-dir", n.dir, "-brokers", strings.Join(brokers, ","),
		"-count", strconv.Itoa(count), "-rate", fmt.Sprint(rate)}, more...)
	if r := run(t, n.args[0], append(n.args[1:len(n.args):len(n.args)], "-keys")...); r.exit != 0 {
		t.Fatalf("statements: exit %d: %s", r.exit, r.stderr)
	}
	return n
}

func (n *nodes) start()        { n.t.Helper(); n.d = startDaemon(n.t, n.dir, "statements", n.args...) }
func (n *nodes) trust() string { return filepath.Join(n.dir, "authority.pub") }

// accepted is how many ids were accepted until now.
func (n *nodes) accepted() int {
	st, err := os.Stat(filepath.Join(n.dir, "accepted"))
	if err != nil {
		return 0
	}
	return int(st.Size() / 27)
}

// ids are those that were accepted.
func (n *nodes) ids() map[string]bool {
	n.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "accepted"))
	if err != nil {
		n.t.Fatal(err)
	}
	out := map[string]bool{}
	for line := range bytes.Lines(b) {
		id := strings.TrimSuffix(string(line), "\n")
		if len(id) != 26 || out[id] {
			n.t.Fatalf("accepted: %q is there twice, or is no id", id)
		}
		out[id] = true
	}
	return out
}

// finish waits until the nodes have said all, and all of it is acknowledged.
func (n *nodes) finish(wait time.Duration) {
	n.t.Helper()
	if code := n.d.end(wait); code != 0 {
		n.t.Fatalf("statements: exit %d\n%s", code, n.d.said())
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func get(url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status + ": " + strings.TrimSpace(string(b[:min(len(b), 200)])))
	}
	return b, nil
}
