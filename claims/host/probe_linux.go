package host

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
)

// hostStart is how the probe of a name starts.
func hostStart(name string) func(context.Context, claims.Env) (claims.Runner, error) {
	for _, s := range diskSizes {
		if name == "memory_tiers/cpu_to_disk_"+s.name {
			return func(ctx context.Context, env claims.Env) (claims.Runner, error) { return startDisk(ctx, env, s.bytes) }
		}
	}
	if runtime, ok := strings.CutPrefix(name, "spawn/container_"); ok {
		return func(ctx context.Context, env claims.Env) (claims.Runner, error) {
			return startContainer(ctx, env, runtime)
		}
	}
	return map[string]func(context.Context, claims.Env) (claims.Runner, error){
		"memory_tiers/page_fault_minor":         startMinorFault,
		"memory_tiers/page_fault_major":         startMajorFault,
		"memory_tiers/pressure_sequential":      startSequential,
		"memory_tiers/pressure_random":          startRandom,
		"memory_tiers/pressure_disk_sequential": startDiskPressure(false),
		"memory_tiers/pressure_disk_random":     startDiskPressure(true),
		"spawn/process":                         startProcess,
		"spawn/namespaces":                      startNamespaces,
		"spawn/agent":                           startAgent,
		"kernel/syscall":                        startSyscall,
		"kernel/syscall_with_module":            startModule,
		"kernel/namespace_create":               startNamespaceCreate,
		"kernel/namespace_enter":                startNamespaceEnter,
		"kernel/namespace_exit":                 startNamespaceExit,
	}[name]
}

func hostProc(env claims.Env, path string) string {
	if env.ProcRoot == "" {
		return filepath.Join("/proc", path)
	}
	return filepath.Join(env.ProcRoot, path)
}

// spawned is a process that we started and have not reaped. Its id, and that of
// its group, is its own until then, so that nobody else can be killed.
type spawned struct {
	pid   int
	group bool // it leads one

	mu    sync.Mutex
	ended bool
}

// kill ends it, and its group if it leads one, unless it was reaped.
func (c *spawned) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.signal()
	}
}

func (c *spawned) signal() {
	if c.group {
		_ = unix.Kill(-c.pid, unix.SIGKILL)
		return
	}
	_ = unix.Kill(c.pid, unix.SIGKILL)
}

// wait returns when it has ended, which it does at the latest when ctx ends. It
// is not reaped: what is left of its group was killed, and nothing kills it
// from here on.
func (c *spawned) wait(ctx context.Context) {
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	for {
		// Its state stays for whoever reaps it.
		err := unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group {
		c.signal()
	}
	c.ended = true
}

// reap waits for it and gives how it ended.
func (c *spawned) reap(ctx context.Context) (syscall.WaitStatus, error) {
	c.wait(ctx)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.pid, &status, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return status, err
		}
	}
}

// freeMemory is how many bytes can be taken without pushing others out: what the
// kernel holds available, or less where a control group has less room.
func freeMemory(env claims.Env) (uint64, error) {
	free, err := meminfo(env, "MemAvailable")
	if err != nil {
		return 0, err
	}
	return min(free, groupRoom(env)), nil
}

func meminfo(env claims.Env, name string) (uint64, error) {
	text, err := readSmall(hostProc(env, "meminfo"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 54)
			return kb << 10, err
		}
	}
	return 0, errors.New("meminfo has no " + name)
}

// groupRoom is the least room of our control group and those above it; without a
// limit that can be read it is all there is.
func groupRoom(env claims.Env) uint64 {
	room := ^uint64(0)
	text, err := readSmall(hostProc(env, "self/cgroup"))
	if err != nil {
		return room
	}
	sys := env.SysRoot
	if sys == "" {
		sys = "/sys"
	}
	for line := range strings.Lines(text) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		root, most, used := filepath.Join(sys, "fs/cgroup"), "memory.max", "memory.current"
		if part[1] != "" { // version 1
			if part[1] != "memory" {
				continue
			}
			root, most, used = filepath.Join(root, "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"
		}
		for dir := filepath.Clean("/" + part[2]); ; dir = filepath.Dir(dir) {
			limit, err1 := readUint(filepath.Join(root, dir, most))
			taken, err2 := readUint(filepath.Join(root, dir, used))
			if err1 == nil && err2 == nil {
				room = min(room, limit-min(limit, taken))
			}
			if dir == "/" {
				break
			}
		}
	}
	return room
}

func readUint(path string) (uint64, error) {
	text, err := readSmall(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(text), 10, 64) // "max" is no limit, and no number
}
