package stat

import (
	"math"
	"slices"
)

// Holm adjusts the p-values of a family of tests so that, compared with a level
// each, the chance of any false rejection among them is at most that level,
// however the tests depend on each other (Holm's step-down method). The order
// of the input is kept and the input left alone.
//
// A NaN (or what is not a probability) stays NaN and counts: it is a test that
// was planned and could not be made, and a family is what was planned. To leave
// it out of the family, leave it out of the list.
func Holm(p []float64) []float64 {
	order := make([]int, 0, len(p))
	adjusted := make([]float64, len(p))
	for i, v := range p {
		adjusted[i] = math.NaN()
		if v >= 0 && v <= 1 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return a - b
	})
	largest := 0.0
	for k, i := range order {
		largest = max(largest, min(1, p[i]*float64(len(p)-k)))
		adjusted[i] = largest
	}
	return adjusted
}

// Bonferroni is [Holm] in one step: each p-value times the size of the family.
// It finds less, and its level for each test is known before the first is made.
func Bonferroni(p []float64) []float64 {
	adjusted := make([]float64, len(p))
	for i, v := range p {
		adjusted[i] = math.NaN()
		if v >= 0 && v <= 1 {
			adjusted[i] = min(1, v*float64(len(p)))
		}
	}
	return adjusted
}
