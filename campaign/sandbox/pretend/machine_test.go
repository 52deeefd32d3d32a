package pretend

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// identity is a key, and its line as in authorized_keys.
func identity(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s, string(ssh.MarshalAuthorizedKey(s.PublicKey()))
}

// serve runs a machine and gives its address.
func serve(t *testing.T, m Machine, home string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- m.Serve(ctx, home, func(address string) error { ready <- address; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case address := <-ready:
		return address
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return ""
}

func dial(address string, key ssh.Signer) (*ssh.Client, error) {
	return ssh.Dial("tcp", address, &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, Timeout: 10 * time.Second,
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // whose it is says nothing here
	})
}

// A machine runs what the owner of its key says, in its own home directory, and shows
// the card that was rented.
func TestMachine(t *testing.T) {
	mine, line := identity(t)
	home := t.TempDir()
	m := Machine{ID: "7", Key: line, OnStart: `echo "$CONTAINER_ID" >started`, Env: []string{"CONTAINER_ID=7"}, GPU: "RTX 3090", VRAM: 24 << 30}
	address := serve(t, m, home)
	if b, err := os.ReadFile(filepath.Join(home, "started")); err != nil || string(b) != "7\n" {
		t.Errorf("the start script left %q: %v", b, err)
	}
	other, _ := identity(t)
	if c, err := dial(address, other); err == nil {
		c.Close()
		t.Error("a stranger's key was let in")
	}
	c, err := dial(address, mine)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct {
		line, in, out string
		status        int
	}{
		{`cat >"$HOME/sent"`, "bytes\x00of a program", "", 0},
		{`cat "$HOME/sent"; pwd`, "", "bytes\x00of a program" + home + "\n", 0},
		{`echo gone >&2; exit 3`, "", "", 3},
		{`sleep 100 >/dev/null 2>&1 </dev/null & echo $! >"$HOME/pid"`, "", "", 0}, // what goes on is not waited for
		{`kill "$(cat "$HOME/pid")"`, "", "", 0},
		{`nvidia-smi --query-gpu=name,uuid,driver_version,memory.total,memory.free --format=csv,noheader,nounits`, "", "NVIDIA GeForce RTX 3090, GPU-7, 550.54.15, 24576, 24176\n", 0},
		{`pkill -x ollama`, "", "", 1}, // none of this machine's
		{`pkill -f something`, "", "", 1},
	} {
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		s.Stdin, s.Stdout = strings.NewReader(tt.in), &out
		status := 0
		var exit *ssh.ExitError
		if err := s.Run(tt.line); errors.As(err, &exit) {
			status = exit.ExitStatus()
		} else if err != nil {
			t.Fatalf("%s: %v", tt.line, err)
		}
		if out.String() != tt.out || status != tt.status {
			t.Errorf("%s: %q, status %d", tt.line, out.String(), status)
		}
	}
}

// A key works as late as the cloud says.
func TestKeyWorksLater(t *testing.T) {
	mine, line := identity(t)
	const late = 300 * time.Millisecond
	began := time.Now()
	address := serve(t, Machine{Key: line, KeyAfter: late}, t.TempDir())
	for {
		c, err := dial(address, mine)
		if err == nil {
			c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(began); took < late {
		t.Errorf("it worked after %s", took)
	}
}

// What cannot be a machine is refused before anything runs.
func TestMachineRefuses(t *testing.T) {
	_, line := identity(t)
	for name, m := range map[string]Machine{"no key": {}, "a start script that fails": {Key: line, OnStart: "exit 1"}} {
		if err := m.Serve(t.Context(), t.TempDir(), func(string) error { t.Error("it is ready"); return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
