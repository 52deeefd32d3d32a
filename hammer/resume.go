package hammer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/inference"
	"github.com/assay-bench/assay/journal"
)

// Secrets are the parts of a configuration that a run directory does not keep.
type Secrets struct {
	APIKey  string
	Headers map[string]string
}

// Resume goes on with a run that was interrupted: stages that were completed
// stay as they are, the one that was under way is completed, the rest follows.
func Resume(ctx context.Context, dir string, s Secrets, opt Options) (assay.Summary, error) {
	w, before, err := journal.Resume(dir)
	if err != nil {
		return assay.Summary{}, err
	}
	c, err := ConfigOf(before.Manifest, s)
	if err != nil {
		w.Close()
		return assay.Summary{}, err
	}
	r, err := newRun(c, opt, before.Manifest.ID)
	if err != nil {
		w.Close()
		return assay.Summary{}, err
	}
	defer r.client.Close()
	if got := r.client.Source(); got != before.Manifest.Clock {
		w.Close()
		return assay.Summary{}, fmt.Errorf("the run was measured by the %s clock, and here only the %s clock is available: start a new run", before.Manifest.Clock, got)
	}
	if err := r.lookAround(ctx); err != nil {
		w.Close()
		return assay.Summary{}, err
	}
	if r.trace != nil {
		if err := r.readReplayed(dir, before); err != nil {
			w.Close()
			return assay.Summary{}, err
		}
	}
	client, lower := r.raise()
	defer lower()
	if b := before.Manifest.Client; b != nil && *b != client {
		r.node.notes = append(r.node.notes, fmt.Sprintf("the client ran at %s priority (nice %d), and from here on at %s (nice %d)", b.Priority, b.Nice, client.Priority, client.Nice))
	}
	r.w = w
	r.sent, r.done = before.Requests, before.Requests
	return r.measure(ctx, dir, before)
}

// ConfigOf gives the configuration that a run was made with.
func ConfigOf(m assay.Manifest, s Secrets) (Config, error) {
	var c Config
	if err := json.Unmarshal(m.Config, &c); err != nil {
		return c, fmt.Errorf("read the configuration of run %s: %w", m.ID, err)
	}
	c.APIKey, c.Headers = s.APIKey, s.Headers
	c.engineModel = inference.ModelSize{Parameters: m.Engine.ModelParameters, Bytes: m.Engine.ModelBytes}
	if c.Found {
		c.APIKey = ""
	}
	for _, name := range c.HeaderNames {
		if _, ok := s.Headers[name]; !ok {
			return c, fmt.Errorf("the run was made with a header %q, whose value is not kept: give it again with --header %s=…", name, name)
		}
	}
	return c, nil
}
