package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/internal/parttest"
)

// terminal is a real one, of the kernel's, with a program in it.
type terminal struct {
	t      *testing.T
	master *os.File
	screen *parttest.Buffer // everything that was written to it
	ended  chan error
}

// openTerminal runs a program in a terminal of so many columns, with nothing in its
// environment but PATH and what is given.
func openTerminal(t *testing.T, columns uint16, env []string, name string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "HOME=" + t.TempDir(), "LANG=C.UTF-8"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, screen: new(parttest.Buffer), ended: make(chan error, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(term.screen, master) // ends with an error when the other side is closed
	}()
	go func() {
		err := cmd.Wait()
		<-read
		term.ended <- err
	}()
	return term
}

// end waits for the program's end and gives the screen.
func (term *terminal) end() string {
	term.t.Helper()
	if err := <-term.ended; err != nil {
		term.t.Fatalf("%v:\n%s", err, term.screen)
	}
	return strings.ReplaceAll(term.screen.String(), "\r\n", "\n")
}

// typed sends keys.
func (term *terminal) typed(keys string) {
	term.t.Helper()
	if _, err := term.master.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// shows waits until the screen has more than it had, with the words in it.
func (term *terminal) shows(words string) {
	term.t.Helper()
	for until := time.Now().Add(30 * time.Second); !strings.Contains(term.screen.String(), words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			term.t.Fatalf("the screen never shows %q:\n%s", words, term.screen)
		}
	}
}

// colours are the sequences that set a word off.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// The first screen in a real terminal: it fits, whatever the width, colour only adds to
// it, and NO_COLOR and a dumb terminal have none.
func TestFirstScreenInATerminal(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	port := filepath.Join(dir, "port")
	ctx, stop := context.WithCancel(t.Context())
	sim := exec.CommandContext(ctx, "assay", "simulate", "--listen", "127.0.0.1:0", "--port-file", port, "--ttft", "5ms", "--itl", "1ms")
	sim.Cancel = func() error { return sim.Process.Signal(os.Interrupt) }
	if err := sim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = sim.Wait() })
	var url []byte
	for until := time.Now().Add(time.Minute); len(url) == 0; time.Sleep(20 * time.Millisecond) {
		if url, _ = os.ReadFile(port); time.Now().After(until) {
			t.Fatal("the simulator does not listen")
		}
	}
	address := strings.TrimPrefix(string(bytes.TrimSpace(url)), "http://") // as a person types it
	term := openTerminal(t, 80, nil, "assay", "hammer", "--base-url", address, "--sweep", "1,4", "--duration", "1", "--output-len", "8", "--allow-invalid", "--out", "runs/one")
	whole := term.end()
	for _, want := range []string{"measuring ", "\r\x1b[K", "client ", "tokens", "█", "next ", "run directory: runs/one"} {
		if !strings.Contains(whole, want) {
			t.Errorf("the terminal does not show %q:\n%s", want, whole)
		}
	}

	plain := map[uint16]string{}
	for _, columns := range []uint16{60, 80, 200} {
		for name, env := range map[string][]string{"colour": nil, "NO_COLOR": {"NO_COLOR=1"}, "dumb": {"TERM=dumb"}} {
			got := openTerminal(t, columns, env, "assay", "report", "latest").end()
			if painted := colours.MatchString(got); painted != (name == "colour") {
				t.Errorf("%d columns, %s: painted %v\n%s", columns, name, painted, got)
			}
			bare := colours.ReplaceAllString(got, "")
			if strings.ContainsRune(bare, '\x1b') {
				t.Errorf("%d columns, %s: more than colour\n%q", columns, name, bare)
			}
			if before, ok := plain[columns]; ok && before != bare {
				t.Errorf("%d columns: %s changes the words\n%s\n%s", columns, name, before, bare)
			}
			plain[columns] = bare
			for line := range strings.Lines(bare) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > int(columns) && !strings.Contains(line, address) {
					t.Errorf("%d columns, %s: a line of %d: %s", columns, name, n, line)
				}
			}
			for _, want := range []string{"client ", "next ", "█", "TTFT"} {
				if !strings.Contains(bare, want) {
					t.Errorf("%d columns, %s: no %q\n%s", columns, name, want, bare)
				}
			}
		}
	}
	if plain[60] == plain[80] || !strings.Contains(plain[200], "E2E ms") || strings.Contains(plain[60], "E2E ms") {
		t.Errorf("the width changes nothing:\n%s\n%s", plain[60], plain[200])
	}
}

// What a person gets who presses the tab key in a real shell, and help there.
func TestTabKeyInShells(t *testing.T) {
	parttest.Install(t, "shells")
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("runs/20261115-120000", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("runs/20261115-120000/run.json", []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	shells := map[string]struct {
		args  []string
		setup string
	}{
		"bash": {[]string{"--noprofile", "--norc", "-i"}, ". /usr/share/bash-completion/bash_completion; . <(assay completion bash)"},
		"zsh":  {[]string{"-f", "-i"}, "autoload -U compinit; compinit -u -d $HOME/dump; . <(assay completion zsh); compdef _assay assay"},
	}
	for shell, how := range shells {
		t.Run(shell, func(t *testing.T) {
			term := openTerminal(t, 200, []string{"PS1=ready> "}, shell, how.args...)
			term.typed(how.setup + "; echo set''up\n")
			term.shows("setup")
			for begun, want := range map[string]string{
				"assay ham":                          "assay hammer",
				"assay hammer --dur":                 "assay hammer --duration",
				"assay hammer --connection fr":       "assay hammer --connection fresh",
				"assay hammer --scenario base":       "assay hammer --scenario baseline_capacity",
				"assay report --format prom":         "assay report --format prometheus",
				"assay report runs/2026":             "assay report runs/20261115-120000",
				"assay report lat":                   "assay report latest",
				"assay --log-level deb":              "assay --log-level debug",
				"assay compare --format bench":       "assay compare --format benchstat",
				"assay ledger ver":                   "assay ledger verify",
				"assay node list --format js":        "assay node list --format json",
				"assay claims run --format jun":      "assay claims run --format junit",
				"assay verify --back":                "assay verify --backend",
				"assay hammer --find-max concurrenc": "assay hammer --find-max concurrency",
			} {
				// The line is completed, then Ctrl-A and echo show what became of it.
				term.typed(begun + "\t")
				term.typed("\x01echo '<' \x05 '>'\n")
				term.shows("< " + want + " >")
			}
			term.typed("assay help hammer; echo rc=$?; assay help nosuch; echo rc=$?; exit\n")
			term.shows("assay hammer --help-all")
			term.shows("rc=0")
			term.shows("rc=1")
			<-term.ended
		})
	}
}
