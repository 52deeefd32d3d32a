package hammer

import (
	"fmt"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/yamltext"
)

// hammerFile is the file of --config: the seed's two lists, and what a team
// wants to say once. A flag that is given wins over the file.
type hammerFile struct {
	Profiles  []assay.Profile  `yaml:"workload_profiles"`
	Scenarios []assay.Scenario `yaml:"test_scenarios"`

	Profile  string   `yaml:"profile"`  // the one to take, as --profile
	Scenario string   `yaml:"scenario"` // the one to take, as --scenario
	BaseURL  string   `yaml:"base_url"`
	Backend  string   `yaml:"backend"`
	Model    string   `yaml:"model"`
	SLO      []string `yaml:"slo"`
	Goodput  []string `yaml:"goodput"`
}

// maxConfigFile bounds --config; a page of YAML is a thousand times less.
const maxConfigFile = 1 << 20

func parseHammerFile(name string, b []byte) (hammerFile, error) {
	var file hammerFile
	if len(b) > maxConfigFile {
		return file, fmt.Errorf("read %s: it is larger than %d bytes, which no configuration is", name, maxConfigFile)
	}
	if _, err := yamltext.Decode(b, &file); err != nil {
		return file, fmt.Errorf("read %s: %w", name, err)
	}
	seen := map[string]bool{}
	for i, p := range file.Profiles {
		if err := nameOnce(seen, "workload_profiles", i, p.Name); err != nil {
			return file, fmt.Errorf("read %s: %w", name, err)
		}
		if p.ExpectedTokens < 1 || p.ContextLength <= p.ExpectedTokens {
			return file, fmt.Errorf("read %s: profile %s: context_length must be more than expected_tokens, which must be at least 1; they are %d and %d",
				name, p.Name, p.ContextLength, p.ExpectedTokens)
		}
		if p.ModelSize != "" {
			if _, err := assay.ParseModelSize(p.ModelSize); err != nil {
				return file, fmt.Errorf("read %s: profile %s: model_size %w", name, p.Name, err)
			}
		}
	}
	clear(seen)
	for i, s := range file.Scenarios {
		if err := nameOnce(seen, "test_scenarios", i, s.Name); err != nil {
			return file, fmt.Errorf("read %s: %w", name, err)
		}
		var scratch hammer.Config
		if err := scratch.Apply(s); err != nil {
			return file, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return file, nil
}

func nameOnce(seen map[string]bool, list string, i int, name string) error {
	if name == "" {
		return fmt.Errorf("entry %d of %s needs a name", i+1, list)
	}
	if seen[name] {
		return fmt.Errorf("%s has two entries named %s; rename one", list, name)
	}
	seen[name] = true
	return nil
}

// pickProfile looks a profile up; the file's shadow the built-in ones.
func (h hammerFile) pickProfile(name string) (assay.Profile, error) {
	all := append(h.Profiles[:len(h.Profiles):len(h.Profiles)], hammer.BuiltinProfiles()...)
	var known []string
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
		known = append(known, p.Name)
	}
	if strings.HasPrefix(name, "-") {
		return assay.Profile{}, fmt.Errorf("--profile takes a workload's name here (%s), and was followed by %s; vLLM's switch of that name, which starts the engine's profiler, is not supported: leave it out and POST to /start_profile", strings.Join(known, ", "), name)
	}
	return assay.Profile{}, fmt.Errorf("unknown profile %q; known are %s; a file given with --config can add more", name, strings.Join(known, ", "))
}

// pickScenario looks a scenario up; the file's shadow the built-in ones.
func (h hammerFile) pickScenario(name string) (assay.Scenario, error) {
	all := append(h.Scenarios[:len(h.Scenarios):len(h.Scenarios)], hammer.BuiltinScenarios()...)
	var known []string
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
		known = append(known, s.Name)
	}
	return assay.Scenario{}, fmt.Errorf("unknown scenario %q; known are %s; a file given with --config can add more", name, strings.Join(known, ", "))
}
