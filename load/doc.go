// Package load decides when requests go out, and sends them out then.
//
// A [Schedule] is a pure function: of its seed, and of what it was told about
// the requests that went before. A [Generator] follows one, and only follows
// it: it adds no delay of its own choosing, it skips nothing, and where it could
// not keep to the schedule the record says so. A [Plan] chooses the next stage
// from what the stages before it showed; it is pure as well.
//
// What the package insists on:
//
//   - The time at which a request was wanted is the schedule's, never the time
//     at which somebody got round to it. An engine that stalls does not slow the
//     schedule down: requests that a concurrency cap holds back keep the time at
//     which they were wanted, so that waiting is shown and not left out.
//   - A request that was wanted and never sent has a line in the record, with
//     the error never_sent.
//   - A freed slot is used by the goroutine that freed it. What lateness remains
//     is Sent − Eligible of each request, which is recorded.
//   - Memory does not grow with the number of requests.
package load
