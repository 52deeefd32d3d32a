package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// procRoot is where the kernel shows its processes.
const procRoot = "/proc"

// Seen is a process that a file system like /proc shows. Its program chooses the
// name.
type Seen struct {
	PID  int
	Name string
}

// Descendants gives a process and those below it, parents before children, by the
// files under root, which is /proc or a copy of it. Those that have ended and that
// nobody has waited for are not among them.
func Descendants(root string, pid int) []Seen {
	all := map[int]entry{}
	for _, p := range PIDs(root) {
		if e, ok := readEntryOf(root, p); ok {
			all[p] = e
		}
	}
	out := []Seen{{pid, all[pid].name}}
	for _, e := range below(all, pid) {
		if !e.dead() {
			out = append(out, Seen{e.pid, e.name})
		}
	}
	return out
}

// PIDs gives the processes that root shows, the lowest number first.
func PIDs(root string) []int {
	d, err := os.Open(root)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// entry is what /proc/PID/stat says of a process.
type entry struct {
	pid, ppid, pgid, session int
	state                    byte
	start                    uint64 // in clock ticks since boot
	name                     string
}

func (e entry) dead() bool { return e.state == 'Z' || e.state == 'X' }

func readEntry(pid int) (entry, bool) { return readEntryOf(procRoot, pid) }

func readEntryOf(root string, pid int) (entry, bool) {
	b, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return entry{}, false
	}
	return parseStat(pid, b)
}

// parseStat starts behind the last parenthesis: a program chooses its own name,
// and may put spaces and parentheses in it.
func parseStat(pid int, b []byte) (entry, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	f := bytes.Fields(b[end+1:])
	if open < 0 || end < open || len(f) < 20 || len(f[0]) != 1 {
		return entry{}, false
	}
	e := entry{pid: pid, state: f[0][0], name: string(b[open+1 : end])}
	for i, to := range []*int{&e.ppid, &e.pgid, &e.session} {
		n, err := strconv.Atoi(string(f[1+i]))
		if err != nil {
			return entry{}, false
		}
		*to = n
	}
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	if err != nil {
		return entry{}, false
	}
	e.start = start
	return e, true
}

// below gives the descendants of a process among some, without itself, parents
// before children.
func below(all map[int]entry, root int) []entry {
	children := map[int][]int{}
	for pid, e := range all {
		children[e.ppid] = append(children[e.ppid], pid)
	}
	var found []entry
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		next := children[queue[0]]
		slices.Sort(next)
		for _, pid := range next {
			if seen[pid] {
				continue // ids that came around while we read could make a ring
			}
			seen[pid] = true
			queue = append(queue, pid)
			found = append(found, all[pid])
		}
	}
	return found
}
