package agent

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/network/agent"
)

// Flags win over the file, and what is missing or wrong is said with what to do.
func TestFlagsAndFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte("server: {url: 'https://a.example'}\nstate: /s\ncheck_budget: 2%\ngpu: required\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := flags{config: file, server: "https://b.example", gpu: "none", budget: "0.5%"}
	given := map[string]bool{"server": true, "gpu": true, "check-budget": true}
	c, err := f.resolve(func(name string) bool { return given[name] })
	if err != nil || c.Server.URL != "https://b.example" || c.State != "/s" || c.GPU != agent.GPUNone || c.Budget != 0.005 {
		t.Errorf("%+v %v", c, err)
	}
	if c, err := f.resolve(func(string) bool { return false }); err != nil || c.Server.URL != "https://a.example" || c.GPU != agent.GPURequired {
		t.Errorf("%+v %v", c, err)
	}
	for want, args := range map[string][]string{
		"name the server":     {"agent"},
		"name a directory":    {"agent", "--server", "https://a.example"},
		"for this machine":    {"agent", "--server", "http://a.example", "--state", t.TempDir()},
		"share of the whole":  {"agent", "--server", "https://a.example", "--state", t.TempDir(), "--check-budget", "150%"},
		"reached by others":   {"agent", "--server", "https://a.example", "--state", t.TempDir(), "--listen", "0.0.0.0:1"},
		"no such file":        {"agent", "--config", filepath.Join(t.TempDir(), "none")},
		"read what to check:": {"agent-check"},
	} {
		var out bytes.Buffer
		root := cli.Root("assay", nil, New(), Check())
		root.SetErr(&out)
		root.SetOut(&out)
		root.SetIn(strings.NewReader(""))
		if code := cli.Run(t.Context(), root, args); code != cli.ExitUsage || !strings.Contains(out.String(), want) {
			t.Errorf("%q: exit %d, %q, want %q", args, code, out.String(), want)
		}
	}
}

// The manager hears the words, one datagram each, also at an abstract address.
func TestNotify(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "s"), "@assay-test-" + strconv.Itoa(os.Getpid())} {
		name := path
		if name[0] == '@' {
			name = "\x00" + name[1:]
		}
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		t.Setenv("NOTIFY_SOCKET", path)
		t.Setenv("WATCHDOG_USEC", "3000000")
		t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
		tell, every, err := notifier()
		if err != nil || every != 3*time.Second {
			t.Fatal(every, err)
		}
		for _, word := range []string{"READY=1", "WATCHDOG=1", "STOPPING=1"} {
			tell(word)
			b := make([]byte, 100)
			n, err := l.Read(b)
			if err != nil || string(b[:n]) != word {
				t.Errorf("heard %q, want %q: %v", b[:n], word, err)
			}
		}
	}
	t.Setenv("WATCHDOG_PID", "1")
	if watchdogInterval() != 0 {
		t.Error("the watchdog of another process")
	}
	t.Setenv("NOTIFY_SOCKET", "")
	if tell, every, err := notifier(); tell != nil || every != 0 || err != nil {
		t.Error("told without anybody to tell", err)
	}
}

// A credential of systemd's is taken as it lies there; any other file must be for
// its owner only.
func TestSecret(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, []byte("word\n"), 0o440); err != nil {
		t.Fatal(err)
	}
	if _, err := secret(path); err == nil {
		t.Error("a file that others can read was taken")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if got, err := secret(path); err != nil || got != "word" {
		t.Errorf("%q %v", got, err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Join(dir, "other"))
	if _, err := secret(path); err == nil {
		t.Error("a file beside the directory was taken for a credential")
	}
}

// The process of a check answers in the agent's lines, and says why it could not.
func TestCheckProcess(t *testing.T) {
	order, err := json.Marshal(agent.Order{Node: "n", Dir: filepath.Join(t.TempDir(), "run"), GPU: agent.GPUNone})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := checkOnce(t.Context(), bytes.NewReader(order), &out); err == nil {
		t.Error("no engine, and no error")
	}
	var l agent.Line
	if err := json.Unmarshal(out.Bytes(), &l); err != nil || l.Done || l.Error == "" {
		t.Errorf("%s %v", out.String(), err)
	}
}
