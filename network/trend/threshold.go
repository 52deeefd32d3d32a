package trend

import "math"

// runLengths are how many reports pass, in a series that never changes, until the
// statistic of [window.split] exceeds a height: the mean, by simulation of
// independent values of any distribution (ranks do not know it). A test makes the
// lower half anew.
var runLengths = []struct{ reports, height float64 }{
	{276, 3}, {555, 3.25}, {1283, 3.5}, {2704, 3.75}, {6454, 4}, {18634, 4.25}, {53703, 4.5}, {219638, 4.75}, {594542, 5},
}

// threshold is the height that is exceeded once in so many reports. Between the
// heights, and beyond them, the logarithm is a straight line: the tail is that of a
// normal distribution, so beyond the table this is a little too high, which errs
// towards fewer alarms.
func threshold(reports float64) float64 {
	x := math.Log(max(reports, 1))
	i := 1
	for i < len(runLengths)-1 && math.Log(runLengths[i].reports) < x {
		i++
	}
	a, b := runLengths[i-1], runLengths[i]
	x0, x1 := math.Log(a.reports), math.Log(b.reports)
	return a.height + (b.height-a.height)*(x-x0)/(x1-x0)
}
