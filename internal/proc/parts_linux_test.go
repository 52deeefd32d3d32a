package proc

import (
	"os"
	"path/filepath"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " S 7 8 9 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 12345 1 2 3"
	tests := []struct {
		name, line string
		ok         bool
		program    string
	}{
		{"plain", "42 (sh)" + rest, true, "sh"},
		{"a name that lies", "42 (a) R 1 1 1 (b)" + rest, true, "a) R 1 1 1 (b"},
		{"a name of nothing", "42 ()" + rest, true, ""},
		{"no name", "42" + rest, false, ""},
		{"cut off", "42 (sh) S 7 8", false, ""},
		{"no numbers", "42 (sh) S x y z 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 12345 1", false, ""},
		{"empty", "", false, ""},
	}
	for _, tt := range tests {
		e, ok := parseStat(42, []byte(tt.line))
		if ok != tt.ok {
			t.Errorf("%s: ok is %v", tt.name, ok)
		}
		if want := (entry{42, 7, 8, 9, 'S', 12345, tt.program}); ok && e != want {
			t.Errorf("%s: %+v, want %+v", tt.name, e, want)
		}
	}
}

func TestFindCgroup(t *testing.T) {
	const v2 = "25 30 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
	const hybrid = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	const part = "25 30 0:22 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	tests := []struct {
		name, mounts, own string
		want              place
		ok                bool
	}{
		{"a user's", v2, "0::/user.slice/x.scope\n", place{"/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/x.scope"}, true},
		{"the root", v2, "0::/\n", place{"/sys/fs/cgroup", "/sys/fs/cgroup"}, true},
		{"both versions", hybrid, "4:memory:/m\n0::/s\n", place{"/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/s"}, true},
		{"a container", part, "0::/a/b\n", place{"/sys/fs/cgroup", "/sys/fs/cgroup/b"}, true},
		{"out of sight", part, "0::/c\n", place{}, false},
		{"above the namespace", v2, "0::/../c\n", place{"/sys/fs/cgroup", "/sys/fs/cgroup/c"}, true},
		{"none mounted", "22 1 0:21 / /proc rw - proc proc rw\n", "0::/\n", place{}, false},
		{"not in one", v2, "4:memory:/m\n", place{}, false},
	}
	for _, tt := range tests {
		got, err := findCgroup(tt.mounts, tt.own)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

// The memory controller is not to be had everywhere, so what is written and read
// is checked against plain files.
func TestCgroupMemoryFiles(t *testing.T) {
	c := &cgroup{dir: t.TempDir()}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.limit(1 << 20); !os.IsNotExist(err) {
		t.Errorf("without a controller: %v", err)
	}
	put("memory.max", "")
	put("memory.oom.group", "")
	if err := c.limit(1 << 20); err != nil {
		t.Error("without swap:", err)
	}
	if n, ok := c.value("memory.max", ""); !ok || n != 1<<20 {
		t.Errorf("memory.max is %d", n)
	}
	if c.exceeded() {
		t.Error("exceeded without a word of it")
	}
	put("memory.events", "low 0\nmax 0\noom 0\noom_kill 1\n")
	if c.exceeded() {
		t.Error("the machine's want of memory was taken for the limit")
	}
	put("memory.events", "low 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n")
	if n, ok := c.value("memory.events", "oom_kill"); !ok || n != 2 {
		t.Errorf("oom_kill is %d, %v", n, ok)
	}
	if !c.exceeded() {
		t.Error("not exceeded")
	}
	if _, ok := c.value("memory.events", "oom_k"); ok {
		t.Error("a key that is not there was found")
	}
	if _, ok := c.value("memory.peak", ""); ok {
		t.Error("a file that is not there was read")
	}
	put("memory.peak", "max\n")
	if _, ok := c.value("memory.peak", ""); ok {
		t.Error("a word is no number")
	}
}

func TestPssLine(t *testing.T) {
	if n, ok := pssLine("00400000-7fff [rollup]\nRss:  884 kB\nPss:  385 kB\nPss_Anon: 9 kB\n"); !ok || n != 385 {
		t.Errorf("%d, %v", n, ok)
	}
	for _, bad := range []string{"", "Pss:\n", "Pss: x kB\n", "Pss_Anon: 9 kB\n"} {
		if n, ok := pssLine(bad); ok {
			t.Errorf("%q gave %d", bad, n)
		}
	}
}

func TestWalkerFindsOnlyDescendants(t *testing.T) {
	r := begin(t, `sleep $MARK & wait`, Spec{Avoid: Cgroup | PIDNamespace})
	r.has(2)
	w := walker{root: r.h.cmd.Process.Pid}
	for range 3 { // the second and third from memory
		if got := len(w.scan()); got != 2 {
			t.Errorf("%d descendants", got)
		}
	}
	if len(w.strangers) == 0 {
		t.Error("nothing was remembered")
	}
	if _, ok := w.strangers[r.pid]; ok {
		t.Error("our own is taken for a stranger")
	}
}

func BenchmarkWatch(b *testing.B) {
	w := walker{root: os.Getpid()}
	for b.Loop() {
		rssOf(pidsOf(w.scan()))
	}
	b.ReportMetric(float64(len(PIDs(procRoot))), "processes")
}
