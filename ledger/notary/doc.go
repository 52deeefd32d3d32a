// Package notary carries signed envelopes from Kafka into a Merkle log, each
// exactly once, and serves that log.
//
// What it promises: every envelope that is in order is in the log once, and the
// envelopes of a partition are in it in their order; what is not logged is on
// record with its reason; a kill, a full disk or a lost file beside the log loses
// nothing and doubles nothing. The log itself says what is in it: each entry
// names the place in Kafka that it came from, and on start the notary reads that
// back. Files beside the log save time and are never believed further than they
// can be checked.
//
// What it refuses: a second notary in one directory, a topic from which records
// were taken away or that was made anew, a log that is behind its own checkpoint,
// and to go on after the log could not be written: it stops at the first failure,
// since what is behind it in the queue may still succeed and only a look at the
// log can tell.
//
// Time is the broker's. The notary's own clock only says when the broker's cannot
// be right: it lies in the future, or before a time at which the record was not
// there yet.
//
// docs/formats/log.md specifies the files and the HTTP paths.
package notary
