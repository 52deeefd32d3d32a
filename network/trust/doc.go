// Package trust judges what was seen of a node from outside: given what was sent
// through its serving URL, what came back and when, and what its engine says that it
// counted, is that address the node's own engine, and is it as fast as it says?
//
// What it promises. It is pure: no clock, no network, no random number but the ones
// that come in, so that whoever has the figures of a finding can judge again. An
// honest node is accused with at most a stated chance, whatever else its engine does
// meanwhile: the windows that were probed were chosen by chance, and only that choice
// is what the tests rest on. What cannot be told is unknown, and unknown is no pass.
//
// What it refuses: to guess why. A node that fails does not do what it says; whether
// that is fraud or a wrong line in a configuration is a person's to find out.
//
// docs/trust.md has the checks, what each proves and what it does not.
package trust
