package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/parttest"
)

// burnTheProcessor uses so much processor time, however slow the machine is.
//
//go:noinline
func burnTheProcessor(much time.Duration) (sum float64) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return much
		}
		return time.Duration(u.Utime.Nano())
	}
	for start := used(); used()-start < much; {
		for i := range 1_000_000 {
			sum += float64(i) * 1e-9
		}
	}
	return sum
}

// record profiles this process while it is busy.
func record(t *testing.T, r *Recorder) (*claims.Profile, string) {
	t.Helper()
	dir := t.TempDir()
	if err := r.Start(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if burnTheProcessor(time.Second) == 0 {
		t.Error("nothing was done")
	}
	var result claims.Result
	r.Stop(&result)
	if result.Profile == nil {
		t.Fatal("no profile")
	}
	for _, name := range []string{FoldedFile, FlameFile} {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || i.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "perf*")); len(left) > 0 {
		t.Errorf("perf's own files are left: %v", left)
	}
	return result.Profile, dir
}

func burns(p *claims.Profile) bool {
	for _, h := range p.Hot {
		if strings.Contains(h.Function+h.Path, "burnTheProcessor") && h.Self > 0 && h.Total >= h.Self && h.Total <= 1 {
			return true
		}
	}
	return false
}

// The code that used the processor is found: by perf where that is permitted, else
// by the runtime, and then the reason is there.
func TestProfileCPU(t *testing.T) {
	p, dir := record(t, &Recorder{})
	t.Logf("by %s, %d samples, %s", p.By, p.Samples, p.Why)
	if p.Samples == 0 || !burns(p) {
		t.Errorf("the busy function is not found: %+v", p)
	}
	if (p.By == "perf") != (p.Why == "") {
		t.Errorf("by %s, and why is %q", p.By, p.Why)
	}
	b, err := os.ReadFile(filepath.Join(dir, FoldedFile))
	if err != nil || !strings.Contains(string(b), "burnTheProcessor") {
		t.Errorf("it is not in the stacks: %v", err)
	}
}

func TestProfileSaysWhyWithoutPerf(t *testing.T) {
	refuses := filepath.Join(t.TempDir(), "perf")
	parttest.Program(t, refuses, []byte("#!/bin/sh\necho 'Access to performance monitoring is limited: perf_event_paranoid is 4' >&2\nexit 255\n"))
	for path, why := range map[string]string{
		"/absent/perf": "/absent/perf",
		refuses:        "perf is not permitted here (run as root, or sudo sysctl kernel.perf_event_paranoid=1): perf record: exit status 255",
	} {
		p, _ := record(t, &Recorder{Perf: path})
		if p.By != "runtime/pprof" || !burns(p) || !strings.Contains(p.Why, why) || !strings.HasPrefix(p.Why, "not in the profile: what our process starts") {
			t.Errorf("by %s, busy %v, why %q; want %q", p.By, burns(p), p.Why, why)
		}
	}
}

// An engine that is elsewhere, or nowhere, is said not to be in it; the rest is.
func TestProfileWithoutTheEngine(t *testing.T) {
	p, _ := record(t, &Recorder{Perf: "/absent/perf", EngineURL: "http://192.0.2.1:8000"})
	if !strings.Contains(p.Why, "not in the profile: the engine's processes: 192.0.2.1 is not this machine") {
		t.Errorf("why: %s", p.Why)
	}
}

// perf that hangs at the end holds nobody up for long, and perf that writes
// nonsense gives no samples.
func TestProfileOfAPerfThatLies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf")
	parttest.Program(t, path, []byte("#!/bin/sh\n[ \"$1\" = script ] && { printf 'a<b>\\033[2J 12\\n\\tffffffff81000000 x;y\\n\\nno frames 7\\n\\n\\tstray\\n'; exit 3; }\nexit 0\n"))
	p, dir := record(t, &Recorder{Perf: path})
	if p.By != "perf" || p.Samples != 2 || !strings.Contains(p.Why, "perf script: its process ended: exit status 3") {
		t.Errorf("%+v", p)
	}
	b, err := os.ReadFile(filepath.Join(dir, FoldedFile))
	if want := "a<b>\ufffd[2J;x:y_[k] 1\nno frames 1\n"; err != nil || string(b) != want {
		t.Errorf("got %q, want %q (%v)", b, want, err)
	}
}

const script = `           assay  4711 
	ffffffff81a0b1c2 do_syscall_64 ([kernel.kallsyms])
	    7f12aa0000c1 syscall.Syscall
	          4011aa main.work
	          401000 main.main (/usr/bin/assay)

           assay  4711 
	          4011aa main.work
	          401000 main.main

     true 99 
	    7f0000000001 [unknown] (/usr/lib/libc.so.6)

`

