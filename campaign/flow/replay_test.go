package flow

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
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

// keepHistory keeps a workflow's history, when that is asked for.
func keepHistory(t *testing.T, temporal, address, id, name string) {
	t.Helper()
	if !*update {
		return
	}
	out, err := exec.Command(temporal, "workflow", "show", "--address", address, "--workflow-id", id, "--output", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".history.json"), out, 0o644); err != nil {
		t.Fatal(err)
	}
}
