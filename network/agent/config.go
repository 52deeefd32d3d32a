package agent

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/yamltext"
)

// Config is agent.yaml (docs/formats/agent.md): governance and testing of one
// node, in one file. The zero value is not usable; start from DefaultConfig.
type Config struct {
	Server Server `yaml:"server"`
	State  string `yaml:"state"` // directory
	Engine Engine `yaml:"engine"`
	GPU    GPU    `yaml:"gpu"`

	Profile  string   `yaml:"profile"`  // empty: as the scenario's own lengths
	Scenario string   `yaml:"scenario"` // by name
	Schedule Schedule `yaml:"schedule"`
	Budget   Share    `yaml:"check_budget"` // of the node's time
	Busy     Busy     `yaml:"busy"`
	Limits   Limits   `yaml:"limits"`

	// FeaturesFile gets the last check's verdict for node-feature-discovery, which
	// makes labels of a Kubernetes node from it; empty: nobody does.
	FeaturesFile string `yaml:"features_file"`

	Profiles  []assay.Profile  `yaml:"workload_profiles"` // besides the built-in ones
	Scenarios []assay.Scenario `yaml:"test_scenarios"`
}

// Server is whom the agent answers to.
type Server struct {
	URL            string `yaml:"url"`
	CA             string `yaml:"ca_file"` // PEM, in place of the system's
	EnrolTokenFile string `yaml:"enrol_token_file"`
	// Spread is the time over which agents come back after an outage.
	Spread assay.Duration `yaml:"spread"`
}

// Engine is what the node serves with.
type Engine struct {
	Name       string `yaml:"name"` // of the replica, unique on its node
	BaseURL    string `yaml:"base_url"`
	Backend    string `yaml:"backend"` // empty: found
	Model      string `yaml:"model"`   // empty: the first that it serves
	APIKeyFile string `yaml:"api_key_file"`
	ServingURL string `yaml:"serving_url"` // where routers reach it; empty: nowhere
}

// GPU says whether the node has cards to verify.
type GPU string

// The policies.
const (
	GPUAuto     GPU = "auto"     // verify what there is; none is said in a check
	GPURequired GPU = "required" // a node without a card fails
	GPUNone     GPU = "none"     // verify the engine and the host only
)

// Schedule is how often the node is checked without being asked.
type Schedule struct {
	Every   assay.Duration `yaml:"every"`
	Jitter  assay.Duration `yaml:"jitter"` // each wait is longer by chance, up to this
	OnStart bool           `yaml:"on_start"`
}

// Busy is what becomes of a check while the engine serves others.
type Busy struct {
	Concurrency int            `yaml:"concurrency"` // streams at most
	Postpone    assay.Duration `yaml:"postpone"`    // a scheduled check waits so long for a quiet moment
}

// Limits are what the server may ask for at most. It sets profile, scenario,
// schedule and budget, by name and number; nothing else can come from it.
type Limits struct {
	Budget      Share          `yaml:"check_budget"`
	MinEvery    assay.Duration `yaml:"min_every"`
	MaxDuration assay.Duration `yaml:"max_duration"` // of a scenario
	Profiles    []string       `yaml:"profiles"`     // empty: all that are known here
	Scenarios   []string       `yaml:"scenarios"`    // empty: all that are known here
}

// Share is a part of a whole, written as 1% or 0.01.
type Share float64

// UnmarshalText reads 1%, 0.5 % or 0.01.
func (s *Share) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q is not a share of the whole; write 1%% or 0.01", foreign.Line(text, 40))
	}
	*s = Share(v)
	return nil
}

// MarshalText writes the share as a percentage.
func (s Share) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(s)*100, 'g', 6, 64) + "%"), nil
}

// DefaultConfig is what an agent does that is told only where the server is: a
// light check at its start and every six hours, within one hundredth of the
// node's time.
func DefaultConfig() Config {
	return Config{
		Server: Server{Spread: assay.Duration(time.Minute)},
		Engine: Engine{Name: "default"}, GPU: GPUAuto, Scenario: "quick",
		Schedule: Schedule{Every: assay.Duration(6 * time.Hour), Jitter: assay.Duration(30 * time.Minute), OnStart: true},
		Budget:   0.01,
		Busy:     Busy{Concurrency: 1, Postpone: assay.Duration(time.Hour)},
		Limits:   Limits{Budget: 0.05, MinEvery: assay.Duration(15 * time.Minute), MaxDuration: assay.Duration(30 * time.Minute)},
	}
}

