// Package static is machines that one owns, by their SSH addresses: nothing is rented
// and nothing costs money, but a machine serves one instance at a time.
//
// It promises that of several processes exactly one gets a machine. A claim is a file
// that is made as a whole or not at all, in a directory that all of them see.
//
// It refuses to install anything: whoever owns the machine put a key there and names
// its file, and nothing runs when it "boots". A machine whose claim nobody gives back is free again
// when its file is removed.
package static

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
)

// Machine is one that is owned.
type Machine struct {
	Name     string `yaml:"name"` // a-z, 0-9 and hyphens
	Host     string `yaml:"host"`
	Port     int    `yaml:"port"` // 0: 22
	GPU      string `yaml:"gpu"`
	GPUs     int    `yaml:"gpus"`    // 0: 1
	VRAMGB   int    `yaml:"vram_gb"` // of each
	Location string `yaml:"location"`
	Key      string `yaml:"key"` // the file of the private SSH key that it knows; empty: as Config has it
}

// Config is which machines, and where claims are kept.
type Config struct {
	Machines []Machine
	// Dir has a file for each machine that is in use. It is made if it is missing.
	Dir string
	// User signs in by SSH; empty: root.
	User string
	// Key is the file of the private SSH key that the machines know.
	Key string
}

// Cloud is the machines as a provider, with pages. Its proof of a key is that the
// directory can be read.
type Cloud struct{ c Config }

// New checks the machines.
func New(c Config) (*Cloud, error) {
	seen := map[string]bool{}
	c.Machines = slices.Clone(c.Machines) // they are completed here, and others hold the same
	for n := range c.Machines {
		m := &c.Machines[n]
		if err := provider.CheckLabel(m.Name); err != nil || seen[m.Name] {
			return nil, fmt.Errorf("machine %d: name %q: each needs one of its own of a-z, 0-9 and hyphens", n+1, foreign.Line(m.Name, 80))
		}
		seen[m.Name] = true
		if m.Port == 0 {
			m.Port = 22
		}
		if host, _ := provider.Address(m.Host, m.Port); host == "" {
			return nil, fmt.Errorf("machine %s: %s:%d is no address", m.Name, foreign.Line(m.Host, 80), m.Port)
		}
		m.GPUs = max(m.GPUs, 1)
	}
	if err := disk.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the directory of claims: %w", err)
	}
	return &Cloud{c: c}, nil
}

// Traits are what is known of them.
func Traits(c Config) provider.Traits {
	user := c.User
	if user == "" {
		user = "root"
	}
	keys := map[string]string{}
	for _, m := range c.Machines {
		if key := cmp.Or(m.Key, c.Key); key != "" {
			keys[m.Name] = key
		}
	}
	return provider.Traits{
		Name: "static", User: user, Owned: true, KeyFiles: keys,
		DeadMan: provider.DeadMan{Guarantee: provider.EndsAll, Text: "the machine is one's own, and costs nothing"},
	}
}

// claim is the content of a claim's file.
type claim struct {
	ID      string    `json:"id"`
	Machine string    `json:"machine"`
	Label   string    `json:"label"`
	Created time.Time `json:"created"`
}

// maxClaim bounds a claim's file.
const maxClaim = 4096

func (c *Cloud) path(machine string) string { return filepath.Join(c.c.Dir, machine+".json") }

// Offers gives the machines that are free.
func (c *Cloud) Offers(ctx context.Context, q provider.Query) ([]provider.Offer, error) {
	used, err := c.claims(ctx)
	if err != nil {
		return nil, err
	}
	out := []provider.Offer{}
	for _, m := range c.c.Machines {
		o := provider.Offer{
			ID: m.Name, Machine: m.Name, Location: foreign.Line(m.Location, 80), GPU: foreign.Line(m.GPU, 80), GPUs: m.GPUs,
			VRAM: int64(m.VRAMGB) << 30, DiskGB: q.DiskGB, Price: free(),
		}
		if _, taken := used[m.Name]; !taken && q.Accepts(o) && (q.MaxOffer <= 0 || len(out) < q.MaxOffer) {
			out = append(out, o)
		}
	}
	return out, nil
}

func free() provider.Price {
	none := assay.Money{Currency: provider.Currency}
	return provider.Price{Hour: none, Stopped: none, UpGB: none, DownGB: none}
}

