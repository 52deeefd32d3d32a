// Package server answers agents, people and programs: it knows who asks, what they
// may, and what is stored; what follows from it is decided elsewhere.
//
// What it promises: one table says who may ask for what ([access]), and no handler
// is reached but through it; what a principal may not see is not there for them;
// what the API's document does not allow is refused before a handler sees it; an
// answer to a delivery means that the bytes are stored; envelopes are stored and
// passed on as the bytes that came; every mutation of somebody known leaves an
// audit entry, and what nobody known tries leaves counts. Everything that waits or
// grows is bounded.
//
// What it refuses: a request that a page of another origin sent, a credential that
// it does not know, a statement whose signature it cannot check, and to tell
// strangers what went wrong inside.
package server
