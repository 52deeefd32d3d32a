// Package probetest is what the tests of every package of probes share: that a
// probe says what it is, and which probes run on the machine of the test.
package probetest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/claims"
)

// Described fails for a probe that does not say what it is, and for two of one
// name.
func Described(t *testing.T, probes []claims.Probe) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range probes {
		if p.Help == "" || p.Unit == "" || p.Start == nil || p.Family() == p.Name {
			t.Errorf("a probe that does not say what it is: %+v", p)
		}
		if seen[p.Name] {
			t.Errorf("there are two probes named %s", p.Name)
		}
		seen[p.Name] = true
	}
}

// Golden takes one sample of each probe and compares which of them run with a
// golden file, which it writes when update is set. A probe in others is listed
// with the text that is there, whether it runs or not.
func Golden(t *testing.T, file string, update bool, probes []claims.Probe, env claims.Env, others map[string]string) {
	t.Helper()
	var got []string
	for _, p := range probes {
		status := once(t, p, env)
		for prefix, text := range others {
			if strings.HasPrefix(p.Name, prefix) {
				status = text
			}
		}
		got = append(got, p.Name+": "+status)
	}
	slices.Sort(got)
	text := strings.Join(got, "\n") + "\n"
	if update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("which probes run has changed; -update-probes writes the list again. Now:\n%s", text)
	}
}

// once makes a probe ready and takes one sample.
func once(t *testing.T, p claims.Probe, env claims.Env) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := p.Start(ctx, env)
	if err == nil {
		defer r.Close()
		var m claims.Measurement
		if m, err = r.Sample(ctx); err == nil {
			if !(m.Value >= 0) {
				t.Errorf("%s: %g %s", p.Name, m.Value, p.Unit)
			}
			return "runs"
		}
	}
	if errors.Is(err, claims.ErrUnavailable) {
		t.Logf("%s: %v", p.Name, err)
		return "unavailable"
	}
	t.Errorf("%s: %v", p.Name, err)
	return "failed"
}
