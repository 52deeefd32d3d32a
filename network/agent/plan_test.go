package agent

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/network/api"
)

// What the server may set, and what it gets when it asks for more.
func TestSettingsWithinLimits(t *testing.T) {
	c := DefaultConfig()
	c.Limits.Scenarios = []string{"quick", "sustained_load", "baseline_capacity"}
	c.Limits.MaxDuration = assay.Duration(10 * time.Minute)
	p, err := c.plan(&api.Settings{Version: 7, Profile: new("small_model"), Scenario: new("baseline_capacity"), EverySeconds: new(3600), JitterSeconds: new(60), CheckBudget: new(0.02)})
	if err != nil || len(p.Refused) > 0 {
		t.Fatal(p.Refused, err)
	}
	if p.Version != 7 || p.Profile == nil || p.Profile.Name != "small_model" || p.Scenario.Name != "baseline_capacity" || p.Every != time.Hour || p.Jitter != time.Minute || p.Budget != 0.02 {
		t.Errorf("%+v", p)
	}
	p, err = c.plan(&api.Settings{Version: 8, Profile: new("/etc/passwd"), Scenario: new("sustained_load"), EverySeconds: new(60), CheckBudget: new(0.5)})
	if err != nil || len(p.Refused) != 4 {
		t.Fatalf("refused %q, want four: %v", p.Refused, err)
	}
	if p.Profile != nil || p.Scenario.Name != "quick" || p.Every != 15*time.Minute || p.Budget != 0.05 {
		t.Errorf("%+v", p)
	}
	if p, _ := c.plan(&api.Settings{Scenario: new("batch_optimization")}); len(p.Refused) != 1 {
		t.Errorf("a scenario that is not on the list: %q", p.Refused)
	}
}

// However often checks are asked for and however long they take, scheduled ones
// begin only when all before them are paid for.
func TestBudgetHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1_800_000_000, 0)
		p := Plan{
			Every:  time.Duration(rapid.IntRange(1, 600).Draw(t, "every")) * time.Minute,
			Jitter: time.Duration(rapid.IntRange(0, 60).Draw(t, "jitter")) * time.Minute,
			Budget: rapid.Float64Range(0.005, 0.5).Draw(t, "budget"),
		}
		var s spent
		var used time.Duration
		now := start
		for range rapid.IntRange(1, 20).Draw(t, "checks") {
			chance := rapid.Float64Range(0, 1).Draw(t, "chance")
			at := due(p, s, start, true, chance)
			if rapid.Bool().Draw(t, "asked") {
				now = now.Add(time.Minute) // by the server: not bound by the budget, and counted
			} else {
				if at.Before(now) {
					at = now
				}
				if used > 0 && float64(used) > p.Budget*float64(at.Sub(start))*1.0001+1 {
					t.Fatalf("a check at %v: %v were used before, the budget is %g", at.Sub(start), used, p.Budget)
				}
				now = at
			}
			took := time.Duration(rapid.IntRange(1, 600).Draw(t, "took")) * time.Second
			s = s.after(now, took, p.Budget)
			used += took
			now = now.Add(took)
		}
	})
}

func TestDue(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	p := Plan{Every: time.Hour, Jitter: 10 * time.Minute, Budget: 0.01}
	for name, c := range map[string]struct {
		s       spent
		onStart bool
		chance  float64
		want    time.Duration
	}{
		"at the start, spread":              {spent{}, true, 0.5, 30 * time.Second},
		"not at the start":                  {spent{}, false, 0, time.Hour},
		"with its jitter":                   {spent{}, false, 1, 70 * time.Minute},
		"again and again":                   {spent{Last: start.Add(-time.Minute), NotBefore: start.Add(2 * time.Hour)}, true, 0, 2 * time.Hour},
		"after the last":                    {spent{Last: start.Add(time.Minute)}, true, 0, 61 * time.Minute},
		"a clock that was a year ahead":     {spent{Last: start.Add(365 * 24 * time.Hour)}, false, 0, time.Hour},
		"a budget that was a year ahead":    {spent{NotBefore: start.Add(365 * 24 * time.Hour)}, false, 0, 60 * 24 * time.Hour},
		"a start long after the last check": {spent{Last: start.Add(-24 * time.Hour)}, false, 0, -23 * time.Hour},
	} {
		if got := due(p, c.s, start, c.onStart, c.chance).Sub(start); got != c.want {
			t.Errorf("%s: after %v, want %v", name, got, c.want)
		}
	}
}

// Agents that lose their server in one moment come back over a minute or more,
// however many requests of each fail.
func TestReconnectionIsSpread(t *testing.T) {
	lost := errors.New("no answer")
	var waits []time.Duration
	for i := range 1000 {
		l := &link{spread: time.Minute, lastOK: time.Now(), chance: func() float64 { return float64(i) / 1000 }}
		l.lost(lost)
		l.chance = func() float64 { return 0 }
		for range 3 { // its other loops
			l.lost(lost)
		}
		waits = append(waits, time.Until(l.away))
	}
	slices.Sort(waits)
	if spread := waits[989] - waits[10]; spread < 58*time.Second {
		t.Errorf("98%% come back within %v", spread)
	}
	if pause(9, false, time.Minute, 1) <= time.Minute {
		t.Error("a server that stays away is asked as often as before")
	}
	if got := pause(1, true, time.Minute, 1); got > 5*time.Second {
		t.Errorf("who starts the agent before the server waits %v", got)
	}
}

