// Package tlog reads a log that somebody else keeps: it checks it, proves from
// it, follows it, copies it and makes it again from copies.
//
// What it promises: nothing that a log says is believed. A checkpoint counts
// when the policy's keys signed it; a tile, an entry and a proof count when they
// lead to that checkpoint's root; a hint about where an entry lies counts for
// where to look. What is wrong is named: which file, which entry, a fork, a
// rollback.
//
// What it refuses: answers without an end, redirects to elsewhere, a checkpoint
// that is smaller than the last, and to make a log from copies that end before
// what a witness has seen.
//
// It keeps no log and holds no key. docs/formats/log.md specifies the bytes.
package tlog
