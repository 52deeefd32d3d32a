// Package clouds opens the clouds that there are credentials for. A key is read from
// a file of its owner's only, from the environment or from .env, and never from an
// argument; no message repeats one.
package clouds

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

	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/static"
	"github.com/assay-bench/assay/campaign/provider/tensordock"
	"github.com/assay-bench/assay/campaign/provider/vast"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
)

// Names of what is read from a credentials file, an .env or the environment. The
// URLs are for a sandbox, and so is the factor by which its clock runs faster.
const (
	VastKey       = "VAST_API_KEY"
	vastURL       = "VAST_API_URL"
	TensorDockKey = "TENSORDOCK_API_KEY"
	tensordockURL = "TENSORDOCK_API_URL"
	sandboxScale  = "ASSAY_SANDBOX_SCALE"
)

// Bounds of a credentials file.
const (
	maxCredentials = 64 << 10
	dotEnv         = ".env"
)

// Account is a cloud that there are credentials for.
type Account struct {
	rent.Cloud
	Source string // where its key is from
}

// Credentials say where keys are. There is no flag for a key: arguments are in
// everybody's list of processes.
type Credentials struct{ File string }

// Register adds the flag.
func (f *Credentials) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.File, "credentials", "", "`file` of mode 0600 with lines as VAST_API_KEY=…; by default the environment, then .env in this directory")
}

// secrets looks a name up.
type secrets struct {
	file   map[string]string
	source string // of file
	env    func(string) string
}

// read opens the file that was named, or the .env that is here.
func (f *Credentials) read(env func(string) string) (secrets, error) {
	if f.File != "" {
		file, err := readCredentials(f.File)
		return secrets{file: file, source: f.File}, err
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
func (s secrets) accounts(ctx context.Context, wait func(provider.Traits) provider.Wait) (map[string]Account, error) {
	scale, err := s.scale()
	if err != nil {
		return nil, err
	}
	out := map[string]Account{}
	if key, source := s.get(VastKey); key != "" {
		base, _ := s.get(vastURL)
		c := vast.Config{Base: base, Key: key}
		traits := vast.Traits(c).Scaled(scale)
		c.Wait = wait(traits)
		out[traits.Name] = Account{rent.Cloud{Provider: vast.New(c), Traits: traits}, source}
	}
	if key, source := s.get(TensorDockKey); key != "" {
		base, _ := s.get(tensordockURL)
		traits := tensordock.Traits().Scaled(scale)
		out[traits.Name] = Account{rent.Cloud{Provider: tensordock.New(tensordock.Config{Base: base, Key: key, Wait: wait(traits)}), Traits: traits}, source}
	}
	if path, source := s.get(ProvidersFile); path != "" {
		own, err := openOwn(ctx, path, wait)
		if err != nil {
			return nil, err
		}
		for _, o := range own {
			out[o.Traits.Name] = Account{o, source}
		}
	}
	return out, nil
}

// Guarantees say what becomes of a machine of each provider that nobody looks after.
// They need no key.
func Guarantees(accounts map[string]Account) map[string]string {
	out := map[string]string{}
	for _, t := range []provider.Traits{vast.Traits(vast.Config{}), tensordock.Traits(), static.Traits(static.Config{})} {
		out[t.Name] = t.DeadMan.Text
	}
	for name, a := range accounts {
		out[name] = a.Traits.DeadMan.Text
	}
	return out
}

// ErrNone says that there are no credentials of any provider.
var ErrNone = fmt.Errorf("there are no credentials: set %s or %s in a file of mode 0600 (--credentials), in .env, or in the environment; %s names machines and programs of one's own", VastKey, TensorDockKey, ProvidersFile)

// Missing says which credentials a provider needs.
func Missing(name string) error {
	names := map[string]string{"vast": VastKey, "tensordock": TensorDockKey}
	if names[name] == "" {
		return fmt.Errorf("provider %s is not known: keys are for %s, and machines and programs of one's own are in the file that %s names (docs/providers.md)",
			foreign.Line(name, 60), strings.Join(slices.Sorted(maps.Keys(names)), ", "), ProvidersFile)
	}
	return fmt.Errorf("there are no credentials for %s: set %s in a file of mode 0600 (--credentials), in .env, or in the environment", name, names[name])
}

// Load reads credentials and makes the providers.
func (f *Credentials) Load(ctx context.Context) (map[string]Account, error) {
	s, err := f.read(os.Getenv)
	if err != nil {
		return nil, err
	}
	return s.accounts(ctx, paced)
}

// Shared are the clouds that there are credentials for, by name, which keep their
// limits together with everybody else on a database, and how much faster than ours
// their clocks run.
func (f *Credentials) Shared(ctx context.Context, s *store.Store) (accounts map[string]Account, scale float64, err error) {
	keys, err := f.read(os.Getenv)
	if err != nil {
		return nil, 0, err
	}
	if scale, err = keys.scale(); err != nil {
		return nil, 0, err
	}
	accounts, err = keys.accounts(ctx, s.Limits)
	return accounts, scale, err
}

// Rentable are accounts as a renter takes them.
func Rentable(accounts map[string]Account) []rent.Cloud {
	var out []rent.Cloud
	for _, a := range accounts {
		out = append(out, a.Cloud)
	}
	return out
}

// Image is what a machine boots for an engine: a container's image at Vast.ai, a
// system's at TensorDock.
func Image(cloud, engine string) string {
	switch {
	case cloud == "tensordock":
		return "ubuntu2204"
	case engine == string(node.VLLM):
		return "vllm/vllm-openai:latest"
	}
	return "ollama/ollama:latest"
}
