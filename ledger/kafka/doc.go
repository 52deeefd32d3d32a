// Package kafka carries records to a topic and back. Kafka is the transport, and
// nothing more: whoever runs it can rewrite it, so what must be proven is signed
// before it comes here and logged after it.
//
// What it promises: a record is acknowledged when every in-sync replica has it;
// the records of one node stay in order; an error names what happened within the
// time that was given, so that the outbox can say it aloud; a topic whose settings
// would lose records is named with each wrong setting and how to change it.
//
// What it refuses: to alter a topic that exists, to retry in silence for ever, and
// to go on reading elsewhere when the wanted offset is not there. A reader that is
// reset skips or repeats, and nobody notices; here it is an error that says which
// records are gone.
//
// docs/formats/gpu-monitor.md specifies the records.
package kafka
