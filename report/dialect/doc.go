// Package dialect writes a run in other tools' formats, with other tools'
// meanings.
//
// A field that has another tool's name must hold what that tool would have
// measured, or a reader compares two different things. So nothing is copied
// from our own summary: every number is made again from the stored chunks by
// the other tool's rules, odd ones included. What is not available by those rules
// is left out or null, never approximated; docs/vllm.md and docs/migrating.md say
// where. The exception is a format that leaves the meaning of its figures to the
// tool that it names, as llm-d's: there they are our own.
package dialect
