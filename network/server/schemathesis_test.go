package server

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	openapi "github.com/assay-bench/assay/docs/api"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// Requests that a stranger makes up from the document, for two minutes in all: by
// nobody, by an admin, by a viewer, and by a node. Whatever is asked, the server
// does not fail, and every answer is as the document says.
func TestRealNetworkSchemathesis(t *testing.T) {
	command := parttest.Install(t, "schemathesis")
	n := sqlite(t, func(o *Options) { o.Decider, o.Rules = agreeable{}, agreeable{} })
	node := n.enrol("ours")
	// Ids that are made up are of nobody: the document names one that is there too.
	document := strings.Replace(string(openapi.Document), `NodeId: { name: node, in: path, required: true, schema: { $ref: "#/components/schemas/Id" } }`,
		`NodeId: { name: node, in: path, required: true, schema: { type: string, enum: ["`+node.id+`", "`+someID+`"] } }`, 1)
	if document == string(openapi.Document) {
		t.Fatal("the document's parameter NodeId is another")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "openapi.yaml")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, who := range []struct {
		name, token string
		more        []string
	}{
		{"nobody", "", []string{"--exclude-checks", "positive_data_acceptance"}},
		{"a viewer", n.token(api.NewTokenRoleViewer, "ours"), []string{"--exclude-checks", "positive_data_acceptance,ignored_auth"}},
		{"an admin", n.admin, []string{"--exclude-checks", "positive_data_acceptance,ignored_auth"}},
		// A poll waits on purpose.
		{"a node", node.token, []string{"--exclude-checks", "positive_data_acceptance,ignored_auth", "--exclude-operation-id", "listCommands"}},
	} {
		t.Run(who.name, func(t *testing.T) {
			args := []string{"run", file, "--url", n.url, "--phases", "examples,coverage,fuzzing", "--max-time", "30", "--request-timeout", "70", "--no-color", "--suppress-health-check", "all"}
			if who.token != "" {
				args = append(args, "-H", "Authorization: Bearer "+who.token)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, command, append(args, who.more...)...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// agreeable decides nothing, and is content with everything.
type agreeable struct{}

func (agreeable) Enrolled(context.Context, string) error                      { return nil }
func (agreeable) Acknowledged(context.Context, string, string, string) error  { return nil }
func (agreeable) Reported()                                                   {}
func (agreeable) Act(context.Context, Act) error                              { return nil }
func (agreeable) Reset(context.Context, Principal, string, store.Trail) error { return nil }
func (agreeable) Test(context.Context, control.Policy, int) (api.PolicyTest, error) {
	return api.PolicyTest{Decisions: nil}, nil
}
