package hammer

import (
	"fmt"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/proc"
)

// Priority is how the client competes for processors with an engine on the same
// machine. Children of the process never inherit it.
type Priority string

// The priorities. Empty is normal.
const (
	PriorityNormal Priority = "normal"
	// PriorityHigh is a nice value of −10 where that is permitted, else normal.
	PriorityHigh Priority = "high"
	// PriorityRealtime is before everything else on the machine, and could starve
	// the engine: a limit takes it away from a client that never waits.
	PriorityRealtime Priority = "realtime"
)

// raise gives the process its priority until lower is called, and says what it
// got.
func (r *run) raise() (got assay.Client, lower func()) {
	asked := proc.Level(r.cfg.Priority)
	if asked == "" {
		asked = proc.LevelNormal
	}
	r.demoted = make(chan proc.Standing, 1)
	s, lower := proc.Raise(asked, func(s proc.Standing) {
		select {
		case r.demoted <- s:
		default: // one is told
		}
	})
	if asked == proc.LevelRealtime && s.Why != "" {
		r.node.notes = append(r.node.notes, fmt.Sprintf("--priority realtime: the client runs at %s priority: %s", s.Level, s.Why))
	}
	return assay.Client{Priority: string(s.Level), Nice: s.Nice, SessionNice: s.Session, Why: s.Why}, lower
}

// sayDemoted records that the priority was taken away, if it was.
func (r *run) sayDemoted() {
	select {
	case s := <-r.demoted:
		r.event(assay.EventWarning, "", fmt.Sprintf("the client runs at %s priority from now on: %s", s.Level, s.Why), nil)
	default:
	}
}
