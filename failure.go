package assay

// Failure is the class of a request that did not succeed. The empty Failure is
// success. Nothing is retried silently, so each request has exactly one.
type Failure string

// The failure classes of the run format.
const (
	FailRefused     Failure = "refused"      // no connection could be made
	FailTimeout     Failure = "timeout"      // one of the four time limits; the detail says which
	FailReset       Failure = "reset"        // the connection broke while the request was under way
	FailHTTP4xx     Failure = "http_4xx"     // the engine refused the request as wrong
	FailHTTP429     Failure = "http_429"     // the engine refused the request as too much
	FailHTTP5xx     Failure = "http_5xx"     // the engine failed
	FailStreamError Failure = "stream_error" // the stream held an error, or what is not the protocol
	FailTruncated   Failure = "truncated"    // the stream ended cleanly before its end
	FailEmpty       Failure = "empty"        // a well-formed answer without a single token
	FailCancelled   Failure = "cancelled"    // we were interrupted
	FailCensored    Failure = "censored"     // still under way when the stage's grace ended
	FailNeverSent   Failure = "never_sent"   // scheduled, and not sent before the stage ended
)

// Failures lists the classes in the order in which reports show them.
func Failures() []Failure {
	return []Failure{
		FailRefused, FailTimeout, FailReset, FailHTTP4xx, FailHTTP429, FailHTTP5xx,
		FailStreamError, FailTruncated, FailEmpty, FailCancelled, FailCensored, FailNeverSent,
	}
}

// OfEngine reports whether the failure is the engine's. Cancelled, censored and
// never-sent requests say nothing about the engine, so they are counted and
// shown, and stay out of its error rate.
func (f Failure) OfEngine() bool {
	switch f {
	case "", FailCancelled, FailCensored, FailNeverSent:
		return false
	}
	return true
}
