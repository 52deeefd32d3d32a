package clouds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/command"
	"github.com/assay-bench/assay/campaign/provider/static"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/yamltext"
)

// ProvidersFile names, beside the keys, the file of machines of one's own and of
// programs that are clouds (docs/providers.md).
const ProvidersFile = "ASSAY_PROVIDERS"

// maxProviders bounds that file.
const maxProviders = 1 << 20

// ownProviders is its content.
type ownProviders struct {
	Static struct {
		User     string           `yaml:"user"`
		Claims   string           `yaml:"claims"`
		Key      string           `yaml:"key"`
		Machines []static.Machine `yaml:"machines"`
	} `yaml:"static"`
	Commands []struct {
		Name    string   `yaml:"name"`
		Command []string `yaml:"command"`
	} `yaml:"commands"`
}

// openOwn reads the file and opens what is in it. Programs are asked to describe
// themselves.
func openOwn(ctx context.Context, path string, wait func(provider.Traits) provider.Wait) ([]rent.Cloud, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ProvidersFile, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProviders))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ProvidersFile, err)
	}
	var own ownProviders
	if _, err := yamltext.Decode(b, &own); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", ProvidersFile, path, err)
	}
	out, err := own.open(ctx, filepath.Dir(path), wait)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", ProvidersFile, path, err)
	}
	return out, nil
}

// open opens what the file has; paths in it are below its directory.
func (own ownProviders) open(ctx context.Context, dir string, wait func(provider.Traits) provider.Wait) ([]rent.Cloud, error) {
	var out []rent.Cloud
	if len(own.Static.Machines) > 0 {
		if own.Static.Claims == "" {
			return nil, errors.New("static: claims: name a directory that all processes see")
		}
		below := func(path string) string {
			if path == "" || filepath.IsAbs(path) {
				return path
			}
			return filepath.Join(dir, path)
		}
		c := static.Config{Machines: own.Static.Machines, User: own.Static.User, Dir: below(own.Static.Claims), Key: below(own.Static.Key)}
		for n := range c.Machines {
			m := &c.Machines[n]
			if m.Key = below(m.Key); m.Key == "" && c.Key == "" {
				return nil, fmt.Errorf("static: machine %s: name the file of the SSH key that it knows as key", foreign.Line(m.Name, 80))
			}
		}
		p, err := static.New(c)
		if err != nil {
			return nil, fmt.Errorf("static: %w", err)
		}
		out = append(out, rent.Cloud{Provider: p, Traits: static.Traits(c)})
	}
	seen := map[string]bool{"vast": true, "tensordock": true, "static": true}
	for n, c := range own.Commands {
		if provider.CheckLabel(c.Name) != nil || seen[c.Name] {
			return nil, fmt.Errorf("commands: %d: name %q: each needs one of its own, of a-z, 0-9 and hyphens", n+1, foreign.Line(c.Name, 80))
		}
		seen[c.Name] = true
		var turn provider.Wait // known when the program has described itself
		p, traits, err := command.Open(ctx, command.Config{Name: c.Name, Command: c.Command, Wait: func(ctx context.Context, call provider.Call) error {
			return turn.Turn(ctx, call)
		}})
		if err != nil {
			return nil, fmt.Errorf("commands: %w", err)
		}
		turn = wait(traits)
		out = append(out, rent.Cloud{Provider: p, Traits: traits})
	}
	return out, nil
}
