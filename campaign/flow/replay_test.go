package flow

import (
	"bytes"
	"encoding/base64"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

var update = flag.Bool("update", false, "record the histories that workflows must replay")

// Histories of workflows that ran, on a real server. What is under way when a new
// version is started must go on with it: changes of a workflow ask GetVersion, and
// are recorded beside the old histories.
func TestRecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.history.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d histories, %v: go test -run TestRealCampaignRunsAndGivesBack -update records them", len(files), err)
	}
	for _, file := range files {
		r := worker.NewWorkflowReplayer()
		r.RegisterWorkflowWithOptions(Cell, workflow.RegisterOptions{Name: CellWorkflow})
		r.RegisterWorkflowWithOptions(Campaign, workflow.RegisterOptions{Name: CampaignWorkflow})
		if err := r.ReplayWorkflowHistoryFromJSONFile(silent{}, file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// keepHistory sees that no secret is in a workflow's history, and keeps it when that
// is asked for.
func keepHistory(t *testing.T, temporal, address, id, name string, secrets ...string) {
	t.Helper()
	out, err := exec.Command(temporal, "workflow", "show", "--address", address, "--workflow-id", id, "--output", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if secret == "" || bytes.Contains(out, []byte(secret)) || bytes.Contains(out, []byte(base64.StdEncoding.EncodeToString([]byte(secret)))) {
			t.Errorf("a secret is in the history of %s", id)
		}
	}
	if !*update {
		return
	}
	out = regexp.MustCompile(`"identity": "[^"]*"`).ReplaceAll(out, []byte(`"identity": "worker"`))
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".history.json"), out, 0o644); err != nil {
		t.Fatal(err)
	}
}
