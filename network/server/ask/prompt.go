package ask

import (
	"fmt"
	"math/rand/v2"
)

// What prompts are made of. No two sessions send the same ones, so that they cannot
// be told from customers' by being repeated.
var (
	wishes = []string{
		"Write a story about %s and %s.", "Explain to a student what %s has to do with %s.", "Compare %s with %s in detail.",
		"Write a letter from somebody who loves %s to somebody who cannot stand %s.", "Plan a week that has room for %s and for %s.",
		"Give me a long list of facts about %s, and how they bear on %s.", "Write a dialogue in which one speaks only of %s and the other only of %s.",
	}
	matters = []string{
		"the sea", "an old clock", "bread", "a night train", "mathematics", "the neighbour's garden", "rain", "a lost key", "bicycles", "the moon",
		"a small town", "tea", "winter", "chess", "a lighthouse", "music", "wolves", "the first computer", "a broken bridge", "bees", "glass", "a mountain pass",
		"the history of paper", "a market in the morning", "sleep", "maps", "an honest mistake", "salt", "the last bus", "a language that nobody speaks",
	}
	ends = []string{"", " Take your time.", " Write as much as you can.", " Be thorough.", " Use simple words.", " Do not use lists.", " Begin with an example."}
)

// Prompt is a wish as customers have them, by chance.
func Prompt(r *rand.Rand) string {
	a, b := r.IntN(len(matters)), r.IntN(len(matters)-1)
	if b >= a {
		b++
	}
	return fmt.Sprintf(wishes[r.IntN(len(wishes))], matters[a], matters[b]) + ends[r.IntN(len(ends))]
}
