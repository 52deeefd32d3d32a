package reap

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/sandboxtest"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/parttest"
)

// Of full campaigns machines are real, and so are their engines and Temporal: a minute
// of the clouds is three seconds, and a benchmark takes as long as it takes.
const (
	fullScale  = 20
	fullPeriod = time.Minute / fullScale
)

// fullMatrix is a matrix with times that a test has.
const fullMatrix = `format: assay/matrix/v1
name: %s
budget: {campaign: 1.50, cell: 1.20, day: 4.00}
duration: 2s
attempts: 3
limits: {provision: 12s, setup: 20s, load: 15s, benchmark: 20s, collect: 15s, end: 5s}
cells:
  - {gpus: [RTX 4090], providers: [vast, tensordock], models: ["%s"]}
  - {gpus: ["%s"], providers: [vast], models: ["deepseek-r1:14b"]}
`

// Campaigns as somebody runs them, all at once on one database and one Temporal: the
// program itself, which is killed -9 again and again, a Temporal that is killed too, a
// real sshd in namespaces of its own behind each instance, and clouds that do all that
// they do wrong. What lived and what it cost is in their own book.
func TestFullCampaigns(t *testing.T) {
	rounds, each := 1, 3
	if os.Getenv("ASSAY_LONG") == "1" {
		rounds, each = 5, 4 // more at once would be about this machine
	}
	wrong := faults()
	wrong[sandbox.SettingRefusedFor] = 240                             // long enough that somebody might rent meanwhile
	wrong[sandbox.SettingImageGB], wrong[sandbox.SettingPullGB] = 2, 4 // Ollama's, and the smallest model
	var all sums
	for n := range uint64(rounds) {
		var matrices []string
		for k := range each {
			matrices = append(matrices, fmt.Sprintf(fullMatrix, fmt.Sprint("full-", k),
				[]string{"qwen2:7b", "deepseek-r1:14b"}[k%2], []string{"RTX 3090", "RTX 5090", "A100 80GB"}[k%3]))
		}
		all.add(full{matrices: matrices, faults: wrong, lease: 3 * time.Minute / fullScale, kills: 2, outages: 1}.run(t, n+1))
	}
	all.figure(t, fmt.Sprintf("%d full campaigns", rounds*each), fullScale, fullPeriod)
}

// The whole example, once through, by the rates of faults seen in the open: whatever
// becomes of a cell, it has a status, a stage and a cause.
func TestMatrixCampaign(t *testing.T) {
	if os.Getenv("ASSAY_LONG") != "1" {
		t.Skip("its 21 cells take some minutes: TestFullCampaigns has nine of them")
	}
	text, err := os.ReadFile("../../examples/campaigns/gpu-matrix.yaml")
	must(t, err)
	for old, with := range map[string]string{
		"duration: 5m": "duration: 3s\nlimits: {provision: 15s, setup: 30s, load: 20s, benchmark: 30s, collect: 20s, end: 5s}",
		// Everything costs as much as on the clouds' clock, and lives twenty times as long
		// by it: the budget is not what is tried here.
		"campaign: 60.00": "campaign: 600.00", "cell: 6.00": "cell: 60.00",
	} {
		if !strings.Contains(string(text), old) {
			t.Fatalf("the example has no %q", old)
		}
		text = []byte(strings.Replace(string(text), old, with, 1))
	}
	nasty := sandbox.Nasty()
	nasty[sandbox.FaultLimits] = 0 // counted, as the machine's own delays would be answered too
	nasty[sandbox.SettingImageGB], nasty[sandbox.SettingPullGB] = 2, 0.9
	s := full{matrices: []string{string(text)}, faults: nasty, lease: 10 * time.Minute / fullScale, window: 8}.run(t, 7)
	s.figure(t, "the example's matrix", fullScale, fullPeriod)
}

// full is a set of campaigns that run at once.
type full struct {
	matrices []string
	faults   map[string]float64
	// lease is that of machines. One that is shorter than Temporal takes to miss a
	// worker ends when that is killed: reap is what ends its machines.
	lease   time.Duration
	window  int // cells of one campaign at once; 0: all
	kills   int // of each campaign's process
	outages int // of Temporal
}

// site is where campaigns run.
type site struct {
	full
	w    *watch
	bin  string   // directory of our programs
	args []string // of each command that works on campaigns
	dir  string
}

