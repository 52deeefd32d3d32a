package server

import (
	"context"
	"net/http"
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
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/store"
)

// Requests that a stranger makes up from the document, for two minutes in all: by
// nobody, by an admin, by a viewer, and by a node. Whatever is asked, the server
// does not fail, and every answer is as the document says.
func TestRealNetworkSchemathesis(t *testing.T) {
	command := parttest.Install(t, "schemathesis")
	objects, err := evidence.NewDirectory(evidence.DirectoryOptions{Dir: t.TempDir(), Path: "/objects/"})
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	n := sqlite(t, func(o *Options) {
		o.Decider, o.Rules, o.Evidence, o.Rentals, o.Renting = agreeable{}, agreeable{}, objects, rack(), rack()
	})
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
	// A body that is too long is refused as such, before it is looked at.
	config := filepath.Join(dir, "schemathesis.toml")
	if err := os.WriteFile(config, []byte(`[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, who := range []struct {
		name, token string
		more        []string
	}{
		{"nobody", "", []string{"--exclude-checks", "positive_data_acceptance"}},
		{"a viewer", n.token(api.NewTokenRoleViewer, "ours"), []string{"--exclude-checks", "positive_data_acceptance,ignored_auth"}},
		// A poll waits on purpose.
		{"a node", node.token, []string{"--exclude-checks", "positive_data_acceptance,ignored_auth", "--exclude-operation-id", "listCommands"}},
		// It learns ids from answers, and would end its own token.
		{"an admin", n.admin, []string{"--exclude-checks", "positive_data_acceptance,ignored_auth", "--exclude-operation-id", "deleteToken"}},
	} {
		t.Run(who.name, func(t *testing.T) {
			args := []string{"--config-file", config, "run", file, "--url", n.url, "--phases", "examples,coverage,fuzzing", "--max-time", "30", "--request-timeout", "70", "--no-color", "--suppress-health-check", "all"}
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
			if who.token == "" {
				return
			}
			// Whoever lost their token on the way was asked as nobody from then on.
			if code := n.do("GET", "/api/v1/me", who.token, "", nil).status; code != http.StatusOK {
				t.Errorf("at the end the token is answered %d", code)
			}
		})
	}
}

// agreeable decides nothing, and is content with everything.
type agreeable struct{}

func (agreeable) Enrolled(context.Context, string) error                             { return nil }
func (agreeable) Acknowledged(context.Context, string, string, string) error         { return nil }
func (agreeable) Reported()                                                          {}
func (agreeable) Act(context.Context, Act) error                                     { return nil }
func (agreeable) Reset(context.Context, Principal, time.Duration, store.Trail) error { return nil }
func (agreeable) Test(context.Context, control.Policy, int) (api.PolicyTest, error) {
	return api.PolicyTest{Decisions: nil}, nil
}
