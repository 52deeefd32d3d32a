package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
)

// Where there is no disk, or none that may be written, there is a reason.
func TestDiskProbesSayWhyNot(t *testing.T) {
	memory := "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(memory, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is no tmpfs")
	}
	gone := filepath.Join(t.TempDir(), "gone")
	for _, c := range []struct{ dir, reason string }{
		{"", "no directory"},
		{memory, "held in memory"},
		{gone, "no such file"},
		{"/proc", "0 MiB left"},
	} {
		for _, name := range []string{"memory_tiers/cpu_to_disk_1mb", "memory_tiers/page_fault_major"} {
			_, err := takeSamples(t, hostProbeNamed(t, name), claims.Env{Dir: c.dir}, 1)
			if !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s in %q: %v does not say %q", name, c.dir, err, c.reason)
			}
		}
	}
}

// A disk that gives back something else than was written fails the probe.
func TestDiskProbeHoldsWhatWasWritten(t *testing.T) {
	r, err := startDisk(t.Context(), claims.Env{Dir: t.TempDir()}, 1<<20)
	if errors.Is(err, claims.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := scratchFile(t.TempDir(), 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	d := &diskTier{f: f, m: make([]byte, 2*pageSize), page: make([]byte, pageSize)}
	defer f.Close()
	if _, err := f.Write(d.m); err != nil {
		t.Fatal(err)
	}
	if err := d.check(pageSize); err != nil {
		t.Error(err)
	}
	d.m[len(d.m)-1] = 1
	if err := d.check(pageSize); !errors.Is(err, claims.ErrWrong) {
		t.Errorf("a page of other bytes: %v", err)
	}
}

// A page that was dropped is read from the file: what the file holds is checked.
func TestMajorFaultHoldsThePage(t *testing.T) {
	r, err := startMajorFault(t.Context(), claims.Env{Dir: t.TempDir()})
	if errors.Is(err, claims.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := scratchFile(t.TempDir(), majorFile, false)
	if err != nil {
		t.Fatal(err)
	}
	p := &majorFault{f: f, page: os.Getpagesize()}
	if err := f.Truncate(majorFile); err != nil {
		t.Fatal(err)
	}
	if p.m, err = unix.Mmap(int(f.Fd()), 0, majorFile, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if _, _, err := p.touch(0); !errors.Is(err, claims.ErrWrong) {
		t.Errorf("a file of zeros: %v", err)
	}
}

// Touching what is there is no fault, and no sample.
func TestMinorFaultRefusesAPageThatIsThere(t *testing.T) {
	m, err := anonymous(t.Context(), claims.Env{}, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	f := &minorFault{m: m, page: os.Getpagesize()}
	refused := 0
	for range 100 { // the scheduler may cause a fault of its own
		if _, err := f.sample(t.Context()); errors.Is(err, claims.ErrUnavailable) {
			refused++
		}
	}
	if refused < 90 {
		t.Errorf("%d of 100 touches of pages that were there were refused", refused)
	}
}

// The patterns do what they are called: one goes line by line, the other reaches
// the whole of the memory.
func TestPressurePatterns(t *testing.T) {
	const lines = 1 << 14
	m := make([]byte, lines*lineSize)
	p := &pressure{m: m, state: 1}
	p.sequential(lines / 2)
	for i := range lines {
		if touched := m[i*lineSize] != 0; touched != (i < lines/2) {
			t.Fatalf("line %d", i)
		}
	}
	p.sequential(lines / 2)
	if p.at != 0 {
		t.Errorf("after one round it stands at %d", p.at)
	}
	clear(m)
	p.random(4 * lines)
	touched := [4]int{}
	for i := range lines {
		if m[i*lineSize] != 0 {
			touched[i/(lines/4)]++
		}
	}
	for i, n := range touched { // 1−e⁻⁴ of a quarter is 0.98
		if n < lines/4*95/100 {
			t.Errorf("quarter %d: %d of %d lines were reached", i, n, lines/4)
		}
	}
}

// Where the random pattern goes depends on what it reads: without that a processor
// fetches many lines at once.
func TestRandomPatternDependsOnMemory(t *testing.T) {
	at := func(fill byte) []byte {
		m := bytes.Repeat([]byte{fill}, 1<<16)
		(&pressure{m: m, state: 1}).random(100)
		for i := range m {
			m[i] -= fill
		}
		return m
	}
	if bytes.Equal(at(0), at(1)) {
		t.Error("the same lines were touched whatever they held")
	}
}

func TestPressureReadsTheCounters(t *testing.T) {
	proc := t.TempDir()
	write(t, filepath.Join(proc, "vmstat"), "nr_free_pages 5\npgfault 100\npgmajfault 7\npswpin x\n")
	write(t, filepath.Join(proc, "meminfo"), "MemTotal: 900 kB\nMemAvailable:   65536 kB\n")
	ms, err := takeSamples(t, hostProbeNamed(t, "memory_tiers/pressure_sequential"), claims.Env{ProcRoot: proc}, 1)
	if err != nil {
		t.Fatal(err)
	}
	e := ms[0].Extra
	if e["pgfault_before"] != 100 || e["pgmajfault_after"] != 7 || e["bytes"] > 16<<20 || ms[0].Batch != pressureBatch {
		t.Errorf("%+v", ms[0])
	}
	if _, ok := e["pswpin_before"]; ok {
		t.Error("a counter that cannot be read is there")
	}
	write(t, filepath.Join(proc, "meminfo"), "MemTotal: 900 kB\n")
	if _, err := takeSamples(t, hostProbeNamed(t, "memory_tiers/pressure_random"), claims.Env{ProcRoot: proc}, 1); !errors.Is(err, claims.ErrUnavailable) {
		t.Errorf("how much is free is not known: %v", err)
	}
}

// Memory is not asked for that a control group would kill us for.
func TestFreeMemoryKeepsToTheControlGroup(t *testing.T) {
	for _, c := range []struct {
		name, cgroup string
		files        map[string]string
		want         uint64
	}{
		{"none", "0::/\n", nil, 1 << 30},
		{"no limit", "0::/a\n", map[string]string{"a/memory.max": "max\n", "a/memory.current": "5\n"}, 1 << 30},
		{"of ours", "0::/a\n", map[string]string{"a/memory.max": "1000\n", "a/memory.current": "400\n"}, 600},
		{"of one above", "0::/a/b\n", map[string]string{"a/memory.max": "1000\n", "a/memory.current": "900\n", "a/b/memory.max": "500\n", "a/b/memory.current": "1\n"}, 100},
		{"full", "0::/a\n", map[string]string{"a/memory.max": "1000\n", "a/memory.current": "1200\n"}, 0},
		{"version 1", "4:cpu:/x\n3:memory:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": "1000\n", "memory/a/memory.usage_in_bytes": "1\n"}, 999},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := claims.Env{ProcRoot: t.TempDir(), SysRoot: t.TempDir()}
			write(t, filepath.Join(env.ProcRoot, "meminfo"), "MemAvailable: 1048576 kB\n")
			write(t, filepath.Join(env.ProcRoot, "self/cgroup"), c.cgroup)
			for name, text := range c.files {
				write(t, filepath.Join(env.SysRoot, "fs/cgroup", name), text)
			}
			if got, err := freeMemory(env); err != nil || got != c.want {
				t.Errorf("%d, %v; want %d", got, err, c.want)
			}
			if c.want < 1<<20 {
				if _, err := anonymous(context.Background(), env, 1<<20, false); !errors.Is(err, claims.ErrUnavailable) {
					t.Errorf("a megabyte was had: %v", err)
				}
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// A page that holds something else than what was written to it is found, whatever
// the speed.
func TestDiskPressureFindsAWrongPage(t *testing.T) {
	for _, random := range []bool{false, true} {
		d, err := newDiskPressure(t.Context(), claims.Env{Dir: t.TempDir(), Seed: 1}, random)
		if err != nil {
			t.Skip(err) // the test of all probes says whether it may
		}
		if _, err := d.sample(t.Context()); err != nil {
			t.Error(err)
		}
		for i := range d.stamps {
			d.stamps[i] += 7
		}
		if _, err := d.sample(t.Context()); !errors.Is(err, claims.ErrWrong) {
			t.Errorf("random %v: %v", random, err)
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
}
