package fingerprint

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Prompts makes n different prompts from a seed, in the manner of what people ask:
// questions, tasks with a text to work on, small programs, lists of figures. Who
// does not have the seed cannot list them; the number of prompts that can come out
// is far beyond what anybody stores.
func Prompts(seed [32]byte, n int) []string {
	rng := rand.New(rand.NewChaCha8(seed))
	seen := make(map[string]bool, n)
	out := make([]string, 0, n)
	for len(out) < n {
		p := kinds[rng.IntN(len(kinds))](words{rng})
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

type words struct{ *rand.Rand }

func (w words) one(list []string) string { return list[w.IntN(len(list))] }

func (w words) name() string { return w.one(people) }

// sentence says something about somebody and something.
func (w words) sentence() string {
	return fmt.Sprintf("%s %s the %s %s %s %s.", w.name(), w.one(verbs), w.one(qualities), w.one(things), w.one(places), w.one(times))
}

func (w words) sentences(from, to int) string {
	var out []string
	for range from + w.IntN(to-from+1) {
		out = append(out, w.sentence())
	}
	return strings.Join(out, " ")
}

// kinds are the shapes of prompts.
var kinds = []func(words) string{
	func(w words) string {
		return fmt.Sprintf("%s how the %s %s works %s, and why %s might want a %s one.", w.one(asks), w.one(qualities), w.one(things), w.one(places), w.name(), w.one(qualities))
	},
	func(w words) string {
		return fmt.Sprintf("Summarise this in %d words for %s:\n\n%s", 10+w.IntN(90), w.name(), w.sentences(2, 4))
	},
	func(w words) string {
		return fmt.Sprintf("Write a function that takes a list of %s %ss and returns the %s of those above %d. %s", w.one(qualities), w.one(things), w.one(sums), w.IntN(10000), w.sentence())
	},
	func(w words) string {
		var rows []string
		for range 3 + w.IntN(4) {
			rows = append(rows, fmt.Sprintf("%s: %d.%02d", w.one(things), w.IntN(5000), w.IntN(100)))
		}
		return fmt.Sprintf("Here is what %s paid %s.\n%s\nWhat is the %s?", w.name(), w.one(times), strings.Join(rows, "\n"), w.one(sums))
	},
	func(w words) string {
		return fmt.Sprintf("%s\n\nAnswer to this as %s would, in a %s tone, and mention the %s.", w.sentences(1, 3), w.name(), w.one(qualities), w.one(things))
	},
	func(w words) string {
		return fmt.Sprintf("Translate to %s: %s", w.one(languages), w.sentences(1, 3))
	},
}

var (
	people    = strings.Fields("Amara Bogdan Chiara Dmitri Elena Farid Greta Hiro Ines Jonas Kwame Leila Mateo Nadia Oskar Priya Quentin Rosa Samir Tilda Umar Vera Wanda Ximena Yusuf Zora")
	verbs     = strings.Fields("found sold measured forgot repaired ordered described compared returned painted lost explained moved counted borrowed packed tested cleaned praised copied")
	qualities = strings.Fields("old quiet green heavy careful second broken cheap formal narrow bright patient early plain friendly distant frozen round sudden modest")
	things    = strings.Fields("bridge invoice server violin garden contract recipe battery window parcel engine lecture camera staircase ticket harbour notebook kettle map bicycle protein lamp river clause")
	sums      = strings.Fields("sum median product largest smallest average count variance")
	languages = strings.Fields("French Spanish German Italian Portuguese Polish Turkish Swedish")
	asks      = []string{"Explain", "Tell me in short", "Describe step by step", "I would like to know", "Can you say", "Please outline"}
	places    = []string{"near the station", "in the north", "at work", "behind the school", "on the second floor", "by the sea", "in a small town", "at the market", "under the roof", "in the office"}
	times     = []string{"last week", "in March", "before noon", "every other day", "after the meeting", "in 1987", "at the end of the year", "yesterday", "during the holidays", "on a Tuesday"}
)
