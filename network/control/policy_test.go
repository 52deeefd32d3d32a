package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestDefaultFileIsDefault(t *testing.T) {
	got, err := ReadPolicy(bytes.NewReader(DefaultFile), "default-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Default(), got); d != "" {
		t.Errorf("default-policy.yaml and Default differ (- Default, + file):\n%s", d)
	}
}

// Each line names a change of the default file and what is said of it, with its
// place.
func TestPoliciesThatAreRefused(t *testing.T) {
	for _, c := range []struct{ old, new, says string }{
		{"name: default", "name: ''", "p.yaml:3:7: name: give it a name"},
		{"gpu: required", "gpu: optional", "p.yaml:6:6: gpu: it is required or none"},
		{"gpu: [identity.sources, compute.golden, compute.challenge]", "gpu: []", "checks.gpu: name at least one"},
		{"engine: [engine.measured]\n  host: [host.client]", "engine: []\n  host: []", "admitted by nothing"},
		{"host: [host.client]", "host: [host.client, host.client]", "named twice"},
		{"host: [host.client]", "host: ['Host Client']", "is no name"},
		{"admit: 0.8", "admit: 0.7", "score.admit: it must be above degrade"},
		{"admit: 0.8", "admit: .nan", "score.admit"},
		{"quarantine: 0.5", "quarantine: 0.75", "score.degrade: it must be at least quarantine"},
		{"starting: 0.3", "starting: 0", "score.starting: it is 0"},
		{"share: 0.1", "share: 1.5", "breaker.share: it is 1.5"},
		{"  bad: 2", "  bad: 0", "results.bad: it is 0, and must be from 1"},
		{"missed: 3", "missed: 2", "silence.missed: it is 2, and must be from 3"},
		{"timeout: 30m", "timeout: 30", "30"},
		{"timeout: 30m", "timeout: 48h", "verification.timeout: it must be at most max_age"},
		{"timeout: 30m", "timeout: -1s", "verification.timeout: it is -1s"},
		{"heartbeat: 30s", "", "silence.heartbeat is missing"},
		{"deadline: 10m", "deadline: 25h", "drain.deadline: it must be at most max"},
		{"  retry: 1h", "  retry: 30h", "quarantine.retry: it must be at most max_retry"},
		{"default: [note, re-verify]", "", "say under default"},
		{"clock_skew: [degrade]", "clock_skew: [panic]", `"panic" is none of note`},
		{"clock_skew: [degrade]", "clock_skew: [page, page]", "page is named twice"},
		{"format: assay/policy/v1", "format: assay/policy/v2", "format: it must be assay/policy/v1"},
		{"hard_failures: [lost, ecc_uncorrected, row_remap_failed, peer_unreachable]", "", "hard_failures is missing"},
		{"steps: 4", "", "readmission.steps is missing"},
		{"name: default", "name: default\nversion: 7", "version"},
		{"name: default", "name: default\nname: other", "name"},
	} {
		text := strings.Replace(string(DefaultFile), c.old, c.new, 1)
		if text == string(DefaultFile) {
			t.Errorf("the default file has no %q", c.old)
			continue
		}
		_, err := ReadPolicy(strings.NewReader(text), "p.yaml")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v\nwant %q", c.new, err, c.says)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "a word": "x", "deep": strings.Repeat("[", 100_000), "long": strings.Repeat("# long\n", maxPolicy/7+2),
	} {
		if _, err := ReadPolicy(strings.NewReader(text), "p.yaml"); err == nil {
			t.Errorf("%s is taken for a policy", name)
		}
	}
}

// The schema takes what we take: the default file, and none of these.
func TestPoliciesKeepTheirSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/formats/schema/policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	asJSON := func(text string) any {
		t.Helper()
		b, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if err := schema.Validate(asJSON(string(DefaultFile))); err != nil {
		t.Error(err)
	}
	for _, c := range [][2]string{
		{"gpu: required", "gpu: optional"},
		{"gpu: [identity.sources, compute.golden, compute.challenge]", "gpu: []"},
		{"share: 0.1", "share: 0"},
		{"missed: 3", "missed: 2"},
		{"timeout: 30m", "timeout: soon"},
		{"clock_skew: [degrade]", "clock_skew: [panic]"},
		{"name: default", "name: default\nother: 1"},
		{"resets: [lost, recovery_action, row_remap_pending]\n", ""},
	} {
		text := strings.Replace(string(DefaultFile), c[0], c[1], 1)
		if text == string(DefaultFile) || schema.Validate(asJSON(text)) == nil {
			t.Errorf("the schema takes %q", c[1])
		}
		if _, err := ReadPolicy(strings.NewReader(text), "p.yaml"); err == nil {
			t.Errorf("ReadPolicy takes %q", c[1])
		}
	}
}

// Every member stands on the page with its default.
func TestThePageHasEveryMemberAndItsDefault(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for line := range strings.Lines(string(page)) {
		c := strings.Split(line, "|")
		if len(c) < 5 || !strings.Contains(c[1], "`") {
			continue
		}
		members := strings.Fields(strings.ReplaceAll(c[1], "`", ""))
		values := strings.Split(c[2], ",")
		for i, m := range members {
			if len(members) == len(values) {
				defaults[m] = strings.TrimSpace(values[i])
			} else {
				t.Errorf("%v has the defaults %q", members, c[2])
			}
		}
	}
	b, err := yaml.YAMLToJSON(DefaultFile)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		if m, ok := v.(map[string]any); ok && prefix != "anomalies" {
			for k, v := range m {
				walk(strings.TrimPrefix(prefix+"."+k, "."), v)
			}
			return
		}
		want := fmt.Sprint(v)
		if list, ok := v.([]any); ok {
			want = strings.Trim(fmt.Sprint(list), "[]")
		}
		got, ok := defaults[prefix]
		if got = strings.ReplaceAll(got, "`", ""); !ok || got != want && prefix != "anomalies" {
			t.Errorf("docs/formats/policy.md says %q of %s, the default is %q", got, prefix, want)
		}
	}
	walk("", tree)
}
