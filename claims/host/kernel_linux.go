package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
)

// syscallBatch calls take some hundred microseconds: a thousand times what the
// clock costs, and less than a time slice.
const syscallBatch = 1000

// syscalls gives the mean time of getppid, called without Go's scheduler being
// told. It is raw: no library stands between that could remember the answer.
func syscalls() (float64, error) {
	want := os.Getppid()
	var got uintptr
	start := time.Now()
	for range syscallBatch {
		got, _ = unix.RawSyscallNoError(unix.SYS_GETPPID, 0, 0, 0)
	}
	took := time.Since(start).Seconds()
	// A parent that died meanwhile gave us to another.
	if int(got) != want && int(got) != os.Getppid() {
		return 0, fmt.Errorf("%w: getppid gave %d, and our parent is %d", claims.ErrWrong, got, want)
	}
	return took / syscallBatch, nil
}

func startSyscall(context.Context, claims.Env) (claims.Runner, error) {
	extra := map[string]float64{"clock_s": clockCost()}
	return hostRunner{sample: func(context.Context) (claims.Measurement, error) {
		v, err := syscalls()
		return claims.Measurement{Value: v, Batch: syscallBatch, Extra: extra}, err
	}}, nil
}

// moduleName is what may be given to modprobe.
var moduleName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)

// module is a kernel module that we loaded.
type module struct {
	name     string // as the kernel has it
	deadline time.Duration
	byName   bool // loaded by modprobe, else from a file
}

func startModule(ctx context.Context, env claims.Env) (claims.Runner, error) {
	m, err := newModule(env)
	if err != nil {
		return nil, err
	}
	clock := clockCost()
	without := make([]float64, 0, 201)
	for range cap(without) {
		v, err := syscalls()
		if err != nil {
			return nil, err
		}
		without = append(without, v)
	}
	slices.Sort(without)
	if err := m.load(ctx, env.Module); err != nil {
		return nil, claims.Unavailablef("load module %s: %w", env.Module, err)
	}
	extra := map[string]float64{"without_s": without[len(without)/2], "clock_s": clock}
	return hostRunner{close: m.unload, sample: func(context.Context) (claims.Measurement, error) {
		v, err := syscalls()
		with := map[string]float64{"with_to_without": v / extra["without_s"]}
		for name, x := range extra {
			with[name] = x
		}
		return claims.Measurement{Value: v, Batch: syscallBatch, Extra: with}, err
	}}, nil
}

// newModule looks whether a module may be loaded; it loads nothing. One that is
// loaded already is left alone: we unload only what we loaded.
func newModule(env claims.Env) (*module, error) {
	if env.Module == "" {
		return nil, claims.Unavailablef("no module was named")
	}
	m := &module{deadline: env.Timeout()}
	switch {
	case moduleName.MatchString(env.Module):
		m.name, m.byName = env.Module, true
	case filepath.IsAbs(env.Module) && strings.HasSuffix(env.Module, ".ko"):
		m.name = strings.TrimSuffix(filepath.Base(env.Module), ".ko")
	default:
		return nil, claims.Unavailablef("%q is neither the name of a module nor an absolute path that ends in .ko", env.Module)
	}
	m.name = strings.ReplaceAll(m.name, "-", "_")
	text, err := readSmall(hostProc(env, "modules"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, claims.Unavailablef("this kernel takes no modules")
	} else if err != nil {
		return nil, claims.Unavailablef("read the list of modules: %w", err)
	}
	for line := range strings.Lines(text) {
		if name, _, _ := strings.Cut(line, " "); name == m.name {
			return nil, claims.Unavailablef("module %s is loaded already; unload it first, as we unload only what we loaded", m.name)
		}
	}
	if os.Geteuid() != 0 {
		return nil, claims.Unavailablef("only root may load a module")
	}
	return m, nil
}

func (m *module) load(ctx context.Context, from string) error {
	if m.byName {
		return m.modprobe(ctx, m.name)
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

func (m *module) unload() error {
	var err error
	if m.byName {
		err = m.modprobe(context.Background(), "--remove", m.name)
	} else {
		err = unix.DeleteModule(m.name, unix.O_NONBLOCK)
	}
	if err != nil {
		return fmt.Errorf("unload module %s, which we loaded: %w", m.name, err)
	}
	return nil
}

func (m *module) modprobe(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, m.deadline)
	defer cancel()
	_, err := runBounded(ctx, "", append([]string{"modprobe"}, args...)...)
	return err
}
