package claims

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

const updateFile = `# what we promise
name: ours
claims:
  - name: kept with room   # tighten
    probe: f/ms
    metric: mean
    target: "<= 100ms"     # µ before the end
    goal: "<= 49us"
  - {name: broken, probe: f/ms, metric: p50, target: '<= 500us'}
  - name: near
    probe: f/ms
    metric: p50
    target: < 1.1 ms
  - name: not measured
    probe: f/absent
    metric: mean
    target: "<= 1s"
  - name: rate
    probe: f/rate
    metric: mean
    target: ">= 0.01 M/s"
  - name: largest
    probe: f/ms
    metric: max
    target: "<= 1us"
`

func updateRun(t *testing.T, file string) (*Result, Catalog) {
	t.Helper()
	rate := fake("f/rate", around(2.6e9))
	rate.Unit, rate.Better = unitRate, assay.Higher
	catalog := Catalog{Probes: []Probe{fake("f/ms", around(1e-3)), refused("f/absent", ErrUnavailable), rate}}
	return runFile(t, fixture(t), file, catalog.Probes...), catalog
}

func TestUpdateClaimsProposesADiff(t *testing.T) {
	r, catalog := updateRun(t, updateFile)
	u, err := r.Propose([]byte(updateFile), catalog)
	if err != nil {
		t.Fatal(err)
	}
	const want = `--- claims.yaml
+++ claims.yaml
@@ -4,9 +4,9 @@
   - name: kept with room   # tighten
     probe: f/ms
     metric: mean
-    target: "<= 100ms"     # µ before the end
+    target: "<= 1.2ms"     # µ before the end
     goal: "<= 49us"
-  - {name: broken, probe: f/ms, metric: p50, target: '<= 500us'}
+  - {name: broken, probe: f/ms, metric: p50, target: '<= 1200us'}
   - name: near
     probe: f/ms
     metric: p50
@@ -18,7 +18,7 @@
   - name: rate
     probe: f/rate
     metric: mean
-    target: ">= 0.01 M/s"
+    target: ">= 2300 M/s"
   - name: largest
     probe: f/ms
     metric: max
`
	if string(u.Diff) != want {
		t.Errorf("got\n%s\nwant\n%s", u.Diff, want)
	}
	left := strings.Join(u.Left, "\n")
	for _, word := range []string{"near: kept, and as near", "not measured: not decided", "largest: what was measured has no bound"} {
		if !strings.Contains(left, word) {
			t.Errorf("%q is not said in\n%s", word, left)
		}
	}
	applied(t, updateFile, u.Diff, catalog)
}

// applied has the tools that people use take the diff.
func applied(t *testing.T, file string, diff []byte, catalog Catalog) {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git to apply the diff with")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"claims.yaml": file, "d": string(diff)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(git, "apply", "-p0", "d")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(dir, "none"), "GIT_CEILING_DIRECTORIES="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "claims.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if string(b) == file {
		t.Error("git apply changed nothing")
	}
	// The promises that it proposes are kept by a run like the one before.
	s, err := Read(strings.NewReader(string(b)), "claims.yaml", catalog)
	if err != nil {
		t.Fatal(err)
	}
	r := runFile(t, fixture(t), string(b), catalog.Probes...)
	for i, c := range r.Claims {
		if s.Claims[i].Name == "broken" && c.Verdict.String() != "pass" {
			t.Errorf("%s is %v: %s", c.Name, c.Verdict, c.Why)
		}
	}
}

func TestUpdateClaimsRefuses(t *testing.T) {
	r, catalog := updateRun(t, updateFile)
	if _, err := r.Propose([]byte(strings.Replace(updateFile, "100ms", "90ms", 1)), catalog); !errors.Is(err, ErrNoProposal) {
		t.Errorf("a file that is not the one that was run: %v", err)
	}
	r.Interrupted = true
	if _, err := r.Propose([]byte(updateFile), catalog); !errors.Is(err, ErrNoProposal) {
		t.Errorf("an interrupted run: %v", err)
	}
	// What does not stand in the file as it is read is left for a person.
	const folded = "claims:\n  - name: a\n    probe: f/ms\n    metric: mean\n    target: \"\\x3c= 100ms\"\n"
	r, catalog = updateRun(t, folded)
	u, err := r.Propose([]byte(folded), catalog)
	if err != nil || len(u.Diff) > 0 || len(u.Left) != 1 || !strings.Contains(u.Left[0], `write "<= 1.2ms" there by hand`) {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestTwoDigits(t *testing.T) {
	for _, c := range []struct {
		v    float64
		up   bool
		want string
	}{{1.11, true, "1.2"}, {1.11, false, "1.1"}, {110, true, "110"}, {1101, true, "1200"}, {0.0123, true, "0.013"}, {99.1, true, "100"}, {2.363e3, false, "2300"}, {1, true, "1"}, {1.1000000000000001, true, "1.1"}} {
		if got := twoDigits(c.v, c.up); got != c.want {
			t.Errorf("%g up %v: %s, want %s", c.v, c.up, got, c.want)
		}
	}
}

func TestUnifiedWithoutALastNewline(t *testing.T) {
	got := string(unified("f", []byte("a\r\nb"), []byte("a\r\nc")))
	if want := "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\r\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"; got != want {
		t.Errorf("got %q", got)
	}
	if unified("f", []byte("a\n"), []byte("a\n")) != nil {
		t.Error("a diff of nothing")
	}
}

// A change that would say anything else than what is proposed is no proposal.
func TestUpdateClaimsAreReadAgain(t *testing.T) {
	_, catalog := updateRun(t, updateFile)
	old, err := Read(strings.NewReader(updateFile), "claims.yaml", catalog)
	if err != nil {
		t.Fatal(err)
	}
	u := Update{Changes: []Proposal{{Claim: "broken", New: "<= 1200us"}}}
	change := strings.NewReplacer("'<= 500us'", "'<= 1200us'")
	if err := u.holds(old, []byte(change.Replace(updateFile)), "claims.yaml", catalog); err != nil {
		t.Error(err)
	}
	for what, file := range map[string]string{
		"another claim too":   strings.Replace(change.Replace(updateFile), "100ms", "90ms", 1),
		"not the claim":       updateFile,
		"another metric":      strings.Replace(change.Replace(updateFile), "metric: mean", "metric: p50", 1),
		"a claim less":        change.Replace(updateFile[:strings.Index(updateFile, "  - name: largest")]),
		"a file that is none": "claims: [\n",
	} {
		if err := u.holds(old, []byte(file), "claims.yaml", catalog); !errors.Is(err, ErrNoProposal) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
