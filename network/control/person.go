package control

import (
	"strconv"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

func (s *step) drain(e Event) {
	by := s.now.Add(time.Duration(s.p.Drain.Deadline))
	if !e.Until.IsZero() {
		by = e.Until
	}
	switch {
	case s.n.Intent != Serve:
		s.refuse("it is %s already", s.n.Intent)
		return
	case !by.After(s.now) || by.After(s.now.Add(time.Duration(s.p.Drain.Max))):
		s.refuse("the deadline of a drain is within the next %s", s.p.Drain.Max)
		return
	}
	s.n.DrainBy = by
	s.intend(Draining, asked(e), "until "+by.UTC().Format(time.RFC3339)+" at most")
	s.command(CommandDrain, by, e)
}

func (s *step) drained() {
	if s.n.Intent != Draining {
		s.why("no drain is under way")
		return
	}
	s.n.DrainBy = time.Time{}
	s.intend(Drained, "nothing is running")
}

func (s *step) undrain() {
	if s.n.Intent == Serve {
		s.refuse("it is not drained")
		return
	}
	s.n.DrainBy = time.Time{}
	s.intend(Serve, asked(s.src))
	s.command(CommandServe, s.now.Add(time.Duration(s.p.Drain.Max)), s.src)
}

func (s *step) retire() {
	s.n.DrainBy, s.n.Verification, s.n.AskAgain, s.n.Override = time.Time{}, nil, time.Time{}, nil
	s.intend(Retired, asked(s.src))
	s.command(CommandRetire, s.now.Add(time.Duration(s.p.Drain.Max)), s.src)
}

func (s *step) quarantineByPerson(e Event) {
	if s.n.Admission == Quarantined {
		s.harden(CausePerson, asked(e))
		s.why("it is quarantined already, and now until a person readmits it")
		return
	}
	s.n.Override = nil
	s.quarantine(CausePerson, []string{asked(e)})
}

// readmit begins a re-verification; it never admits.
func (s *step) readmit(e Event) {
	switch s.n.Admission {
	case Quarantined:
		s.decide(e)
		s.n.Flaps, s.n.FlapHeld, s.n.Override = nil, false, nil
		s.moveTo(Reverifying, []string{asked(e)})
		s.ask("re-verification by a person")
	case Degraded:
		s.decide(e)
		s.n.Flaps, s.n.FlapHeld = nil, false
		s.ask("verification by a person")
		s.why("it stays degraded until its reports are good; a verification is under way")
	default:
		s.refuse("it is %s; only a quarantined or degraded node is readmitted", s.n.Admission)
	}
}

// approve takes a person's word in place of a baseline, and on findings that wait
// for one; it stands for no measurement.
func (s *step) approve(e Event) {
	held := s.decide(e)
	s.n.Approval = &Approval{By: e.Actor, At: s.now, Reason: foreign.Line(e.Reason, maxText)}
	switch {
	case s.n.Admission == Quarantined && s.n.Quarantine != nil && s.n.Quarantine.RetryAt.IsZero():
		s.why("approved; it stays quarantined until a person readmits it, which verifies it again")
		return
	case s.n.Admission != Pending:
		s.why("approved; it is %s, and a verification decides", s.n.Admission)
		return
	}
	if l, v := s.n.Last, s.n.Verification; l != nil && v != nil && (l.Grade == GradeUnbased || held && l.Grade == GradeGood) &&
		l.Began.After(v.Asked) && l.PolicyVersion == s.p.Version &&
		s.now.Sub(l.Began) <= time.Duration(s.p.Verification.MaxAge) {
		s.src.Evidence = append([]string{l.Run}, s.src.Evidence...)
		s.n.LastJudged = l.Began
		by := "approved by a person in place of a baseline"
		if held {
			by = "approved by a person, who knows what was found"
		}
		s.admit(append([]string{by, asked(e)}, l.Reasons...))
		return
	}
	s.ask("verification after approval")
	s.why("approved; a verification has to pass all that is required")
}

// override takes a person's decision against the measurements, until a time.
func (s *step) override(e Event) {
	switch {
	case e.Reason == "":
		s.refuse("an override needs a reason")
		return
	case !e.Until.After(s.now) || e.Until.After(s.now.Add(time.Duration(s.p.Override.Max))):
		s.refuse("an override ends within the next %s", s.p.Override.Max)
		return
	}
	o := &Override{Kind: e.Override, Until: e.Until, By: e.Actor, Reason: foreign.Line(e.Reason, maxText)}
	switch e.Override {
	case OverrideKeep:
		if !s.in(Admitted, Degraded) {
			s.refuse("it is %s; only a node in rotation is kept there", s.n.Admission)
			return
		}
		s.n.Override = o
		s.why("kept %s until %s", s.n.Admission, e.Until.UTC().Format(time.RFC3339))
	case OverrideOut:
		if s.n.Admission == Quarantined {
			s.refuse("it is quarantined already")
			return
		}
		s.n.Override = nil
		s.quarantine(CauseOverride, []string{"out until " + e.Until.UTC().Format(time.RFC3339), o.Reason})
		s.n.Override = o
		if s.n.Quarantine.Cause == CauseOverride {
			s.n.Quarantine.RetryAt = e.Until
		}
	default:
		s.refuse("%q is no override; use %s or %s", foreign.Line(e.Override, 40), OverrideKeep, OverrideOut)
	}
}

func (s *step) command(kind CommandKind, expires time.Time, e Event) {
	s.out.Commands = append(s.out.Commands, Command{
		ID: string(kind) + "-" + strconv.FormatInt(s.n.Version+1, 10), Kind: kind, Expires: expires, Why: asked(e),
	})
}

// asked is a person's reason in words.
func asked(e Event) string {
	if r := foreign.Line(e.Reason, maxText); r != "" {
		return r
	}
	return "a person asked for it"
}
