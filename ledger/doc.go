// Package ledger makes results that cannot be altered unnoticed: a run directory
// becomes signed statements, statements become records on their way to a log,
// and a receipt from that log proves, without a network, that the statement was
// there.
//
// What it promises: a signature covers the hash of every file that a verdict
// rests on; the bytes that are checked are the bytes that are read; an envelope
// or a receipt of ours has one spelling, so that a flipped byte anywhere in it is
// found; and the answer says who signed, since when it is unaltered, who has seen
// it, and what all of this does not prove.
//
// What it refuses: a private key that others can read or that lies unencrypted,
// a statement whose key was not good at the time, and to take Kafka for more than
// a means of transport. It speaks to no network; package outbox delivers, and
// ledger/kafka, ledger/notary, ledger/tlog and ledger/witness do the rest.
//
// docs/formats/statement.md, gpu-monitor.md and log.md specify the bytes.
package ledger
