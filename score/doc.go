// Package score judges a node: from a run's summary and checks it makes the
// health report, with a verdict for each GPU and for the node, a score of five
// numbers, and what a token costs.
//
// What it promises:
//
//   - It is pure: no files, no clock, no randomness. The same input gives the
//     same report, in whatever order stages, GPUs, checks and trends come.
//   - A worse figure never raises a part of the score, and each lost point is
//     explained by a deduction; deductions of a part add up to what it lost.
//   - Every rule is a row of a table with its sign and its verdict.
//
// What it refuses:
//
//   - to take what was not read for healthy, or for zero: a part without data is
//     null and says why, a GPU without readings is unknown, an energy price
//     without energy is unknown;
//   - to average one bad part away: the overall score is a geometric mean, and a
//     hard finding fails its GPU or node whatever the score;
//   - to score a p99 that the samples do not carry.
//
// docs/health.md explains the report, docs/formats/health.md its bytes.
package score