func (f full) run(t *testing.T, seed uint64) *sums {
	server := parttest.Temporal(t)
	cloud, err := sandbox.New(sandbox.Config{Scale: fullScale, Seed: seed, Start: sandboxtest.Machines(t)})
	must(t, err)
	defer cloud.Close()
	web := httptest.NewServer(cloud.Handler())
	defer web.Close()
	dir := t.TempDir()
	w := newWatch(t, cloud, &account{URL: web.URL, Database: filepath.Join(parttest.MemoryDir(t), "campaign.db"), Scale: fullScale, Period: fullPeriod})
	w.strict = true
	keys := filepath.Join(dir, "keys")
	must(t, os.WriteFile(keys, fmt.Appendf(nil, "VAST_API_KEY=%s\nVAST_API_URL=%s\nTENSORDOCK_API_KEY=%s\nTENSORDOCK_API_URL=%s\nASSAY_SANDBOX_SCALE=%d\n",
		w.a.Vast, web.URL+sandbox.VastPath, w.a.TensorDock, web.URL+sandbox.TensorDockPath, fullScale), 0o600))
	bin := programs(t)
	s := &site{full: f, w: w, bin: bin, dir: dir, args: []string{
		"--credentials", keys, "--database", "sqlite:" + w.a.Database, "--state", filepath.Join(dir, "state"),
		"--temporal", server.URL, "--node-binary", filepath.Join(bin, "assay-node"), "--quiet",
	}}
	must(t, cloud.Set(f.faults))
	end := w.begin(seed)
	defer end()
	began := time.Now()
	defer retire(cloud, 15*time.Second, 3*time.Second)()
	var workers sync.WaitGroup
	for n, matrix := range f.matrices {
		workers.Go(func() { s.campaign(n, matrix, seed<<8+uint64(n)) })
	}
	r := rand.New(rand.NewPCG(seed, 6))
	for range f.outages {
		time.Sleep(8*time.Second + time.Duration(r.Int64N(int64(8*time.Second))))
		server.Kill()
		time.Sleep(time.Second)
		server.Restart()
	}
	workers.Wait()
	s.outcomes(time.Since(began))
	w.settled()
	end()
	return w.check(cloud.Book())
}

// programs is the directory of our two programs: CI's, or one that they are built into.
func programs(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("BIN"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir, "github.com/assay-bench/assay/cmd/assay", "github.com/assay-bench/assay/cmd/assay-node")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// campaign runs one, kills it some times, and has it go on until it has ended.
func (s *site) campaign(n int, matrix string, seed uint64) {
	t, r := s.w.t, rand.New(rand.NewPCG(seed, 5))
	file := filepath.Join(s.dir, fmt.Sprintf("matrix-%d.yaml", n))
	must(t, os.WriteFile(file, []byte(matrix), 0o600))
	var last string
	for kills, id := 0, ""; s.w.ctx.Err() == nil; {
		args := []string{"campaign", "run", file, "--lease", s.lease.String()}
		if s.window > 0 {
			args = append(args, "--window", fmt.Sprint(s.window))
		}
		if id != "" {
			args = []string{"campaign", "resume", id}
		}
		cmd := exec.CommandContext(s.w.ctx, filepath.Join(s.bin, "assay"), append(args, s.args...)...)
		var output parttest.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		must(t, cmd.Start())
		var kill *time.Timer
		if kills < s.kills {
			kill = time.AfterFunc(3*time.Second+time.Duration(r.Int64N(int64(9*time.Second))), func() { _ = cmd.Process.Kill() })
		}
		_ = cmd.Wait() // how it ended is in the database
		if kill != nil && !kill.Stop() {
			kills++
			s.w.kills9.Add(1)
		}
		last = output.String()
		c, found := s.find(matrix)
		if found && c.Status != store.Running {
			return
		}
		id = c.ID
		time.Sleep(200 * time.Millisecond) // Temporal may be away
	}
	t.Errorf("campaign %d does not end: %s", n, last)
}

// find gives the campaign of a matrix: a process that was killed may not have said
// which one it began.
func (s *site) find(matrix string) (store.Campaign, bool) {
	list, err := s.w.a.store.Campaigns(s.w.t.Context())
	must(s.w.t, err)
	for _, c := range list {
		if c.Matrix == matrix {
			return c, true
		}
	}
	return store.Campaign{}, false
}

// outcomes checks that each cell has one, and prints how many are good.
func (s *site) outcomes(took time.Duration) {
	t, ctx := s.w.t, s.w.t.Context()
	list, err := s.w.a.store.Campaigns(ctx)
	must(t, err)
	all, first := 0, 0
	by, causes := map[string]int{}, map[string]int{}
	for _, c := range list {
		cells, err := s.w.a.store.Cells(ctx, c.ID)
		must(t, err)
		for _, l := range cells {
			intents, err := s.w.a.store.Intents(ctx, l.ID)
			must(t, err)
			all++
			by[l.Status]++
			switch l.Status {
			case string(campaign.Success):
				if called(intents) == 1 {
					first++
				}
				continue
			case string(campaign.Partial), string(campaign.Failed), string(campaign.Skipped):
			default:
				t.Errorf("cell %s ended as %+v", l.ID, l.Progress)
			}
			if causes[l.Stage+" "+l.Cause]++; l.Stage == "" || l.Cause == "" {
				t.Errorf("cell %s does not say at which stage it failed, or why: %+v", l.ID, l.Progress)
			}
			t.Logf("cell %s after %d tries: %+v", l.ID, called(intents), l.Progress)
		}
	}
	parttest.Figure(t, "%d cells in %s: %d measured (%.0f %%), %d of them at their first try; by status %v, failures by stage and cause %v",
		all, took.Round(time.Second), by[string(campaign.Success)], 100*float64(by[string(campaign.Success)])/float64(max(all, 1)), first, by, causes)
}
