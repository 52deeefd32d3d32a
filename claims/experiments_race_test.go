//go:build race

package claims

// experiments is how many runs a calibration makes: the race detector makes them
// ten times as slow, and looks for something else.
func experiments(int) int { return 60 }
