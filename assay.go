// Package assay holds the words that all of Assay speaks: one Go type for each
// line of the run format, and the few values that judge it.
//
// A measurement is recorded once, in a run directory: a [Manifest] says what
// was asked and where, then come [Request], [Reading] and [Event] lines, a
// [Checkpoint] that is replaced every second, and at the end a [Summary].
// docs/formats/run.md specifies the bytes; the types here follow that page.
//
// What the package insists on:
//
//   - Times are Unix nanoseconds on one time-line a run: the wall clock at the
//     run's start plus monotonic time since. A mark that did not happen is
//     absent, never zero.
//   - A value that was not obtained is unknown, and says why. Unknown is not
//     healthy, not zero and not a pass.
//   - Every metric is in one table ([Metrics]) with its unit and the direction
//     that is better, so that no judge has to guess.
//
// The package imports the standard library only, and has no behaviour beyond
// encoding and looking up.
package assay

// RunFormat names the format of run directories that this version writes.
const RunFormat = "assay/run/v1"
