package clouds

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/campaign/provider"
)

// The file of docs/providers.md opens machines and programs.
func TestOwnProviders(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/providers.md has no example")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "cloud.sh")
	if err := os.WriteFile(program, []byte(`echo '{"verbs": ["get"], "min_interval_s": {"list": 1}}'`), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "providers.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(text, "examples/campaigns/provider.sh", program, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var waits []string
	got, err := openOwn(t.Context(), file, func(traits provider.Traits) provider.Wait {
		waits = append(waits, traits.Name)
		return nil
	})
	if err != nil || len(got) != 2 || got[0].Traits.Name != "static" || got[1].Traits.Name != "toy" || strings.Join(waits, " ") != "toy" {
		t.Fatalf("%+v, %v, %v", got, waits, err)
	}
	offers, err := got[0].Provider.Offers(t.Context(), provider.Query{GPU: "RTX 4090"})
	if err != nil || len(offers) != 2 || got[0].Traits.User != "ubuntu" {
		t.Errorf("%+v, %v", offers, err)
	}
	if k := got[0].Traits.KeyFiles; k["box-1"] != filepath.Join(dir, "id_ed25519") || k["box-2"] != filepath.Join(dir, "box-2.key") {
		t.Errorf("keys %v", k)
	}
	if _, err := os.Stat(filepath.Join(dir, "claims")); err != nil {
		t.Error(err)
	}
	if _, ok := got[1].Provider.(provider.Getter); !ok {
		t.Error("the program's page is not there")
	}
}

func TestOwnProvidersRefuse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"statik: {}", "static: {key: k, machines: [{name: a, host: 192.0.2.1}]}", "static: {claims: c, key: k, machines: [{name: A, host: 192.0.2.1}]}", "static: {claims: c, machines: [{name: a, host: 192.0.2.1}]}",
		"commands: [{name: vast, command: [x]}]", "commands: [{name: toy}]", "commands: [{name: toy, command: [/nonexistent]}]",
	} {
		file := filepath.Join(t.TempDir(), "providers.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := openOwn(t.Context(), file, func(provider.Traits) provider.Wait { return nil }); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
