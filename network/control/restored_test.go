package control

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// A node that was restored and then follows what was signed after the backup is
// where it was, never better, whatever happened between.
func TestRestoredIsNoBetter(t *testing.T) {
	p := Default()
	p.GPU = GPUNone
	rank := map[Admission]int{Admitted: 4, Degraded: 3, Reverifying: 2, Verifying: 1, Pending: 1, Quarantined: 0}
	person := Actor{Kind: ActorPerson, ID: "p"}
	better, worse := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var n, backup Node
		var b Breaker
		var later []Transition
		cut := r.IntN(40)
		for i := range 60 {
			e := Event{Kind: Kinds()[r.IntN(len(Kinds()))], At: now, Actor: person, Reason: "by chance", Override: OverrideKeep, Until: now.Add(time.Hour), Anomaly: "xid"}
			if i == 0 {
				e.Kind = EventEnrolled
			}
			if e.Kind == EventReport {
				low := r.Float64()
				e.Report = &Measured{Run: "r", Began: now, Overall: &low, Lower: &low, Basis: BasisPeers, Checks: map[string]CheckFound{
					CheckEngineMeasured: {assay.Pass, 1}, CheckHostClient: {assay.Pass, 1},
				}}
				if v := n.Verification; v != nil {
					e.Report.Answers = v.ID
				}
			}
			if e.Kind == EventRetire {
				continue
			}
			out := Step(p, n, b, e, now)
			n, b = out.Node, out.Breaker
			if i == cut {
				backup = n
			}
			if i > cut {
				later = append(later, out.Transitions...)
			}
			now = now.Add(time.Duration(r.IntN(600)) * time.Second)
		}
		if cut >= 60 || backup.Version == 0 {
			continue
		}
		got := Restored(p, backup, later, now)
		switch {
		case got.Facts != n.Facts && len(later) > 0:
			t.Fatalf("seed %d: %+v, and it was %+v", seed, got.Facts, n.Facts)
		case rank[got.Admission] > rank[n.Admission] && len(later) > 0:
			t.Fatalf("seed %d: %s, and it was %s", seed, got.Admission, n.Admission)
		case len(later) > 0 && got.Version <= later[len(later)-1].NodeVersion:
			t.Fatalf("seed %d: version %d is taken", seed, got.Version)
		case (got.Admission == Quarantined || got.Admission == Reverifying) && len(later) > 0 && got.Quarantine == nil:
			t.Fatalf("seed %d: it is out for no cause", seed)
		}
		if rank[got.Admission] > rank[backup.Admission] {
			better++
		}
		if rank[got.Admission] < rank[backup.Admission] {
			worse++
		}
		if again := Restored(p, got, later, now); again.Version != got.Version {
			t.Fatalf("seed %d: the same again counts a second time", seed)
		}
	}
	if better < 10 || worse < 10 {
		t.Errorf("%d nodes came back better than the backup has them and %d worse: that tries little", better, worse)
	}
}

// Who was quarantined after the backup waits for a person, and is not let back by
// the time alone.
func TestRestoredWaitsForAPerson(t *testing.T) {
	p, now := Default(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	n := Node{Facts: Facts{Admitted, Serve, Seen}, Version: 5, Member: true, Override: &Override{Kind: OverrideKeep, Until: now.Add(time.Hour)}}
	n = Restored(p, n, []Transition{
		{Fact: FactContact, From: "seen", To: "silent", At: now, NodeVersion: 8, Reasons: []string{"no heart-beat"}},
		{Fact: FactAdmission, From: "admitted", To: "quarantined", At: now, NodeVersion: 7, Reasons: []string{"too slow"}},
		{Fact: FactAdmission, From: "pending", To: "admitted", At: now, NodeVersion: 4},
	}, now)
	if n.Admission != Quarantined || n.Contact != Silent || n.Version != 9 || n.Override != nil || n.Reasons[0] != "too slow" {
		t.Fatalf("%+v", n)
	}
	b := Breaker{Members: 1, Out: 1}
	for range 100 {
		now = now.Add(24 * time.Hour)
		for _, k := range []Kind{EventHeartbeat, EventTick} {
			out := Step(p, n, b, Event{Kind: k, At: now, Actor: Actor{Kind: ActorServer}}, now)
			n, b = out.Node, out.Breaker
		}
		if n.Admission != Quarantined {
			t.Fatalf("it is %s", n.Admission)
		}
	}
}
