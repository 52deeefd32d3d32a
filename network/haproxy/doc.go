// Package haproxy keeps the slots of an HAProxy's backend: which replica each of
// them stands for, its address, and what its agent check asks for. Weights and
// states are not its business: HAProxy asks the server for those itself.
//
// It promises that after a pass every replica that the server named has one slot,
// always the same; that a slot which changes hands gets no request until the
// server has said "ready" for its new replica; and that HAProxy's state is in a
// file from which it starts again. A process that was reloaded or restarted is
// told everything anew. While the server is away, what it said last holds.
//
// It refuses to pass on what others wrote: only addresses, numbers, ids and names
// that HAProxy itself has told go into a command.
package haproxy