// While the time of an agent has not come, none of its requests is sent; its
// storage, which is another machine, is asked.
func TestNothingIsAskedOfAServerThatIsAway(t *testing.T) {
	l := &link{spread: time.Hour, lastOK: time.Now(), chance: func() float64 { return 1 }}
	fails := func(context.Context) (*http.Response, error) { return nil, errors.New("refused") }
	if _, err := l.exchange(t.Context(), "one", time.Second, fails); err == nil {
		t.Fatal("no answer is a success")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	asked := false
	if _, err := l.exchange(ctx, "two", time.Second, func(context.Context) (*http.Response, error) { asked = true; return nil, errors.New("refused") }); err == nil || asked {
		t.Errorf("asked %v, error %v", asked, err)
	}
	if _, failures, _ := l.contact(); failures != 1 {
		t.Errorf("%d failures: one that we ended ourselves is none of the server's", failures)
	}
}

// Beside real traffic a check has few streams, and looks for no limit.
func TestLighter(t *testing.T) {
	quick, err := (&Config{}).scenario("quick")
	if err != nil {
		t.Fatal(err)
	}
	if s := lighter(quick, 2); !slices.Equal(s.Levels, []int{1, 2}) {
		t.Errorf("%v", s.Levels)
	}
	for _, name := range []string{"baseline_capacity", "sustained_load", "batch_optimization"} {
		s, err := (&Config{}).scenario(name)
		if err != nil {
			t.Fatal(err)
		}
		s = lighter(s, 3)
		for _, n := range append(s.Levels, s.BatchSizes...) {
			if n > 3 || s.Pattern == "sustained" {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// Where the engine tells of others' requests, and nobody waits for the result, a check
// asks little, whatever its scenario is.
func TestCheckBesideOthersAsksLittle(t *testing.T) {
	for _, name := range []string{"quick", "sustained_load", "batch_optimization"} {
		s, err := (&Config{}).scenario(name)
		if err != nil {
			t.Fatal(err)
		}
		o, err := CheckConfig{Scenario: s, Busy: true, Beside: true, Streams: 2}.order(t.TempDir(), CheckOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l, d := o.Config.Load, o.Config.Data
		if l.Mode != hammer.ModeOpen || l.Rate != besideRate || l.Concurrency != 2 || l.Duration > besideTime || d.InputTokens > besideInput || d.OutputTokens > besideOutput {
			t.Errorf("%s: %+v, %+v", name, l, d)
		}
		if err := o.Config.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigFile(t *testing.T) {
	file := []byte(`
server: {url: "https://assay.example", ca_file: ca.pem, spread: 5s}
state: /var/lib/assay-agent
engine: {base_url: "http://127.0.0.1:8000", serving_url: "https://node7.example/v1"}
gpu: required
profile: small_model
schedule: {every: 2h, jitter: 5m, on_start: false}
check_budget: 0.5%
features_file: /features.d/assay
limits: {check_budget: 0.02, min_every: 30m, max_duration: 5m, scenarios: [quick]}
`)
	schema, err := jsonschema.NewCompiler().Compile("../../docs/formats/schema/agent.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text []byte) error {
		j, err := yaml.YAMLToJSON(text)
		if err != nil {
			return err
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
		if err != nil {
			return err
		}
		return schema.Validate(v)
	}
	if err := valid(file); err != nil {
		t.Error(err)
	}
	if valid([]byte("command: [rm]")) == nil || valid([]byte("engine: {exec: x}")) == nil {
		t.Error("the schema takes a member that there is not")
	}
	c, err := ParseConfig("agent.yaml", file)
	if err != nil || c.Validate() != nil {
		t.Fatal(err, c.Validate())
	}
	if c.Budget != 0.005 || c.Limits.Budget != 0.02 || c.Schedule.Every != assay.Duration(2*time.Hour) || c.Schedule.OnStart || c.GPU != GPURequired || c.Scenario != "quick" || c.Server.Spread != assay.Duration(5*time.Second) || c.Busy.Concurrency != 1 || c.FeaturesFile != "/features.d/assay" {
		t.Errorf("%+v", c)
	}
	for text, want := range map[string]string{
		"command: [rm]":                                   "unknown field",
		"check_budget: 200%":                              "share of the whole",
		"server: {url: ftp://x}":                          "write https://",
		"server: {url: http://example.com}":               "without TLS",
		"server: {url: 'https://u:p@example.com'}":        "a user",
		"server: {url: 'https://x', spread: 0s}":          "a second to an hour",
		"gpu: maybe":                                      "auto, required or none",
		"schedule: {every: 1s}":                           "at least a minute",
		"profile: nosuch":                                 "not known here",
		"scenario: nosuch":                                "not known here",
		"engine: {base_url: 'http://u:p@127.0.0.1:8000'}": "api_key_file",
		"a: [" + strings.Repeat("[", 100):                 "no configuration",
	} {
		c, err := ParseConfig("agent.yaml", []byte(text))
		if err == nil {
			if c.Server.URL == "" {
				c.Server.URL = "https://x"
			}
			c.State = "s"
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
