package stat_test

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay/stat"
)

// Ten rounds in which each of two engines ran once: is B slower than A?
func ExampleSignedRank() {
	a := []float64{101, 99, 103, 98, 100, 102, 97, 101, 99, 100}
	b := []float64{106, 103, 109, 104, 103, 108, 101, 107, 102, 106}
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = math.Log(b[i] / a[i])
	}
	t := stat.SignedRank(ratios, stat.TestOptions{})
	s := stat.HodgesLehmann(ratios, 0.95)
	fmt.Printf("p = %.4f, exact: %v\n", t.P, t.Exact)
	fmt.Printf("B/A = %.3f [%.3f, %.3f]\n", math.Exp(s.Est), math.Exp(s.Lo), math.Exp(s.Hi))
	fmt.Println("at most +10 %:", stat.NonInferiority(math.Exp(s.Lo), math.Exp(s.Hi), 1.10))
	fmt.Println("at most +5 %:", stat.NonInferiority(math.Exp(s.Lo), math.Exp(s.Hi), 1.05))
	// Output:
	// p = 0.0020, exact: true
	// B/A = 1.050 [1.040, 1.059]
	// at most +10 %: kept
	// at most +5 %: undecided
}

// A pilot has shown log-ratios that vary by 6 % from round to round. An effect
// of 5 % is to be found nine times of ten, in a family of three tests.
func ExampleRoundsFor() {
	fmt.Println(stat.RoundsFor(0.06, 0.05, 0.05/3, 0.9, stat.TwoSided), "rounds")
	// Output: 26 rounds
}

// Four looks may be taken; each has its own level.
func ExampleLooks() {
	plan := stat.Looks{At: []int{10, 15, 20, 25}, Alpha: 0.05}
	for i, level := range plan.Levels() {
		fmt.Printf("after %d rounds at %.4f\n", plan.At[i], level)
	}
	// Output:
	// after 10 rounds at 0.0008
	// after 15 rounds at 0.0068
	// after 20 rounds at 0.0168
	// after 25 rounds at 0.0256
}
