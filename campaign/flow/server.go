package flow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/proc"
)

// ErrNoTemporal says that there is no program to start a server with.
var ErrNoTemporal = errors.New(`there is no program "temporal": get one with
  go install github.com/temporalio/cli/cmd/temporal@v1.5.1
or name it with --temporal-binary FILE, or use a server that runs with --temporal HOST:PORT`)

// ServerOptions are those of a Temporal server of our own.
type ServerOptions struct {
	// Binary is the program; empty: "temporal" on the PATH.
	Binary string
	// Dir is where its database and its log are kept.
	Dir string
	// Supervisor is the command line that ends up in proc.Supervise.
	Supervisor []string
	Env        []string
}

// Server is a Temporal server that ends with us.
type Server struct {
	Address string
	process *proc.Process
}

// StartServer starts a server on a database file, and waits until it serves.
func StartServer(ctx context.Context, o ServerOptions) (*Server, error) {
	binary := o.Binary
	if binary == "" {
		binary = "temporal"
	}
	path, err := exec.LookPath(binary)
	switch {
	case err != nil && o.Binary != "":
		return nil, fmt.Errorf("--temporal-binary: %w", err)
	case err != nil:
		return nil, fmt.Errorf("%w (%w)", ErrNoTemporal, err)
	}
	if err := disk.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	// Without the pragmas a workflow takes three times as long.
	s.process, err = proc.Start(proc.Spec{
		Command: []string{
			path, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--log-level", "error",
			"--db-filename", filepath.Join(o.Dir, "temporal.db"), "--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1",
		},
		Dir: o.Dir, Env: o.Env, Supervisor: o.Supervisor, LogFile: filepath.Join(o.Dir, "temporal.log"),
	})
	if err != nil {
		return nil, fmt.Errorf("start temporal: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = s.process.Await(ctx, func(ctx context.Context) error {
		c, err := client.DialContext(ctx, client.Options{HostPort: s.Address, Logger: silent{}})
		if err == nil {
			c.Close()
		}
		return err
	}, 100*time.Millisecond)
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("temporal does not serve, %s has its log: %w", filepath.Join(o.Dir, "temporal.log"), err)
	}
	return s, nil
}

// Stop ends the server. Its workflows go on when it is started on the same file.
func (s *Server) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s.process.Stop(ctx)
}

// freePort is one that was free a moment ago.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// silent is a log that nobody reads: connecting is tried until it works.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
