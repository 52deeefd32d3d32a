package control

import (
	"slices"
	"strings"
	"time"
)

// maxAhead is how far a report may begin in the future: what clocks may differ by.
const maxAhead = time.Minute

// report judges a report, remembers it, and moves the node by it.
func (s *step) report(m *Measured) {
	if m == nil {
		s.refuse("a report without what was measured")
		return
	}
	j := Judge(s.p, *m)
	s.out.Judgement = &j
	if why := s.passedOver(*m, j); why != "" {
		s.why("the report does not count: %s", why)
		return
	}
	verification := s.answers(*m)
	if verification {
		s.n.Verification.Deadline, s.n.AskAgain = time.Time{}, time.Time{}
	}
	s.n.Last = &LastReport{
		Run: m.Run, Began: m.Began, Grade: j.Grade, Lower: j.Lower, Basis: j.Basis,
		Reasons: bounded(j.Reasons), PolicyVersion: s.p.Version,
	}
	s.resets(*m)
	grade, reasons := s.weigh(j)
	if grade != GradeUnknown && grade != GradeUnbased {
		s.n.LastJudged = m.Began
	}
	s.why("%s: %s", grade, strings.Join(reasons, "; "))
	switch s.n.Admission {
	case Pending, Verifying:
		s.newcomer(grade, reasons, verification)
	case Admitted, Degraded:
		s.result(grade, reasons)
	case Quarantined:
		if grade == GradeHard {
			s.harden(CauseHard, strings.Join(reasons, "; "))
		}
		s.why("%s, and only a re-verification leads out of quarantine", grade)
	case Reverifying:
		s.returning(grade, reasons, verification)
	}
}

// weigh brings in what is known of the node beside the report: a person's
// approval stands for a baseline, and a starting score does not for one that was
// in rotation. Else a slow node would serve a model that nobody knows, and be
// compared with nothing.
func (s *step) weigh(j Judgement) (Grade, []string) {
	starting := j.Grade == GradeGood && j.Basis == BasisCatalogue && s.n.Member
	switch {
	case s.n.Approval != nil && (starting || j.Grade == GradeUnbased):
		return GradeGood, append(slices.Clone(j.Reasons), "approved by a person in place of a baseline")
	case starting:
		return GradeFair, append(slices.Clone(j.Reasons), "a starting score leads up newcomers only")
	}
	return j.Grade, j.Reasons
}

// passedOver says why a report does not count; empty: it does.
func (s *step) passedOver(m Measured, j Judgement) string {
	switch {
	case m.Began.IsZero():
		return "it does not say when it began"
	case m.Began.After(s.now.Add(maxAhead)):
		return "it began in the future"
	case s.n.Last != nil && !m.Began.After(s.n.Last.Began):
		return "a later one has counted"
	case s.now.Sub(m.Began) > time.Duration(s.p.Verification.MaxAge) && j.Grade != GradeHard:
		return "it is older than " + s.p.Verification.MaxAge.String()
	}
	return ""
}

// answers says whether a report is the verification that was asked for.
func (s *step) answers(m Measured) bool {
	v := s.n.Verification
	return v != nil && m.Began.After(v.Asked) && (m.Answers == "" || m.Answers == v.ID)
}

// resets tells who can reset a GPU that one asks for it.
func (s *step) resets(m Measured) {
	for _, f := range m.Found {
		if slices.Contains(s.p.Resets, f.Rule) && known(f.Verdict) > 1 {
			s.notice(NoticeReset, KeyReset, "asks for a reset: %s", f.Rule)
			return
		}
	}
}

// newcomer decides on a node that was never admitted, or waits for approval.
func (s *step) newcomer(grade Grade, reasons []string, verification bool) {
	if grade == GradeHard {
		s.quarantine(CauseHard, reasons)
		return
	}
	if !verification {
		s.why("the report does not count: it began before the verification was asked for")
		return
	}
	held := s.held()
	switch grade {
	case GradeGood:
		if held == nil {
			s.admit(reasons)
			return
		}
		s.n.AskAgain = s.now.Add(time.Duration(s.p.Verification.MaxAge))
		s.why("good, and %s", held[0])
	case GradeSevere, GradePoor, GradeFair:
		s.quarantineSoft(reasons)
		return
	case GradeUnbased:
		s.n.AskAgain = s.now.Add(time.Duration(s.p.Verification.MaxAge))
		s.notice(NoticeTicket, KeyApproval, "has no baseline, and waits for approval: %s", strings.Join(reasons, "; "))
	default:
		s.n.AskAgain = s.now.Add(time.Duration(s.p.Verification.Retry))
	}
	reasons = append(held, reasons...)
	s.n.Reasons = bounded(reasons)
	if s.n.Admission == Verifying {
		s.moveTo(Pending, reasons)
	}
}

// returning decides on a node that is on its way back.
func (s *step) returning(grade Grade, reasons []string, verification bool) {
	switch {
	case grade == GradeHard:
		s.quarantine(CauseHard, reasons)
	case !verification:
		s.why("the report does not count: it began before the re-verification was asked for")
	case grade == GradeGood:
		s.admit(reasons)
	default:
		s.quarantineSoft(reasons)
	}
}

// result counts a report of a node in rotation, and moves it when there are
// enough of a kind.
func (s *step) result(grade Grade, reasons []string) {
	n := &s.n
	if grade == GradeHard {
		s.quarantine(CauseHard, reasons)
		return
	}
	probation := grade == GradeSevere && n.ReadmissionStep > 0
	s.tally(grade)
	switch bad := max(1, s.p.Results.Bad); {
	case n.Severe >= bad || probation:
		s.quarantineSoft(reasons)
	case n.Admission == Admitted && n.Bad >= bad:
		s.degrade(reasons)
	case grade == GradeUnknown || grade == GradeUnbased:
		s.unknown(reasons)
	case n.Admission == Degraded && n.Good >= max(1, s.p.Results.Good):
		if s.held() == nil && !s.kept() && !s.flapping() {
			s.admit(reasons)
		}
	case grade == GradeGood:
		s.advance()
	}
}

func (s *step) tally(grade Grade) {
	n := &s.n
	more := func(c *int) { *c = min(max(0, *c)+1, maxCount) }
	if grade != GradeGood {
		n.Good = 0
	}
	switch grade {
	case GradeSevere:
		more(&n.Bad)
		more(&n.Severe)
	case GradePoor:
		more(&n.Bad)
		n.Severe = 0
	case GradeFair:
		n.Bad, n.Severe = 0, 0
	case GradeGood:
		more(&n.Good)
		n.Bad, n.Severe = 0, 0
	default:
		more(&n.Unknown)
		return
	}
	n.Unknown = 0
}

// unknown moves a node that can no longer be judged.
func (s *step) unknown(reasons []string) {
	often := max(1, s.p.Results.Unknown)
	switch {
	case s.n.Admission == Admitted && s.n.Unknown >= often:
		s.degrade(reasons)
	case s.n.Admission == Degraded && s.n.Unknown/2 >= often:
		s.quarantineSoft(reasons)
	}
}

// advance takes the next step of re-admission.
func (s *step) advance() {
	n := &s.n
	if n.ReadmissionStep <= 0 || s.now.Sub(n.StepSince) < time.Duration(s.p.Readmission.Every) {
		return
	}
	n.ReadmissionStep, n.StepSince = n.ReadmissionStep+1, s.now
	if n.ReadmissionStep > s.p.Readmission.Steps {
		n.ReadmissionStep, n.StepSince = 0, time.Time{}
	}
}
