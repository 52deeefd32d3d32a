// Package trend looks at the history of nodes: what changed, who differs from its
// peers, and how long the network will hold its load.
//
// It promises to be a function of what it is given: no clock, no random number, and
// the same history gives the same answer. Its alarms have a stated rate: [Options]
// names how many false ones a series may raise in a year, and the threshold follows
// from it by a table that was simulated (docs/adr/044-ranks-find-changes.md). Each
// [Finding] carries what it rests on: reports, values, an interval.
//
// It refuses to guess. A history that is too short, a group of peers that is too
// small, a demand that nobody has recorded: the answer is unknown, and says how much
// is missing. It refuses to compare what is not comparable: another configuration
// (engine's version, driver, load) begins another series, and is no anomaly. It
// decides nothing: what a finding triggers is the policy's.
//
// docs/trends.md explains it for an operator; docs/benchmarks.md has what it finds
// in generated histories, how late, and how often it is wrong.
package trend
