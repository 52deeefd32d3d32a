package control

import (
	"fmt"
	"slices"
	"time"
)

// returnBeats is how many heart-beats agents take to come back to a server or
// database that was away: they spread over a minute, so that they do not all come
// at once, and of ten thousand the last are heard later still. From then on
// graceBeats are missed before somebody is silent. massBeats is how many are looked
// back over for mass silence, since heart-beats of an outage end one after the
// other.
const (
	returnBeats = 2
	graceBeats  = 3
	massBeats   = 10
)

// View is what is needed of a node to say whether it is silent.
type View struct {
	ID string
	Facts
	LastSeen     time.Time // its last heart-beat
	ContactSince time.Time
}

// Up is since when the server and its database work. Zero is unknown.
type Up struct {
	Server, Database time.Time
}

// Silenced is what [Silence] decided.
type Silenced struct {
	// Silent are the nodes that become silent: give each EventSilence.
	Silent  []string
	Breaker Breaker
	Notices []Notice
	// Overdue counts all that were not heard in time, Limit how many of those in
	// rotation may become silent within massBeats.
	Overdue, Limit int
	Why            string
}

// Silence decides who becomes silent. It looks at all nodes at once, since many
// silent nodes are more often a fault of ours than of theirs.
func Silence(p Policy, b Breaker, views []View, up Up, now time.Time) Silenced {
	out := Silenced{Breaker: b}
	beat := time.Duration(p.Silence.Heartbeat)
	since := up.Server
	if up.Database.After(since) {
		since = up.Database
	}
	since = since.Add(returnBeats * beat)
	switch {
	case beat <= 0 || p.Silence.Missed <= 0:
		out.Why = "the policy has no heart-beat"
		return out
	case up.Server.IsZero() || up.Database.IsZero():
		out.Why = "it is not known since when the server and its database work"
		return out
	case now.Before(since.Add(graceBeats * beat)):
		out.Why = fmt.Sprintf("the server or its database came back %s ago; nobody is silent before %s", now.Sub(since.Add(-returnBeats*beat)).Round(time.Second), (returnBeats+graceBeats)*beat)
		return out
	}
	var overdue []string
	rotation, lost := 0, 0
	for _, v := range views {
		serving := v.Admission == Admitted || v.Admission == Degraded
		serving = serving && v.Intent != Retired
		if serving {
			rotation++
		}
		switch {
		case v.Intent == Retired:
		case v.Contact == Silent:
			if serving && now.Sub(v.ContactSince) < massBeats*beat {
				lost++
			}
		case now.Sub(latest(v.LastSeen, since)) >= time.Duration(p.Silence.Missed)*beat:
			overdue = append(overdue, v.ID)
			if serving {
				lost++
			}
		}
	}
	slices.Sort(overdue)
	out.Overdue, out.Limit = len(overdue), limit(p.Silence.Share, rotation)
	lifted := now.Before(b.LiftedUntil)
	if lost > out.Limit && !lifted {
		out.Why = fmt.Sprintf("%d of %d nodes in rotation are not heard, more than %d: nobody becomes silent", lost, rotation, out.Limit)
		out.Breaker, out.Notices = b.trip("mass silence: "+out.Why, true, now)
		if out.Breaker != b {
			out.Breaker.Version++
		}
		return out
	}
	if b.Mass {
		out.Breaker = b.clear()
		out.Breaker.Version++
		out.Notices = []Notice{{Kind: NoticePage, Key: KeyBreaker, Resolved: true, Text: "the heart-beats are back: the breaker holds nothing any more"}}
	}
	if lost > out.Limit && len(overdue) > 0 {
		out.Notices = append(out.Notices, Notice{Kind: NoticePage, Key: KeyBreaker, Text: fmt.Sprintf("mass silence: %d of %d nodes in rotation are not heard, more than %d, and the breaker is lifted until %s: they leave rotation",
			lost, rotation, out.Limit, b.LiftedUntil.UTC().Format(time.RFC3339))})
	}
	out.Silent = overdue
	out.Why = fmt.Sprintf("%d nodes were not heard for %d heart-beats", len(overdue), p.Silence.Missed)
	return out
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
