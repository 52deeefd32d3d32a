package agent

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/api"
)

func TestFeatures(t *testing.T) {
	score := 0.937
	expires := time.Date(2026, 11, 16, 16, 30, 0, 5, time.FixedZone("", 3600))
	for _, c := range []struct {
		last lastCheck
		want string
	}{
		{lastCheck{verdict: assay.Pass, score: &score}, "assay-verdict=pass\nassay-score=93\n"},
		{lastCheck{verdict: assay.Fail}, "assay-verdict=fail\n"},
		{lastCheck{}, "assay-verdict=unknown\n"},
	} {
		if got, want := string(features(c.last, expires)), "# +expiry-time=2026-11-16T15:30:00Z\n"+c.want; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// feature is a line that node-feature-discovery takes: the name and the value of a
// label.
var feature = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?=[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// A check's verdict is in the file that was named, complete at any moment, and ends
// after the next check was due.
func TestAgentWritesFeatures(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := testConfig(t, f.http.URL, engine(t))
	c.FeaturesFile = filepath.Join(t.TempDir(), "assay")
	a := start(t, c, testOptions(testLog(t)))
	if _, err := os.Lstat(c.FeaturesFile); err == nil {
		t.Error("a verdict before the first check")
	}
	id := f.order(api.CommandKindCheck, time.Hour)
	eventually(t, "the check is done", func() bool { _, done := f.outcome(id); return done })
	file, err := os.Open(c.FeaturesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("others cannot read it: %v %v", info.Mode(), err)
	}
	lines := bufio.NewScanner(file)
	lines.Scan()
	at, ok := strings.CutPrefix(lines.Text(), "# +expiry-time=")
	expires, err := time.Parse(time.RFC3339, at)
	if !ok || err != nil || !expires.After(a.runner.next()) {
		t.Errorf("%s: the verdict ends %s (%v), and the next check is due %s", lines.Text(), expires, err, a.runner.next())
	}
	verdict := ""
	for lines.Scan() {
		if !feature.MatchString(lines.Text()) {
			t.Errorf("%q makes no label", lines.Text())
		}
		if v, ok := strings.CutPrefix(lines.Text(), "assay-verdict="); ok {
			verdict = v
		}
	}
	a.runner.mu.Lock()
	defer a.runner.mu.Unlock()
	if want := strings.ToLower(a.runner.last.verdict.String()); verdict != want {
		t.Errorf("the verdict is %q, want %q", verdict, want)
	}
}
