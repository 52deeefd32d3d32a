//go:build race

package compare

// raced says that the race detector slows everything down, so that calibrations
// are made with fewer experiments.
const raced = true
