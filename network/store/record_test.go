package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

func testDecisions(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node, at := enrolled(t, s, "ada"), now()
	score := 0.75
	d := decision(t, s, node, func(f *Facts) { f.Admission, f.Reasons, f.PolicyVersion = "admitted", []string{"passed"}, 7 })
	d.Report = &Report{ID: id(), At: at, Score: &score}
	d.Breaker = json.RawMessage(`{"open":false}`)
	d.Transitions = []Transition{{ID: id(), At: at, Fact: "admission", From: "pending", To: "admitted", Event: "report", Actor: "server:s", Reasons: []string{"passed"}, PolicyVersion: 7, NodeVersion: 2, Statement: []byte{1, 0, 2}}}
	d.Commands = []Command{{ID: id(), Kind: "check", Created: at, Expires: at.Add(time.Minute)}}
	d.Due = []Due{{"verify", node, at}}
	d.Trail = Trail{
		Audit:  []AuditEntry{{ID: id(), At: at, Actor: "server:s", Action: "admit", Node: node, Owner: "ada", Outcome: "done"}},
		Outbox: []Record{{ID: id(), Topic: TopicLedger, Node: node, Kind: "envelope", Bytes: []byte("t"), Received: at}},
	}
	must(t, s.Decide(ctx, d))
	n := got[Node](t)(s.Node(ctx, everybody, node))
	equal(t, "facts", n.Facts, d.Next)
	equal(t, "score", *n.Score, score)
	equal(t, "breaker", got[Breaker](t)(s.Breaker(ctx)).Version, d.BreakerFrom+1)
	ts := got[[]Transition](t)(s.Transitions(ctx, everybody, node, Page{}))
	w := d.Transitions[0]
	w.Node, w.Decision, w.Evidence = node, d.ID, []string{}
	equal(t, "transitions", ts, []Transition{w})
	equal(t, "one", got[Transition](t)(s.Transition(ctx, everybody, node, w.ID)), w)
	equal(t, "history", len(got[[]Decision](t)(s.History(ctx, everybody, at.Add(-time.Hour), Page{}))), 1)
	equal(t, "history of others", len(got[[]Decision](t)(s.History(ctx, Scope{Owners: []string{"bob"}}, at.Add(-time.Hour), Page{}))), 0)

	// The same once more, and one that was made on another breaker: nothing of
	// them remains.
	want(t, s.Decide(ctx, d), ErrConflict)
	stale := decision(t, s, node, func(f *Facts) { f.Admission = "quarantined" })
	stale.BreakerFrom--
	stale.Trail = Trail{Outbox: []Record{{ID: id(), Topic: TopicLedger, Node: node, Bytes: []byte("u"), Received: at}}}
	want(t, s.Decide(ctx, stale), ErrConflict)
	stale.Breaker = json.RawMessage(`{}`)
	want(t, s.Decide(ctx, stale), ErrConflict)
	// An outbox id that is taken fails the whole too.
	clash := decision(t, s, node, func(f *Facts) { f.Admission = "degraded" })
	clash.Trail = Trail{Outbox: []Record{{ID: d.Trail.Outbox[0].ID, Topic: TopicLedger, Node: node, Bytes: []byte("other"), Received: at}}}
	want(t, s.Decide(ctx, clash), ErrTaken)
	equal(t, "facts after all that", got[Node](t)(s.Node(ctx, everybody, node)).Facts, d.Next)
	equal(t, "outbox", got[int](t)(s.Unpublished(ctx, TopicLedger, 10)), 1)
	equal(t, "decisions", len(got[[]Decision](t)(s.History(ctx, everybody, at.Add(-time.Hour), Page{}))), 1)

	// A replica has its own version.
	must(t, s.PutInventory(ctx, Inventory{Node: node, At: at, Replicas: []Replica{{ID: id(), Name: "r", Facts: Facts{Admission: "pending", Intent: "serve", Contact: "seen", Version: 4}}}}))
	r := decision(t, s, node, func(f *Facts) {})
	r.Replica, r.From = "r", 4
	r.Next.Version, r.Next.Admission = 5, "degraded"
	must(t, s.Decide(ctx, r))
	equal(t, "the replica", got[[]Replica](t)(s.Replicas(ctx, everybody, node))[0].Admission, "degraded")
	r.ID = id()
	want(t, s.Decide(ctx, r), ErrConflict)
}

