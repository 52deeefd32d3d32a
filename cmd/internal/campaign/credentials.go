package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/static"
	"github.com/assay-bench/assay/campaign/provider/tensordock"
	"github.com/assay-bench/assay/campaign/provider/vast"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
)

// Names of what is read from a credentials file, an .env or the environment. The
// URLs are for a sandbox, and so is the factor by which its clock runs faster.
const (
	vastKey       = "VAST_API_KEY"
	vastURL       = "VAST_API_URL"
	tensordockKey = "TENSORDOCK_API_KEY"
	tensordockURL = "TENSORDOCK_API_URL"
	sandboxScale  = "ASSAY_SANDBOX_SCALE"
)

// Bounds of a credentials file.
const (
	maxCredentials = 64 << 10
	dotEnv         = ".env"
)

// account is a provider that there are credentials for.
type account struct {
	provider provider.Provider
	traits   provider.Traits
	source   string // where its key is from
}

// credentialFlags say where keys are. There is no flag for a key: arguments are in
// everybody's list of processes.
type credentialFlags struct{ file string }

func (f *credentialFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.file, "credentials", "", "`file` of mode 0600 with lines as VAST_API_KEY=…; by default the environment, then .env in this directory")
}

// secrets looks a name up.
type secrets struct {
	file   map[string]string
	source string // of file
	env    func(string) string
}

// read opens the file that was named, or the .env that is here.
func (f *credentialFlags) read(env func(string) string) (secrets, error) {
	if f.file != "" {
		file, err := readCredentials(f.file)
		return secrets{file: file, source: f.file}, err
	}
	file, err := readCredentials(dotEnv)
	if errors.Is(err, fs.ErrNotExist) {
		return secrets{env: env}, nil
	}
	return secrets{file: file, source: dotEnv, env: env}, err
}

// get gives a value and where it is from: of the environment and an .env the
// environment counts, as other programs have it.
func (s secrets) get(name string) (value, source string) {
	if s.env != nil {
		if v := s.env(name); v != "" {
			return v, "the environment"
		}
	}
	return s.file[name], s.source
}

// readCredentials reads a file of NAME=VALUE lines that is for its owner only.
func readCredentials(path string) (map[string]string, error) {
	b, err := ledger.ReadSecretFile(path, maxCredentials)
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	out := map[string]string{}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimPrefix(line, "export ")
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), unquote(strings.TrimSpace(value))
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("read the credentials: %s:%d: write NAME=VALUE", path, n) // not the line: it may be a key
		}
		if !foreign.Plain(value) {
			return nil, fmt.Errorf("read the credentials: %s:%d: %s has a character that no key has", path, n, foreign.Line(name, 60))
		}
		out[name] = value
	}
	return out, nil
}

// unquote takes off one pair of quotes.
func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// scale is how much faster than ours the clouds' clocks run; 1 but for a sandbox.
func (s secrets) scale() (float64, error) {
	text, _ := s.get(sandboxScale)
	if text == "" {
		return 1, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || v > 1e6 {
		return 0, fmt.Errorf("%s is a factor above 0", sandboxScale)
	}
	return v, nil
}

// accounts are the providers that there are credentials for, by name.
func (s secrets) accounts(ctx context.Context, wait func(provider.Traits) provider.Wait) (map[string]account, error) {
	scale, err := s.scale()
	if err != nil {
		return nil, err
	}
	out := map[string]account{}
	if key, source := s.get(vastKey); key != "" {
		base, _ := s.get(vastURL)
		c := vast.Config{Base: base, Key: key}
		traits := vast.Traits(c).Scaled(scale)
		c.Wait = wait(traits)
		out[traits.Name] = account{vast.New(c), traits, source}
	}
	if key, source := s.get(tensordockKey); key != "" {
		base, _ := s.get(tensordockURL)
		traits := tensordock.Traits().Scaled(scale)
		out[traits.Name] = account{tensordock.New(tensordock.Config{Base: base, Key: key, Wait: wait(traits)}), traits, source}
	}
	if path, source := s.get(providersFile); path != "" {
		own, err := openOwn(ctx, path, wait)
		if err != nil {
			return nil, err
		}
		for _, o := range own {
			out[o.traits.Name] = account{o.provider, o.traits, source}
		}
	}
	return out, nil
}

// guarantees say what becomes of a machine of each provider that nobody looks after.
// They need no key.
func guarantees(accounts map[string]account) map[string]string {
	out := map[string]string{}
	for _, t := range []provider.Traits{vast.Traits(vast.Config{}), tensordock.Traits(), static.Traits(static.Config{})} {
		out[t.Name] = t.DeadMan.Text
	}
	for name, a := range accounts {
		out[name] = a.traits.DeadMan.Text
	}
	return out
}

// missing says which credentials a provider needs.
func missing(name string) error {
	names := map[string]string{"vast": vastKey, "tensordock": tensordockKey}
	if names[name] == "" {
		return fmt.Errorf("provider %s is not known: keys are for %s, and machines and programs of one's own are in the file that %s names (docs/providers.md)",
			foreign.Line(name, 60), strings.Join(slices.Sorted(maps.Keys(names)), ", "), providersFile)
	}
	return fmt.Errorf("there are no credentials for %s: set %s in a file of mode 0600 (--credentials), in .env, or in the environment", name, names[name])
}

// load reads credentials and makes the providers.
func (f *credentialFlags) load(ctx context.Context) (map[string]account, error) {
	s, err := f.read(os.Getenv)
	if err != nil {
		return nil, err
	}
	return s.accounts(ctx, paced)
}
