package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
)

// namespaces are those that a thread of a process with many threads can change:
// a user namespace it cannot, and a pid namespace would be its children's only.
var namespaces = []struct {
	name string
	flag int
}{
	{"uts", unix.CLONE_NEWUTS}, {"ipc", unix.CLONE_NEWIPC}, {"net", unix.CLONE_NEWNET}, {"mnt", unix.CLONE_NEWNS},
}

// namespacePause keeps the kernel, which takes network namespaces apart one
// batch after the other in the background, ahead of us who make them.
const namespacePause = 2 * time.Millisecond

// holder is a thread of its own that goes from namespace to namespace, so that
// no other goroutine ever finds itself in one of them.
type holder struct {
	env   claims.Env
	first []int // the namespaces that it came from, as descriptors
	ask   chan func() error
	did   chan error
	clock float64
}

func newHolder(env claims.Env) (*holder, error) {
	h := &holder{env: env, ask: make(chan func() error), did: make(chan error), clock: clockCost()}
	go h.serve()
	err := h.do(func() (err error) {
		if h.first, err = h.open(); err != nil {
			return claims.Unavailablef("open our namespaces: %w", err)
		}
		if err := h.create(); err != nil {
			return claims.Unavailablef("new mount, network, UTS and IPC namespaces need root (CAP_SYS_ADMIN): %w", err)
		}
		if err := h.enter(h.first); err != nil {
			return claims.Unavailablef("come back from new namespaces: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// serve runs what is asked on one thread, which ends with it: it is never given
// back. The process's first thread would stay, and is what /proc/self shows, so
// it is passed over.
func (h *holder) serve() {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// While this goroutine holds the first thread, another gets another.
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.serve()
		}()
		<-done
		runtime.UnlockOSThread()
		return
	}
	for f := range h.ask {
		h.did <- f()
	}
}

func (h *holder) do(f func() error) error {
	h.ask <- f
	return <-h.did
}

func (h *holder) close() error {
	close(h.ask)
	return closeAll(h.first)
}

func closeAll(fds []int) error {
	var errs []error
	for _, fd := range fds {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// open gives descriptors of the namespaces that the thread is in.
func (h *holder) open() ([]int, error) {
	var fds []int
	for _, ns := range namespaces {
		fd, err := unix.Open(hostProc(h.env, "thread-self/ns/"+ns.name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(err, closeAll(fds))
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func (h *holder) create() error {
	flags := 0
	for _, ns := range namespaces {
		flags |= ns.flag
	}
	return unix.Unshare(flags)
}

func (h *holder) enter(fds []int) error {
	for i, fd := range fds {
		if err := unix.Setns(fd, namespaces[i].flag); err != nil {
			return fmt.Errorf("enter a %s namespace: %w", namespaces[i].name, err)
		}
	}
	return nil
}

// within checks that the thread is in the namespaces that it should be in.
func (h *holder) within(fds []int) error {
	for i, ns := range namespaces {
		var want, got unix.Stat_t
		if err := unix.Fstat(fds[i], &want); err != nil {
			return err
		}
		if err := unix.Stat(hostProc(h.env, "thread-self/ns/"+ns.name), &got); err != nil {
			return err
		}
		if want.Ino != got.Ino || want.Dev != got.Dev {
			return fmt.Errorf("%w: the thread is not in the %s namespace that it entered", claims.ErrWrong, ns.name)
		}
	}
	return nil
}

// outside checks that the thread has left all the namespaces that it came from.
func (h *holder) outside() error {
	for i, ns := range namespaces {
		var was, is unix.Stat_t
		if err := unix.Fstat(h.first[i], &was); err != nil {
			return err
		}
		if err := unix.Stat(hostProc(h.env, "thread-self/ns/"+ns.name), &is); err != nil {
			return err
		}
		if was.Ino == is.Ino {
			return fmt.Errorf("%w: the %s namespace is not new", claims.ErrWrong, ns.name)
		}
	}
	return nil
}

// runner times step on the thread, between what prepares it and what checks
// that it did what it should; both are untimed. More is closed with it.
func (h *holder) runner(prepare, step, check, more func() error, pause time.Duration) claims.Runner {
	return hostRunner{
		sample: func(context.Context) (claims.Measurement, error) {
			var took time.Duration
			err := h.do(func() error {
				if err := prepare(); err != nil {
					return err
				}
				start := time.Now()
				if err := step(); err != nil {
					return err
				}
				took = time.Since(start)
				if err := check(); err != nil {
					return err
				}
				return h.enter(h.first)
			})
			time.Sleep(pause)
			return claims.Measurement{Value: took.Seconds(), Extra: map[string]float64{"namespaces": float64(len(namespaces)), "clock_s": h.clock}}, err
		},
		close: func() error { return errors.Join(more(), h.close()) },
	}
}

func nothing() error { return nil }

func startNamespaceCreate(_ context.Context, env claims.Env) (claims.Runner, error) {
	h, err := newHolder(env)
	if err != nil {
		return nil, err
	}
	return h.runner(nothing, h.create, h.outside, nothing, namespacePause), nil
}

func startNamespaceEnter(_ context.Context, env claims.Env) (claims.Runner, error) {
	h, err := newHolder(env)
	if err != nil {
		return nil, err
	}
	var there []int
	err = h.do(func() (err error) {
		if err = h.create(); err != nil {
			return err
		}
		if there, err = h.open(); err != nil {
			return err
		}
		return h.enter(h.first)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make namespaces to enter: %w", err), closeAll(there), h.close())
	}
	return h.runner(nothing,
		func() error { return h.enter(there) },
		func() error { return h.within(there) },
		func() error { return closeAll(there) }, 0), nil
}

func startNamespaceExit(_ context.Context, env claims.Env) (claims.Runner, error) {
	h, err := newHolder(env)
	if err != nil {
		return nil, err
	}
	return h.runner(h.create,
		func() error { return h.enter(h.first) },
		func() error { return h.within(h.first) },
		nothing, namespacePause), nil
}
