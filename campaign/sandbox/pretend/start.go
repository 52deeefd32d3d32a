package pretend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/internal/proc"
)

// Options are how machines are started.
type Options struct {
	// Command is the command line that ends up in [Machine.Serve], which it is told on
	// its standard input, in the home directory that is its last argument; it prints
	// the machine's address as a line. It is a hidden subcommand of our own program.
	Command []string
	// Supervisor is for the machine's tree (see internal/proc).
	Supervisor []string
	Env        []string
	Log        *slog.Logger
}

const (
	startWithin = 30 * time.Second
	stopWithin  = 10 * time.Second
)

// CheckPort says whether the engine's port is free.
func CheckPort(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(EnginePort)))
	if err != nil {
		return fmt.Errorf("machines need the port of Ollama, which stands for their engine: %w; end what listens there", err)
	}
	return l.Close()
}

// Start puts machines behind instances, one after the other.
func Start(o Options) sandbox.Start {
	turn := make(chan struct{}, 1)
	return func(ctx context.Context, b sandbox.Boot) (string, int, func(), error) {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return "", 0, nil, ctx.Err()
		}
		address, stop, err := o.start(ctx, b)
		if err != nil {
			<-turn
			o.Log.Error("a machine could not be started", "instance", b.ID, "error", err)
			return "", 0, nil, err
		}
		return address.Addr().String(), int(address.Port()), func() { stop(); <-turn }, nil
	}
}

// start starts one machine, and waits until it answers.
func (o Options) start(ctx context.Context, b sandbox.Boot) (address netip.AddrPort, stop func(), err error) {
	if err := CheckPort(ctx); err != nil {
		return address, nil, err
	}
	m := Machine{ID: b.ID, Key: b.SSHKey, KeyAfter: b.KeyAfter, GPU: b.GPU, VRAM: b.VRAM}
	if b.Cloud == sandbox.Vast {
		m.OnStart, m.Env = b.OnStart, b.Env // that of the other ends in a shutdown, which would be ours
	}
	in, err := json.Marshal(m)
	if err != nil {
		return address, nil, err
	}
	home, err := os.MkdirTemp("", "assay-machine-")
	if err != nil {
		return address, nil, err
	}
	said := &line{done: make(chan string, 1)}
	p, err := proc.Start(proc.Spec{
		Command: append(append([]string{}, o.Command...), home), Supervisor: o.Supervisor, Env: o.Env,
		Stdin: bytes.NewReader(in), Stdout: said, Grace: time.Second,
	})
	if err != nil {
		return address, nil, errors.Join(err, os.RemoveAll(home))
	}
	stop = func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		p.Stop(end)
		if err := os.RemoveAll(home); err != nil {
			o.Log.Warn("a machine's home directory is left", "error", err)
		}
	}
	select {
	case text := <-said.done:
		if address, err = netip.ParseAddrPort(text); err != nil {
			stop()
			return address, nil, fmt.Errorf("the machine's address: %w", err)
		}
		return address, stop, nil
	case <-p.Done():
		stop()
		return address, nil, fmt.Errorf("the machine ended: %s", p.Wait().LogTail)
	case <-time.After(startWithin):
		stop()
		return address, nil, fmt.Errorf("the machine did not answer within %s", startWithin)
	case <-ctx.Done():
		stop()
		return address, nil, ctx.Err()
	}
}

// line is the first line that was written.
type line struct {
	once sync.Once
	text []byte
	done chan string
}

func (l *line) Write(b []byte) (int, error) {
	if l.text = append(l.text, b...); len(l.text) > 1<<10 {
		return 0, errors.New("it writes too much")
	}
	if end := bytes.IndexByte(l.text, '\n'); end >= 0 {
		l.once.Do(func() { l.done <- string(l.text[:end]) })
	}
	return len(b), nil
}
