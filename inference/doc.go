// Package inference speaks to one engine and says when each token arrived.
//
// It promises:
//
//   - Arrival is the kernel's receive stamp where there is one (Linux), so a
//     busy client does not blame the engine for its own delay; how late our
//     code was is counted for every read. Elsewhere arrival is when our code
//     had the bytes, and [Client.Source] says so.
//   - A read that held several tokens is marked, because only the last one's
//     arrival is known. Nothing is interpolated.
//   - Each request ends in exactly one class of [assay.Failure], with a detail
//     in words. Nothing is retried.
//   - Nothing that an engine sends can make it use much memory, wait for ever or
//     crash.
//
// It refuses HTTP/2 (streams that share a connection have no arrival of their
// own), compressed replies (a compressor holds tokens back) and redirects.
//
// The path from the socket to the marks takes no lock, allocates nothing and
// logs nothing: a request's reply is parsed as it comes, inside one wait on its
// connection, by a parser to which bytes are pushed. net/http's client would
// cost two more goroutines a connection and their hand-overs.
package inference
