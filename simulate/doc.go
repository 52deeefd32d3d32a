// Package simulate is an inference engine whose truth is known.
//
// It speaks the wire formats of OpenAI-compatible engines and of Ollama, but
// computes nothing: a law says when each token is due, and one pacer writes
// it at that moment. What a load tester reports can so be compared with what
// really happened, request by request (Config.Truth), and against closed
// forms (Batching).
//
// The package promises three things. Schedules are absolute: a late write
// never moves the tokens after it. Its own lateness is measured on every
// token and shown. Faults happen only when asked for, and the same seed gives
// the same faults to the same sequence of requests.
//
// It refuses to share a wire type with the client that it tests: a shared
// struct would hide a shared mistake.
package simulate