// Many decide on one node and on the breaker from what they read: of each version
// one wins.
func testDecisionsRace(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	other := b.open(t)
	nodes := []string{enrolled(t, s, "ada"), enrolled(t, s, "ada"), enrolled(t, s, "ada")}
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 24 {
		st := []*Store{s, other}[i%2]
		wg.Go(func() {
			for range 4 {
				d := decision(t, st, nodes[i%len(nodes)], func(f *Facts) { f.Admission = fmt.Sprint(i) })
				if i%3 != 0 {
					d.Breaker = json.RawMessage(`{}`)
				}
				err := st.Decide(ctx, d)
				if err != nil && !errors.Is(err, ErrConflict) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					won++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range nodes {
		sum += int(got[Node](t)(s.Node(ctx, everybody, n)).Version) - 1
	}
	equal(t, "versions", sum, won)
	equal(t, "decisions", len(got[[]Decision](t)(s.History(ctx, everybody, now().Add(-time.Hour), Page{Limit: 1000}))), won)
}

func announced(t *testing.T, s *Store, node string, at time.Time) Report {
	t.Helper()
	r := Report{ID: id(), At: at, Node: node, Run: "run", RunSHA256: Hash("run"), Statement: id(), Files: []File{{"run.json", Hash(id()), 3}}}
	kept := got[Report](t)(s.AnnounceReport(t.Context(), r, Trail{}))
	equal(t, "announced", kept, r)
	must(t, s.ConfirmReport(t.Context(), r.ID, at, Trail{}))
	return r
}

func testReports(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node, other, at := enrolled(t, s, "ada"), enrolled(t, s, "bob"), now()
	r := announced(t, s, node, at)
	again := r
	again.ID, again.At = id(), at.Add(time.Second)
	equal(t, "the same statement", got[Report](t)(s.AnnounceReport(ctx, again, Trail{})).ID, r.ID)
	again.Node = other
	want(t, second(s.AnnounceReport(ctx, again, Trail{})), ErrTaken)
	equal(t, "to score", len(got[[]Report](t)(s.Unscored(ctx, at.Add(-time.Hour), 10))), 1)

	score := 0.5
	r.Scored, r.Peer, r.Verdict, r.Score, r.Because, r.Summary = at, "H100 m vllm", "pass", &score, "so", json.RawMessage(`{"a":1}`)
	must(t, s.ScoreReport(ctx, r))
	want(t, s.ScoreReport(ctx, r), ErrConflict)
	r.Confirmed = at
	equal(t, "scored", got[Report](t)(s.Report(ctx, everybody, node, r.ID)), r)
	equal(t, "listed", got[[]Report](t)(s.Reports(ctx, everybody, node, Page{})), []Report{r})
	equal(t, "to score", len(got[[]Report](t)(s.Unscored(ctx, at.Add(-time.Hour), 10))), 0)
	big := r
	big.Summary = make([]byte, MaxSummary+1)
	if err := s.ScoreReport(ctx, big); err == nil {
		t.Error("a summary without a bound was taken")
	}
	want(t, second(s.Report(ctx, everybody, other, r.ID)), ErrNotFound)
	want(t, s.ConfirmReport(ctx, id(), at, Trail{}), ErrNotFound)

	d := decision(t, s, node, func(f *Facts) { f.Admission = "admitted" })
	d.Report = &r
	must(t, s.Decide(ctx, d))
	equal(t, "peers", got[[]Report](t)(s.PeerReports(ctx, r.Peer, other, 10)), []Report{r})
	equal(t, "peers of itself", len(got[[]Report](t)(s.PeerReports(ctx, r.Peer, node, 10))), 0)
}

// A report that a decision cites stays as long as the decision does, with its
// evidence; one that none cites goes.
func testRetention(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	const day = 24 * time.Hour
	old := now().Add(-200 * day)
	must(t, s.MakePartitions(ctx, old))
	must(t, s.MakePartitions(ctx, now().Add(-day)))
	node := enrolled(t, s, "ada")
	cited, plain := announced(t, s, node, old), announced(t, s, node, old)
	d := decision(t, s, node, func(f *Facts) {})
	d.At, d.Cites = old, []string{cited.ID}
	must(t, s.Decide(ctx, d))
	got[[]Outcome](t)(s.Deliver(ctx, node, []Record{{ID: id(), Kind: "envelope", Bytes: []byte("b")}, {ID: cited.Statement, Kind: "envelope", Bytes: []byte("c")}}, old))
	must(t, s.MarkPublished(ctx, []string{cited.Statement}, old))

	if err := s.Retain(ctx, Retention{}, now()); err == nil {
		t.Error("a retention of nothing was taken")
	}
	keep := Retention{Reports: 90 * day, Decisions: 400 * day, Audit: 400 * day, Statements: 30 * day}
	must(t, s.Retain(ctx, keep, now()))
	must(t, s.Retain(ctx, keep, now()))
	equal(t, "cited", got[Report](t)(s.Report(ctx, everybody, node, cited.ID)).Files, cited.Files)
	want(t, second(s.Report(ctx, everybody, node, plain.ID)), ErrNotFound)
	equal(t, "decisions", len(got[[]Decision](t)(s.History(ctx, everybody, old.Add(-day), Page{}))), 1)
	gone := got[[]Evidence](t)(s.UnneededEvidence(ctx, now(), 10))
	if len(gone) != 1 || gone[0].SHA256 != plain.Files[0].SHA256 {
		t.Errorf("evidence that nobody needs: %v", gone)
	}
	must(t, s.ForgetEvidence(ctx, plain.Files[0].SHA256))
	want(t, s.ForgetEvidence(ctx, cited.Files[0].SHA256), ErrConflict)
	// The published bytes went, and still nothing else is taken under their id.
	want(t, second(s.Statement(ctx, everybody, node, cited.Statement)), ErrNotFound)
	equal(t, "after the bytes went", got[[]Outcome](t)(s.Deliver(ctx, node, []Record{
		{ID: cited.Statement, Kind: "envelope", Bytes: []byte("c")}, {ID: cited.Statement, Kind: "envelope", Bytes: []byte("d")},
	}, now())), []Outcome{Duplicate, Refused})
	equal(t, "unpublished stays", got[int](t)(s.Unpublished(ctx, TopicLedger, 10)), 1)

	keep.Decisions = 100 * day
	must(t, s.Retain(ctx, keep, now()))
	want(t, second(s.Report(ctx, everybody, node, cited.ID)), ErrNotFound)
	equal(t, "decisions at the end", len(got[[]Decision](t)(s.History(ctx, everybody, old.Add(-day), Page{}))), 0)
	must(t, s.ForgetEvidence(ctx, cited.Files[0].SHA256))
}

func testKeys(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node, other, at := enrolled(t, s, "ada"), enrolled(t, s, "bob"), now()
	k := NodeKey{ID: Hash("k"), Node: node, PublicKey: []byte("k"), Statement: []byte{0, 1}, NotBefore: at, NotAfter: at.Add(time.Hour), Created: at}
	equal(t, "added", got[[]byte](t)(s.AddNodeKey(ctx, k, Trail{})), k.Statement)
	again := k
	again.Statement = []byte("anew")
	equal(t, "again", got[[]byte](t)(s.AddNodeKey(ctx, again, Trail{})), k.Statement)
	again.Node = other
	want(t, second(s.AddNodeKey(ctx, again, Trail{})), ErrTaken)
	equal(t, "by id", got[NodeKey](t)(s.NodeKey(ctx, k.ID)), k)
	equal(t, "of the node", len(got[[]NodeKey](t)(s.NodeKeys(ctx, everybody, node))), 2)
	must(t, s.CreateToken(ctx, Token{ID: id(), Hash: Hash("l"), Kind: TokenLogin, Role: "node", Node: node, NodeKey: k.ID, Created: at, Expires: at.Add(time.Hour)}, Trail{}))
	got[Token](t)(s.TokenByHash(ctx, Hash("l"), at))
	want(t, s.RevokeNodeKey(ctx, everybody, other, k.ID, at, Trail{}), ErrNotFound)
	must(t, s.RevokeNodeKey(ctx, everybody, node, k.ID, at, Trail{}))
	want(t, second(s.TokenByHash(ctx, Hash("l"), at)), ErrNotFound)
	equal(t, "revoked", got[NodeKey](t)(s.NodeKey(ctx, k.ID)).Revoked, at)
	want(t, second(s.AddNodeKey(ctx, k, Trail{})), ErrTaken)
	// A log-in that is made at the moment of the revocation is no good either.
	must(t, s.CreateToken(ctx, Token{ID: id(), Hash: Hash("m"), Kind: TokenLogin, Role: "node", Node: node, NodeKey: k.ID, Created: at, Expires: at.Add(time.Hour)}, Trail{}))
	want(t, second(s.TokenByHash(ctx, Hash("m"), at)), ErrNotFound)
}

func testPolicy(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	want(t, second(s.Policy(ctx, 0)), ErrNotFound)
	equal(t, "none", got[int64](t)(s.PolicyVersion(ctx)), int64(0))
	apply := func(text string, version int64, applied bool) {
		t.Helper()
		v, a, err := s.ApplyPolicy(ctx, Policy{Bytes: []byte(text), By: "person:x", At: now()}, Trail{})
		if v != version || a != applied || err != nil {
			t.Errorf("%q: version %d, applied %v, %v", text, v, a, err)
		}
	}
	apply("a", 1, true)
	apply("a", 1, false)
	apply("b", 2, true)
	apply("a", 3, true)
	equal(t, "in force", string(got[Policy](t)(s.Policy(ctx, 0)).Bytes), "a")
	equal(t, "an earlier one", string(got[Policy](t)(s.Policy(ctx, 2)).Bytes), "b")
	br := got[Breaker](t)(s.Breaker(ctx))
	must(t, s.SetBreaker(ctx, br.Version, json.RawMessage(`{"open":true}`), now(), Trail{}))
	want(t, s.SetBreaker(ctx, br.Version, json.RawMessage(`{}`), now(), Trail{}), ErrConflict)
	equal(t, "breaker", string(got[Breaker](t)(s.Breaker(ctx)).Body), `{"open":true}`)
}

func testAudit(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	at := now()
	entry := func(owner string) AuditEntry {
		return AuditEntry{ID: id(), At: at, Actor: "person:x", Action: "drain", Target: "node:y", Node: "y", Owner: owner, Outcome: "done", Detail: "d"}
	}
	ada, bob, nobody := entry("ada"), entry("bob"), entry("")
	must(t, s.AddAudit(ctx, Trail{Audit: []AuditEntry{ada, bob, nobody}}))
	equal(t, "all", got[[]AuditEntry](t)(s.Audit(ctx, everybody, "", Page{})), []AuditEntry{nobody, bob, ada})
	equal(t, "ada's", got[[]AuditEntry](t)(s.Audit(ctx, Scope{Owners: []string{"ada"}}, "y", Page{})), []AuditEntry{ada})
	equal(t, "before", got[[]AuditEntry](t)(s.Audit(ctx, everybody, "", Page{Before: nobody.ID, Limit: 1})), []AuditEntry{bob})
	equal(t, "of another node", len(got[[]AuditEntry](t)(s.Audit(ctx, everybody, "z", Page{}))), 0)

	minute := at.Truncate(time.Minute)
	must(t, s.AddRejections(ctx, []Rejections{{at, "no token", 2}, {at, "bad token", 1}}))
	must(t, s.AddRejections(ctx, []Rejections{{at, "no token", 3}}))
	equal(t, "counts", got[[]Rejections](t)(s.Rejections(ctx, everybody, Page{})), []Rejections{{minute, "bad token", 1}, {minute, "no token", 5}})
	equal(t, "counts for an owner", len(got[[]Rejections](t)(s.Rejections(ctx, Scope{Owners: []string{"ada"}}, Page{}))), 0)
}

// After a restore nothing that lets somebody in is good any more, and what is made
// afterwards is.
func testRestore(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	at := now()
	before := enrolment(t, s, "ada")
	must(t, s.CreateToken(ctx, Token{ID: id(), Hash: Hash("a"), Kind: TokenAPI, Role: "admin", Scope: everybody, Created: at, Expires: at.Add(time.Hour)}, Trail{}))
	must(t, s.CreateNonce(ctx, "n", "node", at.Add(time.Hour)))
	l := got[Lease](t)(s.Acquire(ctx, "work", "a", time.Hour))
	got[int64](t)(s.MarkRestored(ctx, Trail{}))
	want(t, second(s.TokenByHash(ctx, Hash("a"), at)), ErrNotFound)
	want(t, second(s.Enrol(ctx, before)), ErrTokenUnknown)
	want(t, s.UseNonce(ctx, "n", "node", at), ErrNotFound)
	want(t, second(s.NextToPublish(ctx, l, 1)), ErrLease)
	equal(t, "tokens", len(got[[]Token](t)(s.Tokens(ctx, everybody, Page{}))), 0)
	must(t, s.CreateToken(ctx, Token{ID: id(), Hash: Hash("b"), Kind: TokenAPI, Role: "admin", Scope: everybody, Created: at, Expires: at.Add(time.Hour)}, Trail{}))
	got[Token](t)(s.TokenByHash(ctx, Hash("b"), at))
	enrolled(t, s, "ada")
}

func testBaselines(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	want(t, second(s.Baseline(ctx, "p")), ErrNotFound)
	old := now().Add(-1000 * 24 * time.Hour)
	for i, at := range []time.Time{old, old.Add(time.Hour), now()} {
		equal(t, "version", got[int64](t)(s.PutBaseline(ctx, Baseline{Peer: "p", At: at, Source: "median", Body: []byte(`{"n":` + fmt.Sprint(i) + `}`)}, Trail{})), int64(i+1))
	}
	equal(t, "latest", string(got[Baseline](t)(s.Baseline(ctx, "p")).Body), `{"n":2}`)
	must(t, s.Retain(ctx, DefaultRetention(), now()))
	var versions []int64
	must(t, s.view(ctx, "versions", func(q database.Query) (err error) {
		versions, err = all(ctx, q, func(r row) (v int64, err error) { return v, r.Scan(&v) }, "SELECT version FROM baselines ORDER BY 1")
		return err
	}))
	// The second was in force until now: a decision of last week may cite it.
	equal(t, "kept", versions, []int64{2, 3})
}

func testAppendOnly(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	node := enrolled(t, s, "ada")
	d := decision(t, s, node, func(*Facts) {})
	d.Transitions = []Transition{{ID: id(), At: d.At}}
	d.Trail.Audit = []AuditEntry{{ID: id(), At: d.At}}
	must(t, s.Decide(ctx, d))
	for _, table := range []string{"audit", "transitions", "decisions"} {
		statements := []string{"UPDATE " + table + " SET actor = 'nobody'"}
		if s.db.Dialect() == database.Postgres {
			statements = append(statements, "DELETE FROM "+table)
		}
		for _, st := range statements {
			if err := s.tx(ctx, "forge", func(q database.Query) error {
				_, err := q.ExecContext(ctx, st)
				return err
			}); err == nil {
				t.Errorf("%s went through", st)
			}
		}
	}
}

func testMigrateAtOnce(t *testing.T, b backend) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	worked := 0
	for range 4 {
		s := b.open(t)
		wg.Go(func() {
			from, to, err := s.Migrate(t.Context())
			if err != nil || to == 0 {
				t.Errorf("to %d, %v", to, err)
			}
			if from == 0 {
				mu.Lock()
				worked++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	equal(t, "migrators that worked", worked, 1)
}

// Rows at the last moment of a month and the first of the next find their place,
// also in a month for which nobody made one.
func testMonths(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	next := month(now(), 1)
	for _, at := range []time.Time{month(now(), 0), next.Add(-time.Microsecond), next, month(now(), monthsAhead+1).Add(-time.Microsecond)} {
		must(t, s.AddAudit(ctx, Trail{Audit: []AuditEntry{{ID: id(), At: at}}}))
	}
	equal(t, "entries", len(got[[]AuditEntry](t)(s.Audit(ctx, everybody, "", Page{}))), 4)
	if s.db.Dialect() != database.Postgres {
		return
	}
	count := func(table string) (n int) {
		must(t, s.view(ctx, "count", func(q database.Query) error {
			return q.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n)
		}))
		return n
	}
	equal(t, "this month", count(partition("audit", month(now(), 0))), 2)
	equal(t, "next month", count(partition("audit", next)), 1)
	// A server that ran for months without making any.
	must(t, s.tx(ctx, "drop", func(q database.Query) error {
		_, err := q.ExecContext(ctx, "DROP TABLE "+partition("audit", next))
		return err
	}))
	must(t, s.AddAudit(ctx, Trail{Audit: []AuditEntry{{ID: id(), At: next}}}))
	equal(t, "made when it was missing", count(partition("audit", next)), 1)
	if err := s.AddAudit(ctx, Trail{Audit: []AuditEntry{{ID: id(), At: now().AddDate(5, 0, 0)}}}); !database.NoPartition(err) {
		t.Errorf("a row five years ahead: %v", err)
	}
}
