//go:build race

package claims

// slowedByRace says that the race detector is on.
const slowedByRace = true
