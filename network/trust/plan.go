package trust

import "math/rand/v2"

// Windows is how many windows a session has: half of them are probed. There are
// 2,704,156 ways to choose them.
const Windows = 24

// Lengths of a probe, in tokens.
const (
	minTokens = 48
	maxTokens = 256
)

// Step is what is done in one window.
type Step struct {
	Probe  bool
	Tokens int // to ask for, of each stream
	// Delay is when within the window's first part it is sent, from 0 to 1.
	Delay float64
}

// Plan is a session's secret: which windows are probed, with how many tokens, and
// when. Nobody who does not see the requests knows any of it.
func Plan(r *rand.Rand) []Step {
	out := make([]Step, Windows)
	for i := range out {
		out[i] = Step{Probe: i < Windows/2, Tokens: minTokens + r.IntN(maxTokens-minTokens+1), Delay: r.Float64()}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
