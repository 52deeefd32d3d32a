package sandbox

import (
	"context"
	"time"

	"github.com/assay-bench/assay/internal/child"
)

// Boot is an instance that boots, for who puts a machine behind it.
type Boot struct {
	Cloud, ID, Label string
	Image            string
	// User is who signs in, SSHKey by which key, and KeyAfter when that works,
	// counted from the start; as it takes, not scaled.
	User     string
	SSHKey   string
	KeyAfter time.Duration
	// OnStart is the script to run before SSH answers.
	OnStart string
	// Env is what the cloud gives it: Vast's CONTAINER_ID and CONTAINER_API_KEY.
	Env []string
	// GPU is what the machine shows, which may not be what was rented.
	GPU  string
	GPUs int
	VRAM int64
	// Halt says that the machine shut itself down: it then bills its disk.
	Halt func()
}

// Start puts a machine behind an instance and gives its address for SSH. Stop ends
// it; it is called once, also when the context has ended. An error leaves the
// instance as one whose container exited.
type Start func(ctx context.Context, b Boot) (host string, port int, stop func(), err error)

// start starts an instance's machine, with s.mu held.
func (s *Sandbox) start(i *instance, wrongGPU bool) {
	b := s.bootOf(i, wrongGPU)
	start := s.c.Start
	if start == nil {
		start = Nothing
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		host, port, stop, err := start(s.ctx, b)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case !i.alive() || i.stopping || s.ctx.Err() != nil:
			if err == nil && stop != nil {
				go stop()
			}
		case err != nil:
			s.halt(i, stateExited)
		default:
			i.state, i.host, i.port, i.stop = stateRunning, host, port, s.stopping(stop)
			i.ipAfter = time.Now().Add(s.seconds(i.cloud, SettingIPLate))
			i.downGB += s.value(i.cloud, SettingPullGB)
		}
	}()
}

// stopping makes a machine's end one that Close waits for.
func (s *Sandbox) stopping(stop func()) func() {
	if stop == nil {
		return nil
	}
	s.work.Add(1)
	return func() {
		defer s.work.Done()
		stop()
	}
}

func (s *Sandbox) bootOf(i *instance, wrongGPU bool) Boot {
	b := Boot{
		Cloud: i.cloud, ID: i.id, Label: i.label, Image: i.image, SSHKey: i.sshKey, OnStart: i.onStart,
		User: "user", KeyAfter: s.seconds(i.cloud, SettingKeyLate), GPU: i.offer.gpu, GPUs: i.gpus, VRAM: i.offer.vram,
		Halt: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if i.alive() {
				s.halt(i, stateStopped)
			}
		},
	}
	if i.cloud == Vast {
		b.User = "root"
		b.Env = []string{"CONTAINER_ID=" + i.id, "CONTAINER_API_KEY=" + i.selfKey}
	}
	if wrongGPU {
		b.GPU, b.VRAM = "GTX 1060", 6<<30
	}
	return b
}

// Nothing is a Start with nothing behind the address.
func Nothing(context.Context, Boot) (string, int, func(), error) {
	return "127.0.0.1", 9, nil, nil // nobody serves discard any more
}

// Scripts is a Start that runs the start scripts of Vast's instances, with a shell on
// this machine, and has nothing else behind the address: enough for a dead man.
// Whoever holds the account's key runs what they like by it. Those of TensorDock's
// are not run: they end in a shutdown, which would be this machine's.
func Scripts(ctx context.Context, b Boot) (string, int, func(), error) {
	if b.OnStart == "" || b.Cloud != Vast {
		return Nothing(ctx, b)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		spec := child.Spec{Command: []string{"/bin/sh", "-c", b.OnStart}, Env: append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, b.Env...)}
		_, _ = child.Output(ctx, spec, nil) // how a script ends is its own affair
	}()
	host, port, _, err := Nothing(ctx, b)
	return host, port, func() {
		cancel()
		<-done
	}, err
}
