package server

import (
	"fmt"

	"github.com/assay-bench/assay/network/api"
)

// rule says who may ask for an operation. It is all that says so: a handler sees
// only requests that its rule has let through.
type rule struct {
	anybody bool     // without saying who they are
	people  api.Role // the least role of people and tokens that may; empty: none
	all     bool     // only those who see all owners
	node    bool     // a node may, about itself
	bytes   int64    // of the body; zero: it has none
	audit   bool     // each request leaves an entry in the audit log
	waits   bool     // its answer takes long on purpose
}

// Sizes of bodies.
const (
	kib = 1 << 10
	mib = 1 << 20
)

// access is the one table of who may do what, by operation of the document. Where
// the path names a node, people must see its owner; what they do not see is not
// there. Heart-beats, deliveries and acknowledgements leave no audit entry of
// their own: they are not decisions, and what they deliver is a record itself.
var access = map[string]rule{
	"getLive":    {anybody: true},
	"getReady":   {anybody: true},
	"getServer":  {anybody: true},
	"getMetrics": {people: api.RoleViewer, all: true},
	"getMe":      {people: api.RoleRouter, node: true},
	"getRoute":   {people: api.RoleRouter},
	"getTargets": {people: api.RoleRouter},

	"enrol":       {anybody: true, bytes: 32 * kib},
	"createNonce": {anybody: true, bytes: kib},
	"login":       {anybody: true, bytes: 16 * kib},

	"heartbeat":          {node: true, bytes: 32 * kib},
	"putInventory":       {node: true, bytes: 256 * kib, audit: true},
	"getInventory":       {people: api.RoleViewer, node: true},
	"getSettings":        {people: api.RoleViewer, node: true},
	"putSettings":        {people: api.RoleOperator, bytes: 4 * kib, audit: true},
	"listCommands":       {node: true, waits: true},
	"acknowledgeCommand": {node: true, bytes: 4 * kib},
	"deliverStatements":  {node: true, bytes: 4 * mib},
	"deliverEvents":      {node: true, bytes: 4 * mib},
	"createReport":       {node: true, bytes: 256 * kib},
	"confirmReport":      {node: true, bytes: kib},
	"rotateKey":          {node: true, bytes: 16 * kib, audit: true},
	"revokeKey":          {people: api.RoleOperator, audit: true},
	"listKeys":           {people: api.RoleViewer, node: true},
	"getKeyStatement":    {people: api.RoleViewer, node: true},

	"listNodes":              {people: api.RoleViewer},
	"getNode":                {people: api.RoleViewer, node: true},
	"actOnNode":              {people: api.RoleOperator, bytes: 4 * kib, audit: true},
	"listTransitions":        {people: api.RoleViewer, node: true},
	"getTransitionStatement": {people: api.RoleViewer, node: true},
	"listReports":            {people: api.RoleViewer, node: true},
	"getReport":              {people: api.RoleViewer, node: true},
	"getHistory":             {people: api.RoleViewer, node: true},
	"listAnomalies":          {people: api.RoleViewer},
	"listFindings":           {people: api.RoleViewer},
	"getCapacity":            {people: api.RoleViewer},

	"createMeasurement": {people: api.RoleOperator, bytes: 64 * kib, audit: true},
	"listMeasurements":  {people: api.RoleViewer},
	"getMeasurement":    {people: api.RoleViewer},
	"cancelMeasurement": {people: api.RoleOperator, audit: true},

	// Rented machines have no owner: they are the network's, and so is the money.
	"listOffers":           {people: api.RoleViewer, all: true, waits: true},
	"listSessions":         {people: api.RoleViewer, all: true},
	"getSession":           {people: api.RoleViewer, all: true},
	"createSession":        {people: api.RoleOperator, all: true, bytes: 16 * kib, audit: true, waits: true},
	"deleteSession":        {people: api.RoleOperator, all: true, audit: true, waits: true},
	"finishSession":        {people: api.RoleOperator, all: true, audit: true, waits: true},
	"extendSession":        {people: api.RoleOperator, all: true, bytes: kib, audit: true},
	"getBestBenchmark":     {people: api.RoleViewer, all: true},
	"getCheapestBenchmark": {people: api.RoleViewer, all: true},
	"compareBenchmarks":    {people: api.RoleViewer, all: true},

	"createEnrolmentToken": {people: api.RoleOperator, bytes: 4 * kib, audit: true},
	"listEnrolmentTokens":  {people: api.RoleOperator},
	"deleteEnrolmentToken": {people: api.RoleOperator, audit: true},
	"createToken":          {people: api.RoleAdmin, bytes: 16 * kib, audit: true},
	"listTokens":           {people: api.RoleAdmin},
	"deleteToken":          {people: api.RoleAdmin, audit: true},
	"erasePerson":          {people: api.RoleAdmin, all: true, audit: true},
	"listAudit":            {people: api.RoleOperator},
	"listRejections":       {people: api.RoleAdmin, all: true},

	"getPolicy":    {people: api.RoleViewer},
	"putPolicy":    {people: api.RoleAdmin, all: true, bytes: 256 * kib, audit: true},
	"testPolicy":   {people: api.RoleOperator, all: true, bytes: 256 * kib},
	"getBreaker":   {people: api.RoleViewer},
	"resetBreaker": {people: api.RoleOperator, all: true, bytes: 4 * kib, audit: true},
}

// allows says whether a principal may ask for an operation about a node, which is
// empty where the path names none.
func (ru rule) allows(p Principal, node string) error {
	if p.Role == api.RoleNode {
		switch {
		case !ru.node:
			return refuse(403, "a node may not ask for this")
		case node != "" && node != p.Node:
			return notFound("node")
		}
		return nil
	}
	switch {
	case rank(p.Role) == 0:
		return refuse(403, "the role %q is not known here, and may nothing", p.Role)
	case ru.people == "":
		return refuse(403, "only the node itself may ask for this")
	case rank(p.Role) < rank(ru.people):
		return refuse(403, "this needs the role %s, and you have the role %s", ru.people, p.Role)
	case ru.all && !p.All:
		return refuse(403, "this concerns all owners, and you see %d of them", len(p.Owners))
	}
	return nil
}

// ruleOf finds the rule of an operation. One without a rule is a mistake in the
// program: the server does not start.
func ruleOf(op operation) (rule, error) {
	ru, ok := access[op.id]
	switch {
	case !ok:
		return rule{}, fmt.Errorf("the operation %s has no rule that says who may ask for it", op.id)
	case ru.anybody != op.public:
		return rule{}, fmt.Errorf("the operation %s is public by its rule or by the document, and not by both", op.id)
	case ru.anybody && (ru.people != "" || ru.node):
		return rule{}, fmt.Errorf("the operation %s is for everybody and for some", op.id)
	}
	return ru, nil
}
