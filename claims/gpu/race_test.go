//go:build race

package gpu

// slowedByRace says that the race detector is on.
const slowedByRace = true
