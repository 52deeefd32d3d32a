package agent

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
)

// testLog shows what the agent says when a test fails.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// From nothing to a run that the server has: enrolled, logged in, checked by
// command, signed, delivered, uploaded, confirmed, removed.
func TestAgentFromTokenToReport(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	a := start(t, c, testOptions(testLog(t)))
	id := f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the check is done", func() bool { _, done := f.outcome(id); return done })
	got, _ := f.outcome(id)
	if got.Outcome != api.AcknowledgementOutcomeDone || value(got.Run) == "" {
		t.Fatalf("the check: %s %s", got.Outcome, value(got.Detail))
	}
	eventually(t, "the run is confirmed and removed", func() bool {
		f.mu.Lock()
		n := len(f.confirmed)
		f.mu.Unlock()
		waiting, _ := a.reports.count()
		return n == 1 && waiting == 0
	})
	node := a.session.node()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.taken) != 3 || len(f.reports) != 1 {
		t.Fatalf("%d statements and %d reports, want 3 and 1", len(f.taken), len(f.reports))
	}
	if _, err := ledger.ParseKey(f.statements[f.taken[0]]); err != nil {
		t.Errorf("the first statement is not the key's: %v", err)
	}
	for _, r := range f.reports {
		if value(r.Command) != id {
			t.Errorf("the report names the command %q, want %q", value(r.Command), id)
		}
		names := map[string]string{}
		for _, file := range r.Files {
			names[file.Name] = file.Sha256
			if int64(len(f.objects[file.Sha256])) != file.Size {
				t.Errorf("%s: %d bytes are stored, want %d", file.Name, len(f.objects[file.Sha256]), file.Size)
			}
		}
		var m assay.Manifest
		if err := json.Unmarshal(f.objects[names["run.json"]], &m); err != nil || m.Node.ID != node || m.ID != value(got.Run) || m.Engine.Replica != "default" {
			t.Errorf("run.json is of node %q and run %q (%v), want %q and %q", m.Node.ID, m.ID, err, node, value(got.Run))
		}
		for _, name := range []string{"host.clock", "engine.answers"} {
			if !strings.Contains(string(f.objects[names["checks.jsonl"]]), `"`+name+`"`) {
				t.Errorf("checks.jsonl has no %s: %s", name, f.objects[names["checks.jsonl"]])
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(c.State, runsDir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	if len(f.inventory) == 0 || len(f.inventory[0].Replicas) != 1 {
		t.Errorf("the first inventory is not whole: %+v", f.inventory)
	}
	if b := f.beats[len(f.beats)-1]; b.ClockSkewSeconds == nil || b.RunningKnown == nil || !*b.RunningKnown {
		t.Errorf("heart-beat: %+v", b)
	}
}

// The page has the root's families and no other, and says what happened.
func TestAgentPage(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := start(t, testConfig(t, f.http.URL, engine(t)), testOptions(testLog(t)))
	id := f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the check is done", func() bool { _, done := f.outcome(id); return done })
	eventually(t, "the statements are delivered", func() bool { return a.box.Counts().Taken == 3 })
	get := func(path string) string {
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	if got := get("/healthz"); got != "ok\n" {
		t.Errorf("healthz: %q", got)
	}
	page := get("/metrics")
	for _, m := range assay.Metrics() {
		if m.In != assay.AgentPage {
			continue
		}
		if n := strings.Count("\n"+page, "\n# TYPE "+m.Name+" "); n != 1 && m.Name != "assay_agent_score" { // which needs a baseline
			t.Errorf("%s is there %d times", m.Name, n)
		}
	}
	for line := range strings.Lines(page) {
		name, isHelp := strings.CutPrefix(line, "# HELP "+familyPrefix)
		if name, _, _ = strings.Cut(name, " "); isHelp {
			if _, ok := assay.MetricOf(familyPrefix + name); !ok {
				t.Errorf("%s is not in the table", familyPrefix+name)
			}
		}
	}
	for _, want := range []string{`assay_agent_records_total{outcome="taken"} 3`, `assay_agent_checks_total{outcome="done"} 1`, `assay_agent_engine_up 1`, `metric="ttft_ms"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s:\n%s", want, page)
		}
	}
}

// The state directory belongs to one agent, and to one server.
func TestStateIsOneAgents(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	a, err := Open(c, testOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(c, testOptions(nil)); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second agent: %v", err)
	}
	key := a.session.id.Key
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a, err = Open(c, testOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	if a.session.id.Key != key {
		t.Error("a restart made another key")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	other := c
	other.Server.URL = "http://127.0.0.1:1"
	if _, err := Open(other, testOptions(nil)); err == nil || !strings.Contains(err.Error(), "belongs to the server") {
		t.Errorf("another server: %v", err)
	}
	for _, name := range []string{phraseFile, filepath.Join(keysDir, key+".key"), nodeFile} {
		info, err := os.Stat(filepath.Join(c.State, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	if err := os.Chmod(c.State, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(c, testOptions(nil)); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that others read: %v", err)
	}
}
