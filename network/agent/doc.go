// Package agent is the daemon of one node: it dials out to a server, checks the
// node by itself and when it is asked to, and delivers what it signed.
//
// What it promises. Nothing that it measured and signed is lost, whatever kills it
// and however long the server is away: statements wait in the ledger's outbox, and
// a run's directory is deleted only when the server has confirmed the hash of each
// of its files. A command is carried out at most once, also over restarts. A check
// steps back while the engine serves others, uses no more of the node's time than
// its budget, and ends at once when it is told to. No run starts while the clock is
// more than a minute off, nor before that was measured.
//
// What it refuses: to be told by the server what to execute, which address to
// measure, which file to read or which key to use. The server names a profile, a
// scenario, a schedule and a budget, within limits that the node's owner set; the
// rest of Settings and Command has no member for anything else. Text and sizes of
// the server's answers are bounded, and no redirect is followed.
//
// docs/agent.md is for people who run one, docs/formats/agent.md has agent.yaml
// and the state directory.
package agent
