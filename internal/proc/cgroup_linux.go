package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a directory of the second version's hierarchy that we made.
type cgroup struct {
	dir    string
	memory bool // it has the memory controller
}

const cgroupPrefix = "assay-"

// newCgroup makes one: below our own, or beside it, which is where a user whom
// systemd gave a slice may. Which of the two has the memory controller depends on
// the machine, and we turn none on: that would change what is not ours.
func newCgroup(wantMemory bool) (*cgroup, error) {
	own, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	places := []string{own.dir}
	if own.dir != own.mount {
		places = append(places, filepath.Dir(own.dir))
	}
	var made *cgroup
	var first error
	for _, place := range places {
		sweep(place)
		c, err := makeCgroup(place)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if made == nil || c.memory {
			if made != nil {
				_ = os.Remove(made.dir)
			}
			made = c
		} else {
			_ = os.Remove(c.dir)
		}
		if !wantMemory || made.memory {
			break
		}
	}
	if made == nil {
		return nil, first
	}
	return made, nil
}

func makeCgroup(place string) (*cgroup, error) {
	name, err := cgroupName()
	if err != nil {
		return nil, err
	}
	c := &cgroup{dir: filepath.Join(place, name)}
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(c.dir, "cgroup.kill")); err != nil {
		_ = os.Remove(c.dir)
		return nil, errors.New("this kernel has no cgroup.kill")
	}
	_, err = os.Stat(filepath.Join(c.dir, "memory.max"))
	c.memory = err == nil
	return c, nil
}

type place struct{ mount, dir string }

// ownCgroup finds where we are: the mount of cgroup2, and our directory in it.
func ownCgroup() (place, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return place{}, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return place{}, err
	}
	return findCgroup(string(mounts), string(groups))
}

func findCgroup(mountinfo, selfCgroup string) (place, error) {
	path := ""
	for line := range strings.Lines(selfCgroup) {
		if p, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			path = p
		}
	}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if !ok || len(f) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		// The mount may show a part of the hierarchy only, and we may be outside.
		root, mount := f[3], f[4]
		rel, err := filepath.Rel(root, path)
		if path == "" || err != nil || strings.HasPrefix(rel, "..") {
			return place{}, errors.New("our own cgroup is not in sight")
		}
		return place{mount: mount, dir: filepath.Join(mount, rel)}, nil
	}
	return place{}, errors.New("no cgroup v2 is mounted")
}

// cgroupName says who owns it: pid namespace, process id and its start, so that
// the cgroup of a dead owner can be told from that of a living one.
func cgroupName() (string, error) {
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &ns); err != nil {
		return "", err
	}
	e, ok := readEntry(os.Getpid())
	if !ok {
		return "", errors.New("our own start time cannot be read")
	}
	return fmt.Sprintf("%s%d-%d-%d", cgroupPrefix, ns.Ino, e.pid, e.start), nil
}

// sweep ends what supervisors left behind that were themselves killed. Only
// owners of our own pid namespace can be judged.
func sweep(place string) {
	mine, err := cgroupName()
	if err != nil {
		return
	}
	ns, _, _ := strings.Cut(strings.TrimPrefix(mine, cgroupPrefix), "-")
	entries, _ := os.ReadDir(place)
	for _, d := range entries {
		rest, ok := strings.CutPrefix(d.Name(), cgroupPrefix+ns+"-")
		if !ok || !d.IsDir() {
			continue
		}
		id, since, _ := strings.Cut(rest, "-")
		pid, err1 := strconv.Atoi(id)
		start, err2 := strconv.ParseUint(since, 10, 64)
		if err1 != nil || err2 != nil || pid <= 0 || alive(pid, start) {
			continue
		}
		c := &cgroup{dir: filepath.Join(place, d.Name())}
		if c.kill() == nil {
			_ = c.remove(time.Now().Add(time.Second))
		}
	}
}

func alive(pid int, start uint64) bool {
	if e, ok := readEntry(pid); ok {
		return e.start == start && !e.dead() // dead before anybody waited for it
	}
	return unix.Kill(pid, 0) != unix.ESRCH // there, but hidden from us
}

// limit sets the most that the cgroup may use. Swap is not a way around it, and
// the kernel ends all of it rather than one process.
func (c *cgroup) limit(bytes int64) error {
	if err := c.write("memory.max", strconv.FormatInt(bytes, 10)); err != nil {
		return err
	}
	if err := c.write("memory.oom.group", "1"); err != nil {
		return err
	}
	if err := c.write("memory.swap.max", "0"); err != nil && !os.IsNotExist(err) {
		return err // the file is missing where the kernel has no swap
	}
	return nil
}

// exceeded says whether the kernel ended it for its own limit. A kill alone could
// be for want of memory on the whole machine.
func (c *cgroup) exceeded() bool {
	hit, _ := c.value("memory.events", "oom")
	killed, _ := c.value("memory.events", "oom_kill")
	return hit > 0 && killed > 0
}

func (c *cgroup) write(file, value string) error {
	f, err := os.OpenFile(filepath.Join(c.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func (c *cgroup) kill() error { return c.write("cgroup.kill", "1") }

// dirs are the cgroup and what the program made below it, deepest last.
func (c *cgroup) dirs() []string {
	var dirs []string
	_ = filepath.WalkDir(c.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

func (c *cgroup) procs() []int {
	var pids []int
	for _, dir := range c.dirs() {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, f := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// remove takes the cgroup away; the dead leave it a moment after they are dead.
func (c *cgroup) remove(deadline time.Time) error {
	for {
		dirs := c.dirs()
		var err error
		for _, dir := range slices.Backward(dirs) {
			if e := unix.Rmdir(dir); e != nil && e != unix.ENOENT {
				err = e
			}
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("removing cgroup %s: %w", c.dir, err)
		}
		time.Sleep(2 * time.Millisecond)
		if err == unix.EBUSY {
			_ = c.kill()
		}
	}
}

// value reads one number: of a file that holds nothing else (key empty), or that
// stands behind its key.
func (c *cgroup) value(file, key string) (int64, bool) {
	b, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case key == "" && len(f) == 1:
		case key != "" && len(f) == 2 && f[0] == key:
			f = f[1:]
		default:
			continue
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		return n, err == nil
	}
	return 0, false
}
