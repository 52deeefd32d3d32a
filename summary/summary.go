// Package summary turns a run into numbers: stages with percentiles and their
// intervals, goodput, the knee and the cliff, the client's certificate, and what
// readings say of GPUs, host and engine meanwhile.
//
// It is the only place where quantiles of requests are taken, so that a live
// search and the report of the finished run cannot differ: a [Collector] takes
// the requests of one stage one at a time, and [Of] runs one for each stage
// over a run directory.
//
// What it insists on:
//
//   - Percentiles are nearest ranks of all samples, and each carries the exact
//     interval for the number of independent samples that the autocorrelated
//     ones are worth, or says how many it would need.
//   - Throughput is that of a window of time. Whatever ended in the window
//     counts, also a warm-up; a token counts when it arrived. A request that
//     was judged late or failed never raises it.
//   - What was not read is not there. A reading speaks for two seconds; energy
//     of a part is never given for that of the whole.
//   - A trend is an alarm when it is larger than a stated effect and than
//     chance; a run too short or noisy to tell is unknown, not clean.
//   - A doubt is data ([assay.Warning]), not a print.
//   - Memory does not grow with the number of requests or readings, only with
//     the number of distinct microsecond values, and of devices and names.
package summary

import (
	"iter"

	"github.com/assay-bench/assay"
)

// Source is a run to summarise; *journal.Run is one. A pointer that an iterator
// gives is used until the next one only.
type Source interface {
	Manifest() assay.Manifest
	Requests() iter.Seq2[*assay.Request, error]
	Readings() iter.Seq2[*assay.Reading, error]
	Events() iter.Seq2[*assay.Event, error]
}

// Ending is what a Source can also say: how the run ended. A Source that does
// not, or that has no checkpoint, gives a partial summary, as completeness that
// nobody stated is not complete.
type Ending interface {
	Checkpoint() (assay.Checkpoint, error)
	// Torn names what was dropped or is missing.
	Torn() []string
}
