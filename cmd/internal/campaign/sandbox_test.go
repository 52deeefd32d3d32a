package campaign

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/vast"
	"github.com/assay-bench/assay/campaign/sandbox"
)

// The command serves clouds, a book, and credentials that work.
func TestSandboxServes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sandbox.env")
	cmd := newSandbox()
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--scale", "100", "--fault", "vast:list-lag=0", "--credentials", file})
	out, in := io.Pipe()
	cmd.SetOut(in)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	said := map[string]string{}
	lines := bufio.NewScanner(out)
	for range 4 {
		if !lines.Scan() {
			t.Fatal(<-done)
		}
		name, value, _ := strings.Cut(lines.Text(), " ")
		said[name] = strings.TrimSpace(value)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || said["credentials"] != file {
		t.Errorf("%v, %v, %v", info, err, said)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	if env["VAST_API_URL"] != said["vast"] || env["TENSORDOCK_API_URL"] != said["tensordock"] || env["ASSAY_SANDBOX_SCALE"] != "100" {
		t.Errorf("%v, %v", env, said)
	}
	p := vast.New(vast.Config{Base: env["VAST_API_URL"], Key: env["VAST_API_KEY"]})
	offers, err := p.Offers(t.Context(), provider.Query{GPU: "RTX 5090"})
	if err != nil || len(offers) == 0 {
		t.Fatal(offers, err)
	}
	if _, err := p.Create(t.Context(), provider.Order{Label: "a", Offer: offers[0]}); err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(said["control"] + "/book")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var book sandbox.Book
	if err := json.NewDecoder(res.Body).Decode(&book); err != nil || book.Alive != 1 || book.Scale != 100 {
		t.Errorf("%+v, %v", book, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSandboxRefuses(t *testing.T) {
	for _, args := range [][]string{{"--fault", "nonsense=1"}, {"--fault", "storm"}, {"--fault", "storm=7"}, {"--scale", "-1"}, {"--listen", "0.0.0.0:0"}, {"--control", "0.0.0.0:0"}} {
		cmd := newSandbox()
		cmd.SetArgs(append(args, "--credentials", filepath.Join(t.TempDir(), "x")))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
