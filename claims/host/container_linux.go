package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/claims"
)

// What every container may have, as the containers that were promised. There is no
// share of a GPU's memory among it: docs/adr/027-no-gpu-quota.md says why.
const (
	containerMemory = "128m"
	containerCPUs   = "1"
	cpuPeriod       = 100_000 // µs; a quota as long as the period is one CPU
)

// containerImages are what docker may use when it has one of them: small, and
// with nothing that starts by itself. Nothing is pulled.
var containerImages = []struct {
	name    string
	command []string
}{
	{"busybox", []string{"/bin/true"}}, {"alpine", []string{"/bin/true"}}, {"hello-world", nil},
}

// container runs one container after the other by a runtime.
type container struct {
	deadline time.Duration
	dir      string // of our own; removed at the end
	clock    float64
	run      func(id string) []string // the command line of one container
	remove   func(id string) []string // and that which removes what a killed one left
	n        int
}

func startContainer(ctx context.Context, env claims.Env, name string) (claims.Runner, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, claims.Unavailablef("%s is not installed: %w", name, err)
	}
	c := &container{deadline: env.Timeout(), clock: clockCost()}
	if _, err := c.command(ctx, []string{path, "--version"}); err != nil {
		return nil, claims.Unavailablef("%s --version: %w", name, err)
	}
	if name == "docker" {
		err = c.docker(ctx, path)
	} else {
		err = c.bundled(env, name, path)
	}
	if err == nil {
		// Whether it may run here is told by running it: rights, control groups
		// and mounts are the runtime's to know.
		if _, serr := c.sample(ctx); serr != nil {
			err = claims.Unavailablef("a container of our own does not run: %w", serr)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return hostRunner{sample: c.sample, close: c.close}, nil
}

func (c *container) docker(ctx context.Context, path string) error {
	if _, err := c.command(ctx, []string{path, "version", "--format", "{{.Server.Version}}"}); err != nil {
		return claims.Unavailablef("the docker daemon does not answer: %w", err)
	}
	for _, image := range containerImages {
		if _, err := c.command(ctx, []string{path, "image", "inspect", "--format", "{{.Id}}", image.name}); err != nil {
			continue
		}
		c.run = func(id string) []string {
			line := []string{path, "run", "--rm", "--pull=never", "--name=" + id, "--network=none", "--memory=" + containerMemory, "--cpus=" + containerCPUs, image.name}
			return append(line, image.command...)
		}
		c.remove = func(id string) []string { return []string{path, "rm", "--force", id} }
		return nil
	}
	return claims.Unavailablef("docker has none of the images busybox, alpine and hello-world; docker pull busybox gets one")
}

// bundled prepares a root directory with one program in it, and for the
// runtimes of the OCI a description beside.
func (c *container) bundled(env claims.Env, name, path string) error {
	program, err := exitProgram()
	if err != nil {
		return err
	}
	if env.Dir == "" {
		return claims.Unavailablef("no directory was given to write to")
	}
	if c.dir, err = os.MkdirTemp(env.Dir, ".assay-container-"); err != nil {
		return claims.Unavailablef("write to the directory: %w", err)
	}
	root, state := filepath.Join(c.dir, "rootfs"), filepath.Join(c.dir, "state")
	for _, dir := range []string{root, filepath.Join(root, "proc"), state} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "exit"), program, 0o755); err != nil {
		return err
	}
	if name == "podman" {
		limits := []string{"--memory=" + containerMemory, "--cpus=" + containerCPUs}
		if os.Getuid() != 0 {
			limits = nil // controllers are rarely delegated, and podman would refuse
		}
		c.run = func(id string) []string {
			return slices.Concat([]string{path, "run", "--rm", "--name=" + id, "--network=none"}, limits, []string{"--rootfs", root, "/exit"})
		}
		c.remove = func(id string) []string { return []string{path, "rm", "--force", id} }
		return nil
	}
	if err := os.WriteFile(filepath.Join(c.dir, "config.json"), bundle(), 0o644); err != nil {
		return err
	}
	c.run = func(id string) []string { return []string{path, "--root", state, "run", "--bundle", c.dir, id} }
	c.remove = func(id string) []string { return []string{path, "--root", state, "delete", "--force", id} }
	return nil
}

func (c *container) sample(ctx context.Context) (claims.Measurement, error) {
	c.n++
	id := "assay-probe-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(c.n)
	start := time.Now()
	_, err := c.command(ctx, c.run(id))
	took := time.Since(start)
	if err != nil {
		// It may have been killed halfway. The context may have ended; removing
		// must be tried all the same.
		if _, rerr := c.command(context.WithoutCancel(ctx), c.remove(id)); rerr != nil {
			err = fmt.Errorf("%w (removing it: %w)", err, rerr)
		}
		return claims.Measurement{}, err
	}
	return claims.Measurement{Value: took.Seconds(), Extra: map[string]float64{"clock_s": c.clock}}, nil
}

func (c *container) command(ctx context.Context, line []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.deadline)
	defer cancel()
	return runBounded(ctx, "", line...)
}

func (c *container) close() error {
	if c.dir == "" {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// bundle describes a container of one program without rights, in namespaces of
// its own, with 128 MiB and one CPU where we may say so.
func bundle() []byte {
	type m = map[string]any
	namespaces := []m{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}}
	linux := m{}
	if uid := os.Getuid(); uid != 0 {
		namespaces = append(namespaces, m{"type": "user"})
		linux["uidMappings"] = []m{{"containerID": 0, "hostID": uid, "size": 1}}
		linux["gidMappings"] = []m{{"containerID": 0, "hostID": os.Getgid(), "size": 1}}
	} else {
		linux["resources"] = m{"memory": m{"limit": 128 << 20}, "cpu": m{"quota": cpuPeriod, "period": cpuPeriod}}
	}
	linux["namespaces"] = namespaces
	b, err := json.Marshal(m{
		"ociVersion": "1.0.2",
		"hostname":   "assay",
		"root":       m{"path": "rootfs", "readonly": true},
		"process":    m{"args": []string{"/exit"}, "cwd": "/", "noNewPrivileges": true, "user": m{"uid": 0, "gid": 0}},
		"mounts":     []m{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux":      linux,
	})
	if err != nil {
		panic(fmt.Sprintf("a description of our own: %v", err)) // of strings and numbers
	}
	return b
}

// exitProgram is a static program that exits with code 0 and does nothing else:
// an ELF header, one segment, and two or three instructions. A container needs no
// libraries for it, so no image is needed.
func exitProgram() ([]byte, error) {
	var machine uint16
	var code []byte
	switch runtime.GOARCH {
	case "amd64":
		machine = 62
		code = []byte{0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05} // mov eax, 60; xor edi, edi; syscall
	case "arm64":
		machine = 183
		code = []byte{0xa8, 0x0b, 0x80, 0xd2, 0x00, 0x00, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4} // mov x8, 93; mov x0, 0; svc 0
	default:
		return nil, claims.Unavailablef("no program for a container on %s", runtime.GOARCH)
	}
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(code))
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	for _, v := range []any{
		uint16(2), machine, uint32(1), // executable
		uint64(base + headers), uint64(64), uint64(0), // entry, program headers, no sections
		uint32(0), uint16(64), uint16(56), uint16(1), uint16(64), uint16(0), uint16(0),
		uint32(1), uint32(5), // load: read and execute
		uint64(0), uint64(base), uint64(base), size, size, uint64(0x10000),
	} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			return nil, err
		}
	}
	b.Write(code)
	return b.Bytes(), nil
}
