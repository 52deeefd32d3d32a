package compare

import (
	"errors"
	"path/filepath"
	"slices"
)

// save writes what there is of the experiment.
func (x *trial) save() error {
	x.mu.Lock()
	e := *x.exp
	e.Notes = slices.Clone(e.Notes)
	x.mu.Unlock()
	return WriteExperiment(x.dir, e)
}

var errConfig = errors.New("its configuration is not the one that its hash is of")

// recorded gives an experiment as it is on disk, with its configuration.
func recorded(dir string) (Experiment, Config, error) {
	e, err := ReadExperiment(dir)
	if err != nil {
		return e, Config{}, err
	}
	var c struct{ Config Config }
	if err := readJSON(filepath.Join(dir, ExperimentFile), &c); err != nil {
		return e, Config{}, err
	}
	hash, err := c.Config.hash()
	if err != nil {
		return e, Config{}, err
	}
	// Also so that what follows can count on a resolved and checked configuration.
	if hash != e.ConfigSHA256 || len(c.Config.faults()) > 0 {
		return e, Config{}, errConfig
	}
	c.Config.fill()
	e.Config = c.Config
	return e, c.Config, nil
}
