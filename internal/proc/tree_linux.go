package proc

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// walker finds the descendants of one process. A stranger never becomes a
// descendant, so strangers are remembered and not read again: on a host with many
// processes that is nearly the whole cost. Process ids come around, so they are
// forgotten again from time to time.
type walker struct {
	root      int
	strangers map[int]struct{}
	scans     int
}

const forgetAfter = 25 // scans: 5 s at the watching pace

// scan gives the descendants without the root, parents before children, and
// without the dead that nobody has waited for.
func (w *walker) scan() []entry {
	if w.strangers == nil || w.scans%forgetAfter == 0 {
		w.strangers = map[int]struct{}{}
	}
	w.scans++
	all := map[int]entry{}
	for _, pid := range PIDs(procRoot) {
		if _, ok := w.strangers[pid]; ok || pid == w.root {
			continue
		}
		if e, ok := readEntry(pid); ok {
			all[pid] = e
		}
	}
	tree := below(all, w.root)
	ours := map[int]bool{}
	for _, e := range tree {
		ours[e.pid] = true
	}
	for pid, e := range all {
		// Whoever's parent died while we read may be ours: it is asked again.
		_, known := all[e.ppid]
		_, strange := w.strangers[e.ppid]
		if !ours[pid] && (known || strange || e.ppid == 0) && e.ppid != w.root {
			w.strangers[pid] = struct{}{}
		}
	}
	return slices.DeleteFunc(tree, entry.dead)
}

// fresh is a scan that trusts nothing remembered.
func (w *walker) fresh() []entry {
	w.scans = 0
	return w.scan()
}

func pidsOf(es []entry) []int {
	pids := make([]int, len(es))
	for i, e := range es {
		pids[i] = e.pid
	}
	return pids
}

// kill ends exactly the process that was seen, not a later one of its number.
func (e entry) kill() {
	fd, err := unix.PidfdOpen(e.pid, 0)
	if err != nil {
		if err == unix.ENOSYS {
			if now, ok := readEntry(e.pid); ok && now.start == e.start {
				_ = unix.Kill(e.pid, unix.SIGKILL)
			}
		}
		return
	}
	defer unix.Close(fd)
	if now, ok := readEntry(e.pid); ok && now.start == e.start {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// killAll sends SIGKILL to processes and to their groups. A group is hit as a
// whole, also those that it forks at this moment; own is the group that must not
// be hit. Everybody here descends from a leader of a session of its own, so the
// groups hold nobody else.
func killAll(es []entry, own int) {
	var groups []int
	for _, e := range es {
		if e.pgid > 1 && e.pgid != own && !slices.Contains(groups, e.pgid) {
			groups = append(groups, e.pgid)
			_ = unix.Kill(-e.pgid, unix.SIGKILL)
		}
	}
	for _, e := range es {
		e.kill()
	}
}

// rssOf is the resident memory of processes; false when none could be read.
func rssOf(pids []int) (int64, bool) {
	var pages int64
	seen := false
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
		if err != nil {
			continue
		}
		if f := bytes.Fields(b); len(f) > 1 {
			if n, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
				pages, seen = pages+n, true
			}
		}
	}
	return pages * int64(os.Getpagesize()), seen
}

// pssOf counts shared pages once, which rssOf does not. The kernel walks the
// whole memory for it and holds up the process meanwhile, so it is asked only
// when rssOf is already over the limit. Where it may not be read (a program of
// another user), that process's resident memory stands in.
func pssOf(pids []int) int64 {
	var sum int64
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
		if err == nil {
			if kib, ok := pssLine(string(b)); ok {
				sum += kib << 10
				continue
			}
		}
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended, or is about to
		}
		if rss, ok := rssOf([]int{pid}); ok {
			sum += rss
		}
	}
	return sum
}

func pssLine(rollup string) (int64, bool) {
	for line := range strings.Lines(rollup) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "Pss:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