func TestFoldedStacksFromPerfScript(t *testing.T) {
	var s Stacks
	r := scriptReader{to: &s, engine: map[int]bool{99: true}}
	for line := range strings.Lines(script) {
		r.line([]byte(strings.TrimSuffix(line, "\n")))
	}
	r.end()
	var b strings.Builder
	if err := s.Folded(&b); err != nil {
		t.Fatal(err)
	}
	const want = `assay;main.main;main.work 1
assay;main.main;main.work;syscall.Syscall;do_syscall_64_[k] 1
engine: true;[unknown] 1
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	hot := s.Hot(10)
	if len(hot) != 3 || hot[0].Self != 1./3 || s.Samples() != 3 {
		t.Errorf("%+v of %d", hot, s.Samples())
	}
	for _, h := range hot {
		if h.Function == "main.work" && (h.Total != 2./3 || h.Path != "main.main → main.work" || h.Process != "assay") {
			t.Errorf("%+v", h)
		}
	}
}

// The page obeys nothing that stands in a name, and needs nothing else.
func TestFlameGraphIsSelfContained(t *testing.T) {
	var s Stacks
	s.Add([]string{"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</svg><style>", "a\x1b[31m\u202eb"}, 3)
	s.Add([]string{"<script>alert(1)</script>", "kernel_[k]"}, 1)
	var b strings.Builder
	if err := s.Flame(&b, "<title>", "why & <what>"); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{"<script", "<img", "</svg><style>", "\x1b", "\u202e", "http://", "https://", "<title><title>", "<what>", "url(", "@import"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, want := range []string{"default-src 'none'", "&lt;script&gt;alert(1)&lt;/script&gt;: 4 samples, 100.00 %", "kernel_[k]: 1 samples, 25.00 %", `width="899.80"`, "why &amp; &lt;what&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Count(page, "<svg") != 1 || strings.Count(page, "</svg>") != 1 {
		t.Error("the picture is not whole")
	}
	b.Reset()
	if err := new(Stacks).Flame(&b, "empty", ""); err != nil || !strings.Contains(b.String(), "No samples") {
		t.Errorf("an empty profile: %v", err)
	}
}

func TestProfileIsBounded(t *testing.T) {
	var s Stacks
	s.Add(make([]string, maxDepth+1), 5)
	for i := range maxFrames + 1000 {
		s.Add([]string{fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000))}, 1)
	}
	if s.Dropped() < 1000 || s.frames > maxFrames {
		t.Errorf("%d dropped, %d frames", s.Dropped(), s.frames)
	}
	for name := range s.root.calls {
		if len(name) > maxName {
			t.Fatalf("a name of %d bytes", len(name))
		}
	}
	p := &picture{total: s.root.total}
	p.draw(&s.root, 0, 0)
	if p.drawn > maxRects {
		t.Errorf("%d rectangles", p.drawn)
	}
}

// The engine's process is the one that listens; those below it belong to it.
func TestEngineTree(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("net/tcp", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"+
		"   0: 0100007F:1F40 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 1111 1\n"+
		"   1: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1\n")
	for pid, parent := range map[int]int{50: 1, 60: 50, 61: 60, 70: 1, 80: 61} {
		write(fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (en) gine %d) S %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1", pid, pid, parent))
		if err := os.MkdirAll(filepath.Join(root, fmt.Sprint(pid), "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for at, to := range map[string]string{"60/fd/3": "socket:[4242]", "50/fd/3": "socket:[1111]"} {
		if err := os.Symlink(to, filepath.Join(root, at)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := engineTree(root, "http://127.0.0.1:8000/v1")
	if got := fmt.Sprint(tree); err != nil || got != "[{60 en) gine 60} {61 en) gine 61} {80 en) gine 80}]" {
		t.Errorf("%s, %v", got, err)
	}
	for address, want := range map[string]string{
		"http://127.0.0.1:8001":      "nothing listens on port 8001",
		"http://gpu.example.com:80":  "is not this machine",
		"http://localhost:http":      "cannot be read",
		"http://localhost:99999":     "has no port",
		"unix:///var/run/engine.soc": "is not this machine",
	} {
		if _, err := engineTree(root, address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func FuzzOwnProfile(f *testing.F) {
	f.Add([]byte{0x12, 0x04, 0x0a, 0x02, 0x01, 0x02})
	f.Fuzz(func(_ *testing.T, b []byte) {
		p := ownProfile{locations: map[uint64][]uint64{}, functions: map[uint64]uint64{}}
		_ = p.read(b)
	})
}
