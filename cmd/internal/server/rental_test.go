package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/sandboxtest"
	campaigns "github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/parttest"
)

// initialised is the database of a new server.
func initialised(t *testing.T) (url, dir string) {
	t.Helper()
	dir = t.TempDir()
	url = "sqlite:" + filepath.Join(dir, "a.db")
	if code, _, stderr := run(t, "server", "init", "--database", url, "--admin-token-file", filepath.Join(dir, "admin")); code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	return url, dir
}

// serving runs a server until the test ends, and gives what a line of its words ends
// with that begins so.
func serving(t *testing.T, begins string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := &parttest.Buffer{}
	root := cli.Root("assay", nil, New())
	root.SetOut(out)
	root.SetErr(out)
	done := make(chan int, 1)
	go func() { done <- cli.Run(ctx, root, append([]string{"server", "--listen", "127.0.0.1:0"}, args...)) }()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("the server ended with %d:\n%s", code, out)
		}
	})
	for range 1000 {
		if _, rest, ok := strings.Cut(out.String(), begins); ok && strings.Contains(rest, "\n") {
			line, _, _ := strings.Cut(rest, "\n")
			return line
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the server does not begin:\n%s", out)
	return ""
}

// failedSession keeps one in a database that failed.
func failedSession(t *testing.T, url string) string {
	t.Helper()
	db, err := database.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := campaigns.New(db)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Migrate(t.Context()))
	usd := assay.Money{Nano: 1e9, Currency: provider.Currency}
	must(s.AddCampaign(t.Context(), campaigns.Campaign{ID: "c", Caps: campaigns.Caps{Cell: usd, Campaign: usd, Day: usd}},
		[]campaigns.Cell{{ID: "c-1", Campaign: "c", GPU: "RTX 3090", Provider: "vast"}, {ID: "c-2", Number: 1, Campaign: "c", GPU: "RTX 3090", Provider: "vast"}}))
	terms := campaigns.Terms{Cell: "c-1", Provider: "vast", Offer: "1", Hour: usd, Lease: time.Hour, Life: time.Hour}
	i, err := s.Intend(t.Context(), terms)
	must(err)
	must(s.Call(t.Context(), i.Label))
	must(s.End(t.Context(), i.Label, "no public IPs", true))
	_, err = s.Confirm(t.Context(), i.Label)
	must(err)
	terms.Cell = "c-2" // another one goes on
	_, err = s.Intend(t.Context(), terms)
	must(err)
	return i.Label
}

// simulated are clouds that are none, and the file of their keys.
func simulated(t *testing.T) (file string) {
	t.Helper()
	box, url := sandboxtest.Start(t, sandbox.Config{Scale: 3600})
	file = filepath.Join(t.TempDir(), "keys")
	text := fmt.Sprintf("VAST_API_KEY=%s\nVAST_API_URL=%s\nTENSORDOCK_API_KEY=%s\nTENSORDOCK_API_URL=%s\nASSAY_SANDBOX_SCALE=3600\n",
		box.Key(sandbox.Vast), url+sandbox.VastPath, box.Key(sandbox.TensorDock), url+sandbox.TensorDockPath)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The lines by which the test design looks at sessions and inventory work as they
// stand, on port 8080 where that is free.
func TestLinesOfTheTestDesign(t *testing.T) {
	for _, program := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			parttest.Need(t, program+" is not installed")
		}
	}
	page, err := os.ReadFile("../../../docs/campaigns.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^curl localhost:8080/.*$`).FindAllString(string(page), -1)
	if len(lines) != 2 || lines[0] != `curl localhost:8080/api/v1/sessions | jq '.[] | select(.status=="failed")'` || lines[1] != `curl localhost:8080/api/v1/inventory?provider=tensordock&gpu_name=RTX%203090` {
		t.Fatalf("docs/campaigns.md has other lines: %q", lines)
	}
	url, _ := initialised(t)
	failed := failedSession(t, url)
	address := "127.0.0.1:8080"
	if ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address); err == nil {
		ln.Close()
	} else {
		address = "127.0.0.1:0" // somebody else has it
	}
	at := serving(t, "without a token at http://", "--database", url, "--credentials", simulated(t), "--compat-listen", address)
	shell := func(line string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, "localhost:8080", "localhost:"+at[strings.LastIndex(at, ":")+1:], 1)+"\nwait")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, &stderr)
		}
		return string(out)
	}
	var session struct{ ID, Status, Error string }
	if out := shell(lines[0]); json.Unmarshal([]byte(out), &session) != nil || session.ID != failed || session.Error != "no public IPs" {
		t.Errorf("%s", out)
	}
	var offers []struct {
		Provider string `json:"provider"`
		GPU      string `json:"gpu_type"`
	}
	if out := shell(lines[1]); json.Unmarshal([]byte(out), &offers) != nil || len(offers) == 0 {
		t.Errorf("%s", out)
	}
	all := len(offers)
	quoted := strings.Replace(lines[1], "curl ", "curl '", 1) + "'"
	if out := shell(quoted); json.Unmarshal([]byte(out), &offers) != nil || len(offers) == 0 || len(offers) >= all {
		t.Errorf("both filters: %d of %d: %s", len(offers), all, out)
	}
	for _, o := range offers {
		if o.Provider != "tensordock" || !provider.SameGPU("RTX 3090", o.GPU) {
			t.Errorf("%+v", o)
		}
	}
}

// What is told wrongly is said before anything is served.
func TestRentalFlags(t *testing.T) {
	url, dir := initialised(t)
	empty := filepath.Join(dir, "keys")
	if err := os.WriteFile(empty, []byte("OTHER=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"for this machine only":       {"--compat-listen", "0.0.0.0:8080"},
		"--credentials names":         {"--rent-budget", "20"},
		"has no key of a cloud":       {"--credentials", empty},
		"not a database URL":          {"--campaigns", "mysql://x"},
		"--rent-budget: ":             {"--rent-budget", "much", "--credentials", empty},
		"no such file":                {"--credentials", filepath.Join(dir, "none")},
		"--compat-listen: write HOST": {"--compat-listen", "8080"},
	} {
		if code, _, stderr := run(t, append([]string{"server", "--database", url, "--listen", "127.0.0.1:0"}, args...)...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s, and not %q", args, code, stderr, want)
		}
	}
}
