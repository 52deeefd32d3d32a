package control

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
)

// Values that nobody should send: whatever comes, Step answers the same twice,
// changes nothing that it was given, and does not panic.
func TestPropertyGarbageInIsNoPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n, b, e := anyPolicy(t), anyNode(t), anyBreaker(t), anyEvent(t)
		now := anyTime(t, "now")
		before, breaker := copyOf(n), b
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			out := Step(p, n, b, e, now)
			if !reflect.DeepEqual(n, before) && !hasNaN(n) || b != breaker {
				t.Fatalf("the input was changed from %+v to %+v", before, n)
			}
			again := Step(p, n, b, e, now)
			if out.Why != again.Why || out.Node.Facts != again.Node.Facts || out.Node.Version != again.Node.Version || out.Breaker != again.Breaker || len(out.Transitions) != len(again.Transitions) {
				t.Fatalf("two steps differ: %+v and %+v", out, again)
			}
			if out.Why == "" {
				t.Fatal("no reason")
			}
			if !n.Valid() && n.Facts != (Facts{}) && len(out.Transitions) > 0 {
				t.Fatalf("a state that is not known moved: %+v", out.Transitions)
			}
			if out.Breaker.Members < 0 && b.Members >= 0 || out.Breaker.Out < 0 && b.Out >= 0 {
				t.Fatalf("the breaker counts below zero: %+v", out.Breaker)
			}
			if len(out.Node.Flaps) > len(n.Flaps)+1 || len(out.Node.Reasons) > max(maxReasons, len(n.Reasons)) {
				t.Fatal("it remembers without bound")
			}
			Due(p, out.Node)
			n, b, e, now = out.Node, out.Breaker, anyEvent(t), anyTime(t, "now")
			before, breaker = copyOf(n), b
		}
		Silence(p, b, []View{{ID: "x", Facts: n.Facts, LastSeen: anyTime(t, "seen"), ContactSince: anyTime(t, "since")}}, Up{anyTime(t, "up"), anyTime(t, "db")}, now)
	})
}

func hasNaN(n Node) bool { return n.Last != nil && n.Last.Lower != nil && math.IsNaN(*n.Last.Lower) }

func anyTime(t *rapid.T, name string) time.Time {
	switch rapid.IntRange(0, 5).Draw(t, name) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(math.MaxInt64/4, 0)
	case 2:
		return time.Unix(-1<<60, 0)
	}
	return askedAt.Add(time.Duration(rapid.IntRange(-1e6, 1e6).Draw(t, name+" s")) * time.Second)
}

func anyText(t *rapid.T, name string, known ...string) string {
	return rapid.SampledFrom(append(known, "", "\x00\xff\x1b[2J", "unheard")).Draw(t, name)
}

func anyNumber(t *rapid.T, name string) float64 {
	return rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.75, 0.9, 1, -1, 1e308, math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(t, name)
}

func anyInt(t *rapid.T, name string) int {
	return rapid.SampledFrom([]int{0, 1, 2, 3, -1, math.MaxInt, math.MinInt}).Draw(t, name)
}

func anySpan(t *rapid.T, name string) assay.Duration {
	return rapid.SampledFrom([]assay.Duration{0, 1, -1, assay.Duration(time.Hour), math.MaxInt64, math.MinInt64}).Draw(t, name)
}

func anyPolicy(t *rapid.T) Policy {
	p := Default()
	p.Version = int64(rapid.IntRange(0, 2).Draw(t, "version"))
	if rapid.Bool().Draw(t, "sane") {
		return p
	}
	p.GPU = GPUNeed(anyText(t, "gpu", "none"))
	p.Score = Score{anyNumber(t, "admit"), anyNumber(t, "degrade"), anyNumber(t, "quarantine"), anyNumber(t, "starting")}
	p.Results = Results{anyInt(t, "bad"), anyInt(t, "good"), anyInt(t, "unknown")}
	p.Flaps = Flaps{anySpan(t, "window"), anyInt(t, "limit")}
	p.Breaker.Share, p.Silence.Share = anyNumber(t, "share"), anyNumber(t, "mass")
	p.Verification = Verify{anySpan(t, "timeout"), anySpan(t, "retry"), anySpan(t, "age"), anySpan(t, "interval")}
	p.Quarantine = Retry{anySpan(t, "wait"), anySpan(t, "longest")}
	p.Readmission = Readmission{anyInt(t, "steps"), anySpan(t, "every")}
	p.Override.Max, p.Drain = anySpan(t, "override"), Drain{anySpan(t, "drain"), anySpan(t, "drain max")}
	p.Silence.Heartbeat, p.Silence.Missed = anySpan(t, "beat"), anyInt(t, "missed")
	if rapid.Bool().Draw(t, "no table") {
		p.Anomalies = nil
	}
	return p
}

