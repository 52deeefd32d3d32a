// Package identity says whether a node is who it was, and has what it shows: cards
// that two nodes show, cards that are quarantined elsewhere, a card that changed
// what cannot change, a driver whose files do not fit the kernel's, results better
// than a card can be, and runs that are older than the question.
//
// It promises to be a function of what comes in, and to accuse nobody of what has
// an honest cause: what cannot be told from one is [Unknown] and has no consequence.
// Containers get the driver's files by mounts, parts of a card share its UUID,
// cards are replaced, drivers rename them, and much of /proc and /sys is hidden from
// an agent.
//
// It refuses to decide: what follows from a finding is the policy's. And it does not
// claim more than it sees: who controls the machine controls what its kernel shows,
// so these checks make a lie expensive, not impossible. docs/identity.md has each with
// what it does not find.
package identity
