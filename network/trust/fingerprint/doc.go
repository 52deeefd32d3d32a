// Package fingerprint compares the model that an engine serves with a reference:
// log-probabilities of secret prompts, recorded before on deployments that are
// trusted.
//
// What it promises: the comparison is paired, token by token over the same prompts,
// and what counts as the same model comes from the reference's own repetitions: an
// honest run is called different about once in a thousand checks, if it is a run of
// a deployment that the reference has (an engine, its version, a data type, a
// device). A deployment that it does not have may be honest and differ: the verdict
// is then unknown, for a person to look at, never fail.
//
// What it refuses: to call a model the same because its engine gives no
// log-probabilities, or because the reference is too noisy to tell. And it does not
// prove that customers get this model: a node that recognises the question can send
// it elsewhere (docs/trust-models.md).
package fingerprint
