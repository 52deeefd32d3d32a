package claims

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestPrerequisitesAreRead(t *testing.T) {
	const head = "claims:\n  - {name: a, probe: consensus/single_vote, metric: p95, target: <= 1s}\nrequires:\n"
	s, err := Read(strings.NewReader(head+"  cpus: 16\n  memory: 64 GB\n  gpu_memory: 24GiB\n  disk: 100GB\n  kernel: 6.10 # not 6.1\n  cuda: \"12\"\n  modules: [swarm_guard]\n  programs: [perf]\n"), "f.yaml", testCatalog())
	if err != nil {
		t.Fatal(err)
	}
	want := Requirements{CPUs: 16, Memory: 64e9, GPUMemory: 24 << 30, Disk: 100e9, Kernel: "6.10", CUDA: "12", Modules: []string{"swarm_guard"}, Programs: []string{"perf"}}
	if !reflect.DeepEqual(s.Requires, want) {
		t.Errorf("got  %+v\nwant %+v", s.Requires, want)
	}
	for _, c := range []struct{ line, want string }{
		{"  cpus: -1\n", "f.yaml:4:9: a number of CPUs"},
		{"  memory: lots\n", `f.yaml:4:11: memory: "lots" is no amount`},
		{"  disk: 5 ms\n", "f.yaml:4:9: disk: ms is a unit of time"},
		{"  disk: 100\n", "f.yaml:4:9: disk: the value needs a unit"},
		{"  kernel: new\n", `f.yaml:4:11: kernel is the oldest version`},
		{"  modules: [\"a; rm -rf /\"]\n", "f.yaml:4:14: "},
		{"  programs: [../../x]\n", "f.yaml:4:14: "},
		{"  ram: 1\n", "f.yaml:4:3: unknown field"},
	} {
		if _, err := Read(strings.NewReader(head+c.line), "f.yaml", testCatalog()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got  %v\nwant %s", c.line, err, c.want)
		}
	}
}

// What is missing is told before anything is measured, stands in the result, and
// decides nothing.
func TestMissingPrerequisitesAreToldFirst(t *testing.T) {
	var said []string
	o := fixture(t)
	o.Log = slog.New(heard(func(line string) { said = append(said, line) }))
	r := runFile(t, o, claimLines("probe: f/a, metric: mean, target: <= 1s")+"requires: {cpus: 16}\n", fake("f/a", around(1e-3)))
	if len(said) < 3 || said[0] != "missing: CPUs: wanted at least 16, and there is 2" ||
		said[1] != "missing: CUDA: wanted at least 12; not known: nvidia-smi is not installed (install it)" || strings.HasPrefix(said[2], "missing") {
		t.Errorf("said %q", said)
	}
	if r.Verdict != assay.Pass || !strings.Contains(r.Because, "prerequisites are missing: CPUs, CUDA") || len(r.Prerequisites) != 3 {
		t.Errorf("%v because %s, %+v", r.Verdict, r.Because, r.Prerequisites)
	}
}

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		have, want string
		newer, ok  bool
	}{
		{"6.14.0-13-generic", "6.14", true, true}, {"6.9.1", "6.14", false, true}, {"6.14", "6.14.0", true, true}, {"6.14", "6.14.1", false, true},
		{"12.8", "12", true, true}, {"11.8", "12", false, true}, {"7", "6.14", true, true}, {"6.14-rc1", "6.14", true, true},
		{"", "6", false, false}, {"unknown", "6", false, false}, {"6", "", false, false},
	} {
		if newer, ok := AtLeast(c.have, c.want); newer != c.newer || ok != c.ok {
			t.Errorf("%q at least %q: %v, %v", c.have, c.want, newer, ok)
		}
	}
}
