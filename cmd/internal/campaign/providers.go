package campaign

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
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/yamltext"
)

// providersFile names, beside the keys, the file of machines of one's own and of
// programs that are clouds (docs/providers.md).
const providersFile = "ASSAY_PROVIDERS"

// maxProviders bounds that file.
const maxProviders = 1 << 20

// ownProviders is its content.
type ownProviders struct {
	Static struct {
		User     string           `yaml:"user"`
		Claims   string           `yaml:"claims"`
		Machines []static.Machine `yaml:"machines"`
	} `yaml:"static"`
	Commands []struct {
		Name    string   `yaml:"name"`
		Command []string `yaml:"command"`
	} `yaml:"commands"`
}

// opened is a provider that can be asked.
type opened struct {
	provider provider.Provider
	traits   provider.Traits
}

// openOwn reads the file and opens what is in it. Programs are asked to describe
// themselves.
func openOwn(ctx context.Context, path string, wait func(provider.Traits) provider.Wait) ([]opened, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", providersFile, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProviders))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", providersFile, err)
	}
	var own ownProviders
	if _, err := yamltext.Decode(b, &own); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", providersFile, path, err)
	}
	out, err := own.open(ctx, filepath.Dir(path), wait)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", providersFile, path, err)
	}
	return out, nil
}

// open opens what the file has; paths in it are below its directory.
func (own ownProviders) open(ctx context.Context, dir string, wait func(provider.Traits) provider.Wait) ([]opened, error) {
	var out []opened
	if len(own.Static.Machines) > 0 {
		if own.Static.Claims == "" {
			return nil, errors.New("static: claims: name a directory that all processes see")
		}
		c := static.Config{Machines: own.Static.Machines, User: own.Static.User, Dir: own.Static.Claims}
		if !filepath.IsAbs(c.Dir) {
			c.Dir = filepath.Join(dir, c.Dir)
		}
		p, err := static.New(c)
		if err != nil {
			return nil, fmt.Errorf("static: %w", err)
		}
		out = append(out, opened{p, static.Traits(c)})
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
		out = append(out, opened{p, traits})
	}
	return out, nil
}