// maxConfigFile bounds agent.yaml; a page of YAML is a thousand times less.
const maxConfigFile = 1 << 20

// ParseConfig reads agent.yaml over the defaults. Whether it can be used says
// Validate, once flags had their say.
func ParseConfig(name string, b []byte) (Config, error) {
	c := DefaultConfig()
	if len(b) > maxConfigFile {
		return c, fmt.Errorf("read %s: it is larger than %d bytes, which no configuration is", name, maxConfigFile)
	}
	if _, err := yamltext.Decode(b, &c); err != nil {
		return c, fmt.Errorf("read %s: %w", name, err)
	}
	return c, nil
}

// Validate says what is wrong with the configuration, all at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := serverURL(c.Server.URL); err != nil {
		bad("server.url: %w", err)
	}
	if c.Server.Spread < assay.Duration(time.Second) || c.Server.Spread > assay.Duration(time.Hour) {
		bad("server.spread is a second to an hour; a minute is usual")
	}
	if c.State == "" {
		bad("state, or --state: name a directory that the agent keeps its key, its outbox and its runs in")
	}
	if c.Engine.BaseURL != assay.MaskURLs(c.Engine.BaseURL) {
		bad("engine.base_url holds a user or a password, which would be recorded; use engine.api_key_file")
	}
	if c.Engine.Name == "" || len(c.Engine.Name) > 100 || !foreign.Plain(c.Engine.Name) {
		bad("engine.name must be a short word")
	}
	if !slices.Contains([]GPU{GPUAuto, GPURequired, GPUNone}, c.GPU) {
		bad("gpu is auto, required or none, not %q", c.GPU)
	}
	if c.Schedule.Every < assay.Duration(time.Minute) || c.Schedule.Jitter < 0 {
		bad("schedule.every is at least a minute, and its jitter not negative")
	}
	if c.Budget <= 0 || c.Limits.Budget < 0 {
		bad("check_budget must be more than nothing: 1%% is usual")
	}
	if c.Busy.Concurrency < 1 || c.Busy.Postpone < 0 {
		bad("busy.concurrency is at least 1, and busy.postpone not negative")
	}
	if c.Limits.MinEvery < assay.Duration(time.Minute) || c.Limits.MaxDuration <= 0 {
		bad("limits.min_every is at least a minute, and limits.max_duration more than nothing")
	}
	errs = append(errs, c.named())
	return errors.Join(errs...)
}

// named checks profiles and scenarios, those of the file and those that are taken.
func (c *Config) named() error {
	var errs []error
	for _, p := range c.Profiles {
		if p.Name == "" || p.ExpectedTokens < 1 || p.ContextLength <= p.ExpectedTokens {
			errs = append(errs, fmt.Errorf("workload_profiles: %q needs a name, and context_length above expected_tokens above 0", p.Name))
		}
	}
	for _, s := range c.Scenarios {
		var scratch hammer.Config
		if err := scratch.Apply(s); err != nil || s.Name == "" {
			errs = append(errs, fmt.Errorf("test_scenarios: %q: %w", s.Name, err))
		}
	}
	if _, err := c.profile(c.Profile); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.scenario(c.Scenario); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// profile finds a profile; nil for the empty name. The file's shadow the built-in
// ones.
func (c *Config) profile(name string) (*assay.Profile, error) {
	if name == "" {
		return nil, nil
	}
	for _, p := range slices.Concat(c.Profiles, hammer.BuiltinProfiles()) {
		if p.Name == name {
			return &p, nil
		}
	}
	return nil, fmt.Errorf("profile %q is not known here; workload_profiles can add it", foreign.Line(name, 100))
}

func (c *Config) scenario(name string) (assay.Scenario, error) {
	for _, s := range slices.Concat(c.Scenarios, hammer.BuiltinScenarios()) {
		if s.Name == name {
			return s, nil
		}
	}
	return assay.Scenario{}, fmt.Errorf("scenario %q is not known here; test_scenarios can add it", foreign.Line(name, 100))
}

// serverURL takes an address that a token may be sent to: without TLS only on
// this machine.
func serverURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("write https://HOST[:PORT]")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it has a user, a query or a fragment; write https://HOST[:PORT]")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, errors.New("without TLS everybody on the way reads the token: write https://, http is for this machine only")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}
