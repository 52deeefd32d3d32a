package command_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/command"
	"github.com/assay-bench/assay/campaign/provider/providertest"
)

func script(t *testing.T, text string) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cloud.sh")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"/bin/sh", name}
}

// The worked example of docs/providers.md is a provider like any other.
func TestExampleConforms(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("the example is for jq, which is not here")
	}
	example, err := filepath.Abs("../../../examples/campaigns/provider.sh")
	if err != nil {
		t.Fatal(err)
	}
	providertest.Run(t, providertest.Suite{New: func(t *testing.T) providertest.Cloud {
		dir := t.TempDir()
		c := command.Config{Name: "toy", Command: []string{"/bin/sh", example}, Env: append(os.Environ(), "TOYCLOUD="+dir)}
		p, traits, err := command.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if traits.Name != "toy" || traits.ListLag != 2*time.Second || traits.DeadMan.Guarantee != provider.EndsNothing {
			t.Errorf("%+v", traits)
		}
		return providertest.Cloud{
			Provider: p, Traits: traits, Query: provider.Query{GPU: "RTX 4090", DiskGB: 50},
			Alive: func() int {
				files, err := filepath.Glob(filepath.Join(dir, "*.json"))
				if err != nil {
					t.Fatal(err)
				}
				return len(files)
			},
			Faults: []string{providertest.NoCapacity, providertest.CreateLost, providertest.KeyRevoked},
			Fault: func(t *testing.T, name string) {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			},
		}
	}})
}

// open opens a program that describes itself so and answers a verb by a script.
func open(t *testing.T, describe, answer string) provider.Provider {
	t.Helper()
	cmd := script(t, "case $1 in describe) echo '"+describe+"' ;; *)\n"+answer+"\n;; esac\n")
	p, _, err := command.Open(t.Context(), command.Config{Name: "x", Command: cmd, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A program without get proves no end, and its type says so.
func TestOptionalVerbs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		verbs        string
		get, balance bool
	}{{`[]`, false, false}, {`["get"]`, true, false}, {`["balance"]`, false, true}, {`["get","balance"]`, true, true}} {
		p := open(t, `{"verbs": `+c.verbs+`}`, `echo '{"instances": []}'`)
		_, get := p.(provider.Getter)
		_, balance := p.(provider.Balancer)
		if get != c.get || balance != c.balance {
			t.Errorf("%s: get %v, balance %v", c.verbs, get, balance)
		}
	}
	p := open(t, `{}`, `echo '{"instances": []}'`)
	look, err := provider.Look(t.Context(), p, "toy-1")
	if !errors.Is(err, provider.ErrUnproved) || len(look.Gone) != 0 || look.Unproved["toy-1"] == nil {
		t.Errorf("%+v, %v", look, err)
	}
}

// Nothing but a whole answer of a program that succeeded is a list.
func TestListsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		want   error
	}{
		{``, provider.ErrMalformed},
		{`echo '{}'`, provider.ErrMalformed},
		{`echo '{"instances": null}'`, provider.ErrMalformed},
		{`echo '{"instances": {}}'`, provider.ErrMalformed},
		{`echo '[]'`, provider.ErrMalformed},
		{`echo '{"instances": []} {"instances": []}'`, provider.ErrMalformed},
		{`echo '{"instances": [{"id": "../../etc"}]}'`, provider.ErrMalformed},
		{`echo '{"instances": [{"id": ""}]}'`, provider.ErrMalformed},
		{`echo '{"instances": []}'; exit 3`, nil},
		{`echo '{"instances": [], "error": {"kind": "rate", "text": "slow down"}}'`, provider.ErrRate},
		{`echo '{"instances": [], "error": "odd"}'`, nil},
		{`head -c 6000000 /dev/zero | tr '\0' x`, provider.ErrMalformed},
	} {
		list, err := open(t, `{}`, c.script).List(t.Context())
		if err == nil || list != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", c.script, list, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%q reaches a terminal", err)
		}
	}
}

// A create that fails and was done anyway comes with its instance.
func TestCreateThatFailsWithAnInstance(t *testing.T) {
	t.Parallel()
	p := open(t, `{}`, `echo '{"instance": {"id": "toy-9"}, "error": {"kind": "other", "text": "\u001b[31mbang"}}'; exit 1`)
	i, err := p.Create(t.Context(), provider.Order{Label: "a", Offer: provider.Offer{ID: "ask-1"}})
	if err == nil || i.ID != "toy-9" || i.Label != "a" || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%+v, %q", i, err)
	}
}

func TestDescribeIsChecked(t *testing.T) {
	t.Parallel()
	for _, d := range []string{`nonsense`, `{"list_lag_s": -1}`, `{"list_lag_s": 1e9}`, `{"user": "a b"}`, `{"dead_man": {"ends": "everything"}}`, `{"error": {"kind": "key"}}`} {
		cmd := script(t, "echo '"+d+"'\n")
		if _, _, err := command.Open(t.Context(), command.Config{Name: "x", Command: cmd}); err == nil {
			t.Errorf("%s was accepted", d)
		}
	}
}