// Create claims a machine.
func (c *Cloud) Create(ctx context.Context, o provider.Order) (provider.Instance, error) {
	if err := o.Check(); err != nil {
		return provider.Instance{}, err
	}
	m, ok := c.machine(o.Offer.ID)
	if !ok {
		return provider.Instance{}, fmt.Errorf("%w: there is no machine %s", provider.ErrNotSent, foreign.Line(o.Offer.ID, 80))
	}
	if ctx.Err() != nil {
		return provider.Instance{}, fmt.Errorf("%w: %w", provider.ErrNotSent, context.Cause(ctx))
	}
	now := time.Now().UTC()
	// An id of its own for each claim: what was given back is not what somebody
	// else has now.
	cl := claim{ID: fmt.Sprintf("%s.%d", m.Name, now.UnixNano()), Machine: m.Name, Label: o.Label, Created: now}
	b, err := json.Marshal(cl)
	if err != nil {
		return provider.Instance{}, fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	switch err := disk.CreateWhole(c.path(m.Name), 0o600, disk.Bytes(b)); {
	case errors.Is(err, fs.ErrExist):
		return provider.Instance{}, fmt.Errorf("%w: machine %s is in use", provider.ErrNoCapacity, m.Name)
	case err != nil:
		return provider.Instance{}, fmt.Errorf("claim machine %s: %w", m.Name, err)
	}
	return cl.instance(m), nil
}

func (c *Cloud) machine(name string) (Machine, bool) {
	for _, m := range c.c.Machines {
		if m.Name == name {
			return m, true
		}
	}
	return Machine{}, false
}

func (cl claim) instance(m Machine) provider.Instance {
	return provider.Instance{
		ID: cl.ID, Label: foreign.Line(cl.Label, 4*provider.MaxLabel), State: provider.Running, Said: "in use", Machine: cl.Machine,
		Location: foreign.Line(m.Location, 80), GPU: foreign.Line(m.GPU, 80), GPUs: m.GPUs, Host: m.Host, Port: m.Port,
		Hour: assay.Money{Currency: provider.Currency}, Created: cl.Created,
	}
}

// claims reads the directory: all of it, or an error.
func (c *Cloud) claims(ctx context.Context) (map[string]claim, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	files, err := os.ReadDir(c.c.Dir)
	if err != nil {
		return nil, fmt.Errorf("the directory of claims: %w", err)
	}
	out := map[string]claim{}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok || disk.Unfinished(f.Name()) {
			continue
		}
		cl, err := c.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // given back meanwhile
		}
		if err != nil {
			return nil, err
		}
		out[name] = cl
	}
	return out, nil
}

func (c *Cloud) read(machine string) (claim, error) {
	f, err := os.Open(c.path(machine))
	if err != nil {
		return claim{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxClaim))
	var cl claim
	if err == nil {
		err = json.Unmarshal(b, &cl)
	}
	if err == nil && (cl.Machine != machine || provider.PlainID(cl.ID) != nil) {
		err = errors.New("it names another machine")
	}
	if err != nil {
		return claim{}, fmt.Errorf("%w: the claim %s: %w", provider.ErrMalformed, c.path(machine), err)
	}
	return cl, nil
}

// List gives the machines that are in use, also such as were taken out of the
// configuration.
func (c *Cloud) List(ctx context.Context) ([]provider.Instance, error) {
	used, err := c.claims(ctx)
	if err != nil {
		return nil, err
	}
	out := []provider.Instance{}
	for name, cl := range used {
		m, _ := c.machine(name)
		out = append(out, cl.instance(m))
	}
	return out, nil
}

// Get reads one claim.
func (c *Cloud) Get(ctx context.Context, id string) (provider.Instance, error) {
	list, err := c.List(ctx)
	if err != nil {
		return provider.Instance{}, err
	}
	for _, i := range list {
		if i.ID == id {
			return i, nil
		}
	}
	return provider.Instance{}, provider.ErrGone
}

// ProveKey proves that the directory is there.
func (c *Cloud) ProveKey(ctx context.Context) error {
	_, err := c.claims(ctx)
	return err
}

// Destroy gives a machine back, if it is still the claim of that id.
func (c *Cloud) Destroy(ctx context.Context, id string) error {
	used, err := c.claims(ctx)
	if err != nil {
		return err
	}
	for name, cl := range used {
		if cl.ID != id {
			continue
		}
		if err := os.Remove(c.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("give machine %s back: %w", name, err)
		}
		return nil
	}
	return nil
}
