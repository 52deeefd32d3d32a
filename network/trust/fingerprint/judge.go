package fingerprint

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Figures that a judgement rests on.
const (
	// Alarm is the share of honest runs that are called different.
	Alarm = 0.001
	// Finest is a distance that is never called different: log-probabilities are sums
	// of numbers with 24 bits, whose order depends on the batch.
	Finest = 1e-4
	// Coarsest is the largest limit with which a reference still tells models apart: a
	// quantisation to four bits moves a model by less than that.
	Coarsest = 0.1

	resolution = 1e-6 // of a log-probability of about ten in 24 bits
	resamples  = 1000
)

// Answer is what an engine said of one prompt.
type Answer struct {
	Prompt   int // its place in the reference
	Tokens   []string
	LogProbs []float32
}

// Finding is what a check came to.
type Finding struct {
	// Verdict is pass where the answers are those of a run of a source, and unknown in
	// every other case: another model, another deployment of this one, or no answers.
	Verdict assay.Verdict `json:"verdict"`
	Differs bool          `json:"differs"` // it was measured, and is beyond the limit
	// Source is the one that the answers are nearest to, of those that they pass for if
	// there are any.
	Source string `json:"source,omitempty"`
	// Distance is the mean absolute difference of log-probabilities a token, in nats,
	// with its 95 % interval over prompts.
	Distance assay.Quantity `json:"distance"`
	// Limit is what honest runs of the source stay below, but for one in a thousand.
	Limit float64 `json:"limit"`
	// Beyond are prompts that are further away than any prompt of any run of the source:
	// all of them in an engine with another model, some where several models answer.
	Beyond int    `json:"beyond"`
	Text   string `json:"text"`
}

// unknown is a finding without figures.
func unknown(format string, args ...any) Finding {
	why := fmt.Sprintf(format, args...)
	return Finding{Distance: assay.UnknownQuantity(why), Text: why}
}

// Judge compares answers with a reference that was read or made here.
func Judge(r *Reference, answers []Answer) Finding {
	if len(answers) < MinPrompts {
		return unknown("%d prompts were answered, and %d are needed", len(answers), MinPrompts)
	}
	for _, a := range answers {
		if !slices.Equal(a.Tokens, r.Prompts[a.Prompt].Tokens) {
			f := unknown("the engine makes other tokens of a prompt than the reference has: another tokenizer, and so another model, or another version of it")
			f.Differs = true
			return f
		}
	}
	var best *Finding
	for i := range r.Sources {
		f := against(&r.Sources[i], answers)
		f.decide(len(answers))
		if best == nil || f.nearer(best) {
			best = &f
		}
	}
	return *best
}

// nearer says whether a finding is to be told rather than another one: one that
// passes, and then the one with the smaller distance.
func (f *Finding) nearer(than *Finding) bool {
	if f.Verdict != than.Verdict {
		return f.Verdict == assay.Pass
	}
	return f.Distance.Est < than.Distance.Est
}

// decide gives the verdict, and its words.
func (f *Finding) decide(prompts int) {
	d := f.Distance
	measured := fmt.Sprintf("log-probabilities are %.2g nats a token (95 %% interval %.2g to %.2g, %d prompts) away from %s, whose own runs stay below %.2g", d.Est, d.Lo, d.Hi, prompts, f.Source, f.Limit)
	switch {
	case f.Limit > Coarsest:
		f.Text = measured + fmt.Sprintf(": above %.2g a reference cannot tell models apart; make one with less noise", Coarsest)
	case d.Est <= f.Limit:
		f.Verdict, f.Text = assay.Pass, measured
	default:
		f.Differs = true
		f.Text = measured + fmt.Sprintf("; %d prompts are further away than any of its runs ever was. Another model, or a deployment that the reference does not have: look at it", f.Beyond)
	}
}

// against measures answers against one source. The limit is taken over the same
// prompts: that some prompts are noisier than others is then on both sides.
func against(s *Source, answers []Answer) Finding {
	own := distances(answers, centreOf(s, answers, -1))
	logs, furthest := stat.Moments{}, Finest
	for i := range s.Runs {
		of := distances(runOf(&s.Runs[i], answers), centreOf(s, answers, i))
		logs.Add(math.Log(max(mean(of), resolution)))
		furthest = max(furthest, slices.Max(of))
	}
	n := float64(logs.N())
	t := stat.StudentQuantile(1-Alarm, n-1)
	f := Finding{
		Source: s.Name, Distance: over(own),
		Limit: max(Finest, math.Exp(logs.Mean()+t*logs.Stddev()*math.Sqrt(1+1/n))),
	}
	for _, d := range own {
		if d > furthest {
			f.Beyond++
		}
	}
	return f
}

// runOf is what a run of the reference said of the same prompts.
func runOf(r *Run, answers []Answer) []Answer {
	out := make([]Answer, len(answers))
	for i, a := range answers {
		out[i] = Answer{Prompt: a.Prompt, LogProbs: r.LogProbs[a.Prompt]}
	}
	return out
}

// centreOf is the mean of a source's runs, token by token, for the prompts that were
// answered; without one of the runs, for that run's own distance.
func centreOf(s *Source, answers []Answer, without int) [][]float64 {
	out := make([][]float64, len(answers))
	for i, a := range answers {
		out[i] = make([]float64, len(a.LogProbs))
		n := 0.0
		for r := range s.Runs {
			if r == without {
				continue
			}
			n++
			for t, v := range s.Runs[r].LogProbs[a.Prompt] {
				out[i][t] += float64(v)
			}
		}
		for t := range out[i] {
			out[i][t] /= n
		}
	}
	return out
}

// distances are the mean absolute differences, prompt by prompt.
func distances(answers []Answer, centre [][]float64) []float64 {
	out := make([]float64, len(answers))
	for i, a := range answers {
		sum := 0.0
		for t, v := range a.LogProbs {
			sum += math.Abs(float64(v) - centre[i][t])
		}
		out[i] = sum / float64(len(a.LogProbs))
	}
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// over is the mean over prompts with its interval by resampling them: tokens of one
// prompt depend on each other, prompts do not. A mean, and not a median: an engine
// that answers only some requests with another model has to show.
func over(prompts []float64) assay.Quantity {
	rng := rand.New(rand.NewPCG(48, uint64(len(prompts)))) // the same answers give the same interval
	means := make([]float64, resamples)
	for i := range means {
		sum := 0.0
		for range prompts {
			sum += prompts[rng.IntN(len(prompts))]
		}
		means[i] = sum / float64(len(prompts))
	}
	slices.Sort(means)
	return assay.Quantity{N: len(prompts), Est: mean(prompts), Lo: means[resamples/40], Hi: means[resamples-1-resamples/40]}
}