func anyNode(t *rapid.T) Node {
	n := Node{
		Facts: Facts{
			Admission(anyText(t, "admission", "pending", "verifying", "admitted", "degraded", "quarantined", "re-verifying")),
			Intent(anyText(t, "intent", "serve", "serve", "draining", "drained", "retired")),
			Contact(anyText(t, "contact", "seen", "seen", "silent")),
		},
		Version: int64(anyInt(t, "node version")), Member: rapid.Bool().Draw(t, "member"),
		AdmissionSince: anyTime(t, "since"), ContactSince: anyTime(t, "contact since"), LastJudged: anyTime(t, "judged"),
		Good: anyInt(t, "n good"), Bad: anyInt(t, "n bad"), Severe: anyInt(t, "n severe"), Unknown: anyInt(t, "n unknown"),
		Retries: anyInt(t, "retries"), ReadmissionStep: anyInt(t, "step"), AskAgain: anyTime(t, "again"), DrainBy: anyTime(t, "drain by"),
		Flaps: slicesOf(rapid.IntRange(0, 100).Draw(t, "flaps"), askedAt),
	}
	if rapid.Bool().Draw(t, "verification") {
		n.Verification = &Verification{ID: anyText(t, "id"), Asked: anyTime(t, "asked"), Deadline: anyTime(t, "deadline")}
	}
	if rapid.Bool().Draw(t, "last") {
		n.Last = &LastReport{Began: anyTime(t, "last began"), Grade: Grade(anyText(t, "grade", "unbased")), Lower: ptr(anyNumber(t, "last lower"))}
	}
	if rapid.Bool().Draw(t, "quarantine") {
		n.Quarantine = &Quarantine{Cause: Cause(anyText(t, "cause", "soft", "hard")), RetryAt: anyTime(t, "retry at")}
	}
	if rapid.Bool().Draw(t, "overridden") {
		n.Override = &Override{Kind: OverrideKind(anyText(t, "kind", "keep", "out")), Until: anyTime(t, "until")}
	}
	return n
}

func slicesOf(n int, at time.Time) (out []time.Time) {
	for i := range n {
		out = append(out, at.Add(time.Duration(i)*time.Second))
	}
	return out
}

func anyBreaker(t *rapid.T) Breaker {
	return Breaker{
		Members: anyInt(t, "members"), Out: anyInt(t, "out"), Tripped: rapid.Bool().Draw(t, "tripped"),
		Mass: rapid.Bool().Draw(t, "is mass"), LiftedUntil: anyTime(t, "lifted"),
	}
}

func anyEvent(t *rapid.T) Event {
	e := Event{
		Kind: rapid.SampledFrom(append(Kinds(), "", "?")).Draw(t, "event"), At: anyTime(t, "at"),
		Actor:    Actor{Kind: ActorKind(anyText(t, "actor", "person", "person", "node"))},
		Reason:   anyText(t, "reason", "r"),
		Evidence: make([]string, rapid.SampledFrom([]int{0, 1, 1000}).Draw(t, "evidence")),
		Anomaly:  anyText(t, "anomaly", "lost", "gpu_changed", "clock_skew"),
		Override: OverrideKind(anyText(t, "override", "keep", "out")), Until: anyTime(t, "e until"),
	}
	if rapid.Bool().Draw(t, "report") {
		e.Report = graded(Grade(anyText(t, "report grade", "hard", "severe", "poor", "unknown", "unbased", "good")), anyTime(t, "began"))
		if rapid.Bool().Draw(t, "odd") {
			e.Report = &Measured{
				Began: anyTime(t, "odd began"), GPUs: anyInt(t, "gpus"), Lower: ptr(anyNumber(t, "lower")), Basis: Basis(anyText(t, "basis", "own", "catalogue")),
				Checks: map[string]CheckFound{anyText(t, "check", "compute.golden"): {assay.Verdict(rapid.IntRange(0, 255).Draw(t, "verdict")), anyInt(t, "devices")}},
				Found:  []Found{{anyText(t, "rule", "lost"), assay.Verdict(rapid.IntRange(0, 255).Draw(t, "found")), rapid.Bool().Draw(t, "hard")}},
			}
		}
	}
	return e
}
