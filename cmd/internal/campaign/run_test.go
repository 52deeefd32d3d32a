package campaign

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
)

// Without credentials nothing begins: cells would fail for the want of them, and the
// machines of a campaign that is resumed or cancelled could not be given back.
func TestNothingBeginsWithoutCredentials(t *testing.T) {
	matrix := write(t, "matrix.yaml", "format: assay/matrix/v1\nname: one\nbudget: {campaign: 6}\ncells:\n  - {gpus: [RTX 3090], providers: [vast], models: [\"qwen2:7b\"]}\n")
	poor := write(t, "poor.yaml", "format: assay/matrix/v1\nname: one\ncells:\n  - {gpus: [RTX 3090], providers: [vast], models: [\"qwen2:7b\"]}\n")
	t.Chdir(t.TempDir())
	for _, name := range []string{clouds.VastKey, clouds.TensorDockKey, clouds.ProvidersFile} {
		t.Setenv(name, "")
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"resume"}, "there is no file campaigns.db"},
		{[]string{"cancel"}, "there is no file campaigns.db"},
		{[]string{"run", poor}, "write what it may cost at most in USD"},
		{[]string{"run", matrix}, "there are no credentials: set VAST_API_KEY"},
		{[]string{"resume"}, "there are no credentials: set VAST_API_KEY"},
		{[]string{"cancel"}, "there are no credentials: set VAST_API_KEY"},
		{[]string{"status"}, "assay campaign run FILE begins one"},
		{[]string{"status", "nobody"}, "there is no campaign nobody in this database"},
	} {
		if code, _, stderr := run(t, append([]string{"campaign"}, c.args...)...); code != 1 || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: %d %s", c.args, code, stderr)
		}
	}
	if _, err := os.Stat("campaigns"); !os.IsNotExist(err) {
		t.Errorf("a state directory was made: %v", err)
	}
}

func TestProvidersWithoutCredentials(t *testing.T) {
	skip := "too large"
	vast, tensordock := campaign.Cell{Provider: "vast"}, campaign.Cell{Provider: "tensordock"}
	p := campaign.Plan{Cells: []campaign.Planned{{Cell: vast}, {Cell: tensordock}, {Cell: tensordock}, {Cell: campaign.Cell{Provider: "vats"}, Skip: &skip}}}
	var stderr bytes.Buffer
	if err := configured(p, map[string]clouds.Account{"vast": {}}, &stderr); err != nil || !strings.HasPrefix(stderr.String(), "2 cells cannot be tried: there are no credentials for tensordock: set TENSORDOCK_API_KEY") {
		t.Errorf("%v %s", err, &stderr)
	}
	if err := configured(p, map[string]clouds.Account{"static": {}}, &stderr); err == nil || !strings.Contains(err.Error(), "there are no credentials for vast") {
		t.Errorf("%v", err)
	}
}
