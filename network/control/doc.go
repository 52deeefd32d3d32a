// Package control decides who may serve: the state machine of nodes and replicas,
// the policy that it follows, and the breaker that bounds it.
//
// It promises to be a function: the state, the policy, an event and the time go
// in, a new state and what is to be done come out, and the same input gives the
// same output. It reads no clock, no file and no random number, and no value of
// its arguments makes it panic: what it does not know it refuses. So it can be
// tested by generation, run again over history ([DryRun]), and be the same in
// every server of a network.
//
// It refuses to store anything or to carry anything out: compare-and-set on
// [Node.Version], signatures, webhooks and commands are the server's. It refuses
// to take unknown for good: nothing is admitted without a passing verification
// that began after it was asked for, nothing leaves quarantine without one, and
// never more than a share of the network is quarantined without a person.
//
// docs/admission.md has the states and every transition; a test reads its tables
// and compares them with this package. Storing a state is JSON: the types here
// have stable members.
package control
