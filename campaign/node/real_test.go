package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// pins keeps host keys in memory.
type pins struct {
	mu   sync.Mutex
	keys map[string]string
}

func (p *pins) HostKey(_ context.Context, id string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[id], nil
}

func (p *pins) PinHostKey(_ context.Context, id, key string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = map[string]string{}
	}
	if p.keys[id] == "" {
		p.keys[id] = key
	}
	return p.keys[id], nil
}

// rented is a machine that lets a key of a new master in.
func rented(t *testing.T) (*parttest.Machine, Options) {
	t.Helper()
	master, err := OpenMaster(filepath.Join(t.TempDir(), "master"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := master.PublicKey("test")
	if err != nil {
		t.Fatal(err)
	}
	m := parttest.SSHD(t, key)
	m.Program("nvidia-smi", `#!/bin/sh
case $1 in
--query-gpu=*) echo "NVIDIA GeForce RTX 4090, GPU-0f, 550.54.15, 24564, 24100" ;;
*) printf 'Driver Version : 550.54.15\nCUDA Version   : 12.4\n' ;;
esac
`)
	signer, err := master.Signer("test")
	if err != nil {
		t.Fatal(err)
	}
	return m, Options{Address: m.Address, User: m.User, Instance: "i-1", Signer: signer, Pins: &pins{}}
}

func connect(t *testing.T, o Options) *Node {
	t.Helper()
	n, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	if err := n.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// engine puts an Ollama on the machine: our own simulator behind its commands. Its
// first start fails, as one does that runs into another's end.
func engine(m *parttest.Machine) {
	m.Program("ollama", `#!/bin/sh
cd "$HOME"
case $1 in
serve)
  [ -f started ] || { touch started; echo "first start fails" >&2; exit 1; }
  exec .assay/node simulate --listen 127.0.0.1:11434 --model qwen2:7b --like ollama --ttft 20ms --itl 2ms ;;
pull) touch "pulled" ;;
list) echo "NAME ID SIZE MODIFIED"; [ ! -f pulled ] || echo "qwen2:7b 0f 4GB now" ;;
esac
`)
}

// From the first connection to the examined run, on a machine that behaves.
func TestRealCampaignNodeMeasures(t *testing.T) {
	m, o := rented(t)
	if !m.Isolated {
		t.Skip("the engine's port is this machine's own: no namespaces are permitted here")
	}
	binary, err := parttest.NodeBinary()
	if err != nil {
		t.Fatal(err)
	}
	engine(m)
	n := connect(t, o)
	ctx := t.Context()
	machine, err := n.Inspect(ctx)
	if err != nil || machine.GoArch() == "" || machine.CUDA != "12.4" || machine.FreeMiB() != 24100 || machine.GPUs[0].Driver != "550.54.15" {
		t.Fatalf("%+v, %v", machine, err)
	}
	for range 2 { // the second finds it there
		if err := n.Install(ctx, binary); err != nil {
			t.Fatal(err)
		}
	}
	eo := EngineOptions{Model: "qwen2:7b", ReadyWithin: 3 * time.Second, Every: 100 * time.Millisecond}
	if err := n.StartEngine(ctx, Ollama, eo); err != nil {
		t.Fatal(err)
	}
	loaded, err := n.LoadModel(ctx, Ollama, eo)
	if err != nil || loaded.First <= 0 || loaded.UsedMiB != 464 {
		t.Fatalf("%+v, %v", loaded, err)
	}
	b := Bench{Run: "run-1", Engine: Ollama, Model: "qwen2:7b", Duration: 3 * time.Second, Streams: 2}
	for range 2 { // as a worker does that was killed before it heard the answer
		if err := n.StartBench(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	looks := 0
	exit, err := Watch(ctx, b, WatchOptions{
		Dial: func(ctx context.Context) (*Node, error) {
			return Await(ctx, o, Patience{Within: 20 * time.Second, Every: 100 * time.Millisecond})
		},
		Every: 200 * time.Millisecond,
		Seen:  func(Look, Watchdog) { looks++ },
	})
	if err != nil || exit != 0 || looks == 0 {
		logs, _ := n.Logs(ctx, b.Run)
		t.Fatalf("exit %d, %v after %d looks\n%s", exit, err, looks, logs)
	}
	dir := filepath.Join(t.TempDir(), "run")
	files, err := n.Collect(ctx, b.Run, dir, Limits{})
	if err != nil || len(files) < 5 {
		t.Fatalf("%+v, %v", files, err)
	}
	run, sum, err := Examine(dir, Want{Model: "qwen2:7b"})
	if err != nil {
		t.Fatal(err)
	}
	if run.Status() != "complete" || len(sum.Stages) == 0 {
		t.Errorf("status %s, %d stages", run.Status(), len(sum.Stages))
	}
	forge(t, dir)
	if _, _, err := Examine(dir, Want{Model: "qwen2:7b"}); !errors.Is(err, ErrForged) || !strings.Contains(err.Error(), "does not follow from its requests") {
		t.Errorf("a forged summary: %v", err)
	}
	if _, _, err := Examine(dir, Want{Model: "other"}); !errors.Is(err, ErrForged) || !strings.Contains(err.Error(), `"qwen2:7b", not "other"`) {
		t.Errorf("another model: %v", err)
	}
	// The engine's first start, which failed, is in the logs.
	if logs, err := n.Logs(ctx, b.Run); err != nil || !strings.Contains(logs, "first start fails") {
		t.Errorf("%v\n%s", err, logs)
	}
}

// forge makes a run faster than it was.
func forge(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "summary.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	figure := regexp.MustCompile(`"mean": ?[0-9]`)
	if !figure.Match(b) {
		t.Fatalf("no figure to forge in %.300s", b)
	}
	if err := os.WriteFile(path, figure.ReplaceAll(b, []byte(`"mean": 9`)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A key that is installed late is waited for; one that is never installed is not.
func TestRealCampaignNodeWaitsForItsKey(t *testing.T) {
	t.Parallel()
	m, o := rented(t)
	allowed := filepath.Join(m.Home, ".ssh", "authorized_keys")
	if err := os.Rename(allowed, allowed+".later"); err != nil {
		t.Fatal(err)
	}
	_, err := Await(t.Context(), o, Patience{Every: 50 * time.Millisecond, AuthGrace: 200 * time.Millisecond})
	if !errors.Is(err, ErrAuth) {
		t.Fatalf("a key that never comes: %v", err)
	}
	if key, _ := o.Pins.HostKey(t.Context(), "i-1"); key != "" {
		t.Errorf("the host key of a machine that did not let us in is pinned: %s", key)
	}
	tries := 0
	n, err := Await(t.Context(), o, Patience{Every: 50 * time.Millisecond, Tried: func(error) {
		if tries++; tries == 2 {
			if err := os.Rename(allowed+".later", allowed); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	if key, _ := o.Pins.HostKey(t.Context(), "i-1"); key != m.HostKey {
		t.Errorf("%q is pinned, and the machine has %q", key, m.HostKey)
	}
	stopped := errors.New("the provider stopped it")
	if _, err := Await(t.Context(), o, Patience{Alive: func(context.Context) error { return stopped }}); !errors.Is(err, stopped) {
		t.Errorf("a machine that the provider stopped: %v", err)
	}
}

func TestRealCampaignNodeRefusesAnotherHostKey(t *testing.T) {
	t.Parallel()
	m, o := rented(t)
	connect(t, o).Close()
	m.NewHostKey()
	if _, err := Await(t.Context(), o, Patience{}); !errors.Is(err, ErrHostKey) || !strings.Contains(err.Error(), "is pinned") {
		t.Errorf("a changed host key: %v", err)
	}
	o.Instance = "i-2" // another instance at that address
	connect(t, o)
}

// The dead man ends a machine that nobody renews, and no other.
func TestRealCampaignDeadMan(t *testing.T) {
	t.Parallel()
	m, o := rented(t)
	n := connect(t, o)
	ended := filepath.Join(m.Home, "ended")
	m.Program("on-start", DeadMan(`touch "$HOME/ended"`, 4*time.Second))
	// A command of the list stands in for the boot.
	m.Program("nvidia-smi", "#!/bin/sh\non-start\necho 'RTX, GPU-0, 1, 10, 5'\n")
	if _, err := n.gpus(t.Context()); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < 6*time.Second; time.Sleep(500 * time.Millisecond) {
		if err := n.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(ended); err == nil {
		t.Fatal("it ended a machine whose lease was renewed")
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if _, err := os.Stat(ended); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("nobody renews, and the machine is still there")
		}
	}
}

// A machine that is gone does not answer keep-alives, and whoever waits hears so.
func TestRealCampaignNodeThatDies(t *testing.T) {
	t.Parallel()
	m, o := rented(t)
	o.KeepAlive = 100 * time.Millisecond
	m.Program("nvidia-smi", "#!/bin/sh\ntouch \"$HOME/asked\"; sleep 60\n")
	n := connect(t, o)
	failed := make(chan error, 1)
	go func() {
		_, err := n.gpus(t.Context())
		failed <- err
	}()
	for {
		if _, err := os.Stat(filepath.Join(m.Home, "asked")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	m.Kill()
	if err := <-failed; !errors.Is(err, ErrLost) {
		t.Errorf("the machine is gone: %v", err)
	}
}

// hostile is a machine with a run directory that somebody made up.
func hostile(t *testing.T) (*parttest.Machine, *Node, string) {
	t.Helper()
	m, o := rented(t)
	n := connect(t, o)
	dir := filepath.Join(m.Home, ".assay", "run-1", "run")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return m, n, dir
}

func TestRealCampaignHostileNode(t *testing.T) {
	t.Parallel()
	m, n, remote := hostile(t)
	at := func(name string) string { return filepath.Join(remote, name) }
	for _, c := range []struct {
		name  string
		plant func() error
		clear func()
		want  error
		why   string
	}{
		{
			name: "ten gigabytes",
			plant: func() error {
				return errors.Join(os.WriteFile(at("requests.jsonl"), nil, 0o600), os.Truncate(at("requests.jsonl"), 10<<30))
			},
			clear: func() { os.Remove(at("requests.jsonl")) },
			want:  ErrHostile, why: "requests.jsonl has 10737418240 bytes",
		},
		{
			name: "ten gigabytes that are said to be three bytes",
			plant: func() error {
				m.Program("cat", "#!/bin/sh\nexec head -c 10737418240 /dev/zero\n")
				return nil
			},
			clear: func() { os.Remove(filepath.Join(m.Home, "bin", "cat")) },
			want:  ErrHostile, why: "more than 3 bytes",
		},
		{
			name: "fewer bytes than said",
			plant: func() error {
				m.Program("cat", "#!/bin/sh\nprintf x\n")
				return nil
			},
			clear: func() { os.Remove(filepath.Join(m.Home, "bin", "cat")) },
			want:  ErrHostile, why: "sent 1 bytes of 3",
		},
		{
			name: "a wrong hash",
			plant: func() error {
				m.Program("sha256sum", "#!/bin/sh\necho "+strings.Repeat("0", 64)+"  -\n")
				return nil
			},
			clear: func() { os.Remove(filepath.Join(m.Home, "bin", "sha256sum")) },
			want:  ErrHostile, why: "and said 0000",
		},
		{
			name: "an endless answer",
			plant: func() error {
				m.Program("sha256sum", "#!/bin/sh\nexec head -c 10737418240 /dev/zero\n")
				return nil
			},
			clear: func() { os.Remove(filepath.Join(m.Home, "bin", "sha256sum")) },
			want:  ErrHostile, why: "more than 262144 bytes",
		},
		{
			name: "a path that leads out",
			plant: func() error {
				m.Program("stat", "#!/bin/sh\necho '3 regular file|run.json'; echo '3 regular file|../../.ssh/authorized_keys'\n")
				return nil
			},
			clear: func() { os.Remove(filepath.Join(m.Home, "bin", "stat")) },
			want:  ErrHostile, why: `"../../.ssh/authorized_keys", which is no file of a run`,
		},
		{
			name:  "a link",
			plant: func() error { return os.Symlink("/etc/passwd", at("events.jsonl")) },
			clear: func() { os.Remove(at("events.jsonl")) },
			want:  ErrHostile, why: "events.jsonl is a symbolic link",
		},
		{
			name:  "escapes in a file's name",
			plant: func() error { return os.WriteFile(at("\x1b[2Jrun.json"), nil, 0o600) },
			clear: func() { os.Remove(at("\x1b[2Jrun.json")) },
			want:  ErrHostile, why: "which is no file of a run",
		},
		{
			name: "no run at all", plant: func() error { return os.Rename(remote, remote+"-away") },
			clear: func() { os.Rename(remote+"-away", remote) },
			why:   "there is no run to collect",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.plant(); err != nil {
				t.Fatal(err)
			}
			defer c.clear()
			dir := filepath.Join(t.TempDir(), "run")
			_, err := n.Collect(t.Context(), "run-1", dir, Limits{})
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%v; want %q", err, c.why)
			}
			if size := sizeOf(t, dir); size > 64<<10 {
				t.Errorf("%d bytes were written", size)
			}
		})
	}
	// It goes on with a run that is good.
	if _, err := n.Collect(t.Context(), "run-1", filepath.Join(t.TempDir(), "run"), Limits{}); err != nil {
		t.Error(err)
	}
	m.Program("nvidia-smi", "#!/bin/sh\nprintf 'RTX \\033[31m4090, GPU-0, 1, 10, 5\\n'\n")
	if _, err := n.Inspect(t.Context()); !errors.Is(err, ErrHostile) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("escapes in a GPU's name: %v", err)
	}
	m.Program("nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2; exit 9\n")
	if _, err := n.Inspect(t.Context()); !errors.Is(err, ErrNoGPU) || !strings.Contains(err.Error(), "NVIDIA-SMI has failed") {
		t.Errorf("a driver that does not work: %v", err)
	}
}

func sizeOf(t *testing.T, dir string) (sum int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// JSON that nobody of ours wrote is refused before anybody uses it.
func TestRealCampaignForgedRun(t *testing.T) {
	t.Parallel()
	_, n, remote := hostile(t)
	for name, text := range map[string]string{
		"no manifest": "{}\n", "no JSON": "<html>", "too deep": strings.Repeat("[", 100000), "other": `{"format":"assay/run/v99"}`,
	} {
		if err := os.WriteFile(filepath.Join(remote, "run.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "run")
		if _, err := n.Collect(t.Context(), "run-1", dir, Limits{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Examine(dir, Want{}); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
