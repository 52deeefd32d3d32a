package stat

import "testing"

// experiments is how many of a calibration's experiments are made: all of them,
// or few under the race detector, which makes them some ten times as slow and
// finds nothing in pure functions, or with -short. The log says both numbers.
func experiments(t *testing.T, full, few int) int {
	t.Helper()
	n := full
	if raced || testing.Short() {
		n = few
	}
	t.Logf("%d experiments (%d in full, %d with -race or -short)", n, full, few)
	return n
}
