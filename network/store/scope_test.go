package store

import (
	"reflect"
	"testing"
)

// unscoped are the methods that read or change rows without a scope, and why no
// person can reach another owner's rows by them.
var unscoped = map[string]string{
	"Now": "the time", "Ping": "no rows", "Check": "no rows", "Migrate": "tables", "MakePartitions": "tables", "Retain": "the server's own work",
	"MarkRestored": "the whole installation, by who has the database's URL",
	"Replay":       "the same", "RestoreFacts": "the same", "LastReceived": "a time",

	"TokenByHash": "authenticates: there is no scope yet", "EnrolmentToken": "by the secret itself", "Enrol": "by the secret itself",
	"NodeKey": "checks signatures", "Person": "signing in", "CreateNonce": "before a log-in", "UseNonce": "before a log-in",
	"CreateToken": "a token's scope is its own; who may give it is the server's to check", "ErasePerson": "people are no owner's; an admin's of all",

	"Beats": "of nodes, from memory", "PutInventory": "by the node itself", "AddNodeKey": "by the node itself", "Deliver": "by the node itself",
	"AnnounceReport": "by the node itself", "ConfirmReport": "by the node itself", "AckCommand": "by the node itself", "WaitingCommands": "by the nodes themselves", "Standings": "by the nodes themselves", "EndLogins": "by the node itself",

	"Quiet": "the server's own work", "Returned": "the server's own work", "Unscored": "the server's own work", "ScoreReport": "the server's own work",
	"Routes": "the server's own work: who asks sees their owners of it", "Summaries": "the server's own work", "AddFinding": "the server's own work", "Counts": "the server's own work",
	"Claims": "the server's own work", "Unexamined": "the server's own work", "Examination": "the server's own work", "Examined": "the server's own work", "FirstUse": "the server's own work", "FoundSince": "the server's own work", "LastCommands": "the server's own work",
	"PeerPoints": "the server's own work", "PutPoint": "the server's own work", "SampleDemand": "the server's own work", "ToldSince": "the server's own work",
	"PeerReports": "the server's own work", "UnneededEvidence": "the server's own work", "ForgetEvidence": "the server's own work",
	"NextToPublish": "the server's own work", "MarkPublished": "the server's own work", "Unpublished": "a count", "Waiting": "a count",
	"ClaimWebhooks": "the server's own work", "PostponeWebhook": "the server's own work", "Decide": "made from a node that was read with a scope",
	"OpenMeasurements": "the server's own work", "StepMeasurement": "the server's own work", "MeasurementOf": "the server's own work", "KeepShare": "the server's own work",
	"Acquire": "the server's own work", "Release": "the server's own work", "SetDue": "the server's own work", "ClaimDue": "the server's own work", "DoneDue": "the server's own work",
	"AddAudit": "written by the server", "RecordedBy": "no rows", "Records": "no rows", "AddRejections": "counts",

	"Policy": "the network's, no owner's", "PolicyVersion": "the network's", "ApplyPolicy": "the network's", "Breaker": "the network's", "SetBreaker": "the network's", "RecountBreaker": "the network's",
	"Baseline": "the network's", "PutBaseline": "the network's",
}

// Whatever is not in that list takes a scope, so that nobody can forget it.
func TestQueriesTakeAScope(t *testing.T) {
	store, scope := reflect.TypeFor[*Store](), reflect.TypeFor[Scope]()
	seen := map[string]bool{}
	for m := range store.Methods() {
		seen[m.Name] = true
		scoped := m.Type.NumIn() > 2 && m.Type.In(2) == scope
		if why := unscoped[m.Name]; scoped == (why != "") {
			t.Errorf("%s takes a scope: %v; the list says %q", m.Name, scoped, why)
		}
	}
	for name := range unscoped {
		if !seen[name] {
			t.Errorf("there is no method %s: take it off the list", name)
		}
	}
}
