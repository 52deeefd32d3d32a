//go:build unix

package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// signerScript writes a shell script and gives its command line.
func signerScript(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sign.sh")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"/bin/sh", path}
}

func TestSignerCommand(t *testing.T) {
	message := bytes.Repeat([]byte("what is to be signed\n"), 4000) // more than a pipe holds
	key := testSigner("outside")
	sig, _ := key.Sign(t.Context(), message)
	good := base64.StdEncoding.EncodeToString(sig)
	dir := t.TempDir()
	for _, tt := range []struct {
		name, script string
		want         error
		says         string
	}{
		{"good", "cat > " + dir + "/got\necho " + good, nil, ""},
		{"no newline, no reading", "printf %s " + good, nil, ""},
		{"talks beside it", "echo touch the key >&2\necho " + good, nil, ""},
		{"wrong signature", "echo " + base64.StdEncoding.EncodeToString(make([]byte, ed25519.SignatureSize)), ErrSignerOtherKey, "another key"},
		{"nothing", "exit 0", ErrSignerOutput, `""`},
		{"words", "echo please insert the card", ErrSignerOutput, "please insert"},
		{"short", "echo AAAA", ErrSignerOutput, "64 bytes"},
		{"twice", "echo " + good + "; echo " + good, ErrSignerOutput, ""},
		{"fails", "echo no card >&2; echo " + good + "; exit 1", ErrSignerCommand, `"no card"`},
		{"is killed", "kill -9 $$", ErrSignerCommand, "killed"},
		{"floods", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", ErrSignerOutput, "more than 1024"},
		{"floods beside it", "i=0; while [ $i -lt 2000 ]; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy >&2; i=$((i+1)); done; exit 3", ErrSignerCommand, "yyyy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Command(signerScript(t, tt.script), key.Public(), 2*time.Minute)
			got, err := s.Sign(t.Context(), message)
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if err == nil && !bytes.Equal(got, sig) {
				t.Error("another signature came back")
			}
			if err != nil && (!strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "sign.sh") || len(err.Error()) > 4000) {
				t.Errorf("the error does not say %q and which command, in few words: %.5000v", tt.says, err)
			}
		})
	}
	if b, err := os.ReadFile(filepath.Join(dir, "got")); err != nil || !bytes.Equal(b, message) {
		t.Errorf("the command got %d bytes, not the %d to be signed (%v)", len(b), len(message), err)
	}
	if _, err := Command(nil, key.Public(), 0).Sign(t.Context(), message); !errors.Is(err, ErrSignerCommand) {
		t.Errorf("no command: %v", err)
	}
	if _, err := Command([]string{"/nonexistent/signer"}, key.Public(), 0).Sign(t.Context(), message); !errors.Is(err, ErrSignerCommand) {
		t.Errorf("no such command: %v", err)
	}
	if _, err := Command(signerScript(t, "echo "+good), nil, 0).Sign(t.Context(), message); !errors.Is(err, ErrSignerOtherKey) {
		t.Errorf("no public key: %v", err)
	}
}

// A command that hangs is ended with what it started.
func TestSignerCommandHangs(t *testing.T) {
	note := filepath.Join(t.TempDir(), "pid")
	argv := signerScript(t, "sleep 300 & echo $! > "+note+"\necho waiting for a touch >&2\nwait")
	// It hangs for ever, but must have had the time to come so far.
	var err error
	for timeout := 500 * time.Millisecond; timeout < time.Minute; timeout *= 3 {
		_, err = Command(argv, testSigner("outside").Public(), timeout).Sign(t.Context(), []byte("m"))
		if !errors.Is(err, ErrSignerTimeout) || !strings.Contains(err.Error(), timeout.String()) {
			t.Fatalf("error %v", err)
		}
		if strings.Contains(err.Error(), "waiting for a touch") {
			break
		}
	}
	if !strings.Contains(err.Error(), "waiting for a touch") {
		t.Errorf("error %v", err)
	}
	b, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && strings.Contains(string(stat), ") Z ") {
			break // gone, or dead and not yet collected by whoever took it over
		}
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the command's child still runs")
		}
	}
}

// Through the whole: a statement signed by a command.
func TestSignerCommandSignsAStatement(t *testing.T) {
	bad := Command([]string{"echo", "AAAA"}, testSigner("outside").Public(), 0)
	if _, err := StateKey(context.Background(), bad.Public(), bad, KeyOptions{Node: "n", Owner: "o"}); !errors.Is(err, ErrSignerOutput) {
		t.Errorf("error %v", err)
	}
}

// TestSignerEndsWithItsContext: who asked has gone, and the command with it.
func TestSignerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started := filepath.Join(t.TempDir(), "started")
	go func() {
		for {
			if _, err := os.Stat(started); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	s := Command(signerScript(t, "touch "+started+"; sleep 600"), runSigner(1).Public(), time.Hour)
	if _, err := s.Sign(ctx, []byte("m")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrSignerTimeout) {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
}
