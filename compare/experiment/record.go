package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-bench/assay/compare"
)

// save writes what there is of the experiment.
func (x *trial) save() error {
	x.mu.Lock()
	e := *x.exp
	e.Notes = slices.Clone(e.Notes)
	x.mu.Unlock()
	return compare.WriteExperiment(x.dir, e)
}

var errConfig = errors.New("its configuration is not the one that its hash is of")

// recorded gives an experiment as it is on disk, with its configuration.
func recorded(dir string) (compare.Experiment, Config, error) {
	e, err := compare.ReadExperiment(dir)
	if err != nil {
		return e, Config{}, err
	}
	var c Config
	if err := json.Unmarshal(e.Config, &c); err != nil {
		return e, Config{}, fmt.Errorf("its configuration: %w", err)
	}
	_, hash, err := c.encoded()
	if err != nil {
		return e, Config{}, err
	}
	// Also so that what follows can count on a resolved and checked configuration.
	if hash != e.ConfigSHA256 || len(c.faults()) > 0 {
		return e, Config{}, errConfig
	}
	c.fill()
	return e, c, nil
}
