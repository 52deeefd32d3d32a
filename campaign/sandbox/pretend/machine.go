// Package pretend puts a machine behind an instance of a simulated cloud, so that a
// whole campaign can be tried without money, an account or a GPU.
//
// It promises an SSH server on loopback that lets the owner of one key in, and runs
// what it is told by this machine's shell, in a home directory of its own, with a
// stand-in for nvidia-smi and our own simulator in the place of Ollama. Its process,
// and all that was started in it, ends with the instance.
//
// It refuses to be a sandbox for strangers: whoever holds the key runs what they like,
// as in the account that started it. Machines share this machine's ports, so there is
// one at a time.
package pretend

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"
)

// EnginePort is where Ollama is asked for on a rented machine.
const EnginePort = 11434

// Machine is what a machine pretends to be.
type Machine struct {
	ID  string `json:"id"`
	Key string `json:"key"` // a line as in authorized_keys
	// KeyAfter is when the key works, counted from the start.
	KeyAfter time.Duration `json:"key_after"`
	// OnStart runs before SSH answers; empty: nothing.
	OnStart string   `json:"on_start,omitempty"`
	Env     []string `json:"env,omitempty"`
	GPU     string   `json:"gpu"`
	VRAM    int64    `json:"vram"` // bytes
}

// Serve is the machine, in a home directory, until ctx ends. Ready is told its
// address once it answers.
func (m Machine) Serve(ctx context.Context, home string, ready func(address string) error) error {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(m.Key))
	if err != nil {
		return fmt.Errorf("the key of a machine: %w", err)
	}
	if err := m.furnish(home); err != nil {
		return err
	}
	config, err := m.config(key)
	if err != nil {
		return err
	}
	if m.OnStart != "" {
		if out, err := m.shell(ctx, home, m.OnStart).CombinedOutput(); err != nil {
			return fmt.Errorf("the start script: %w: %s", err, out)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	if err := ready(l.Addr().String()); err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go m.connection(ctx, home, c, config)
	}
}

// furnish puts the stand-ins into the home directory.
func (m Machine) furnish(home string) error {
	if err := os.MkdirAll(filepath.Join(home, "bin"), 0o700); err != nil {
		return err
	}
	for name, text := range Programs(m.ID, m.GPU, m.VRAM) {
		if err := os.WriteFile(filepath.Join(home, "bin", name), []byte(text), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// config lets one key in, once it works.
func (m Machine) config(key ssh.PublicKey) (*ssh.ServerConfig, error) {
	from := time.Now().Add(m.KeyAfter)
	c := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, shown ssh.PublicKey) (*ssh.Permissions, error) {
		if time.Now().Before(from) || !bytes.Equal(shown.Marshal(), key.Marshal()) {
			return nil, errors.New("the key is not known here")
		}
		return &ssh.Permissions{}, nil
	}}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	host, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	c.AddHostKey(host)
	return c, nil
}

// connection serves one client.
func (m Machine) connection(ctx context.Context, home string, c net.Conn, config *ssh.ServerConfig) {
	defer c.Close()
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return // not who it is for
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for one := range channels {
		if one.ChannelType() != "session" {
			_ = one.Reject(ssh.UnknownChannelType, "there are sessions only")
			continue
		}
		ch, asked, err := one.Accept()
		if err != nil {
			return
		}
		go m.session(ctx, home, ch, asked)
	}
}

// session runs one command.
func (m Machine) session(ctx context.Context, home string, ch ssh.Channel, asked <-chan *ssh.Request) {
	defer ch.Close()
	for r := range asked {
		var line struct{ Command string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &line) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		go ssh.DiscardRequests(asked)
		status := m.run(ctx, home, line.Command, ch)
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}

// run gives a line to the shell. What it leaves running has files of its own, as every
// command of a campaign sees to.
func (m Machine) run(ctx context.Context, home, line string, ch ssh.Channel) uint32 {
	cmd := m.shell(ctx, home, line)
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(ch.Stderr(), err)
		return 126
	}
	go func() {
		_, _ = io.Copy(in, ch) // a program may end before its input does
		_ = in.Close()
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return uint32(exit.ExitCode()) //nolint:gosec // a byte
	}
	return 255
}

func (m Machine) shell(ctx context.Context, home, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Dir = home
	cmd.Env = append([]string{"HOME=" + home, "PATH=" + filepath.Join(home, "bin") + ":/usr/local/bin:/usr/bin:/bin"}, m.Env...)
	cmd.WaitDelay = 2 * time.Second // for what was left with our pipes open
	return cmd
}
