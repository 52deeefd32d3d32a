package routing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// Answers of the agent check. After a drain only "ready" restores and after a down
// only "up": so who gets requests is told both, every time.
const (
	answerDrain = "drain\n"
	answerDown  = "down\n"
	answerReady = "ready up %d%%\n"
)

func readPolicy(row store.Policy) (control.Policy, error) {
	p, err := control.ReadPolicy(bytes.NewReader(row.Bytes), fmt.Sprintf("policy %d", row.Version))
	if err != nil {
		return p, fmt.Errorf("the policy in force cannot be read by this version: %w", err)
	}
	p.Version = row.Version
	return p, nil
}

// readStates reads the states that have changed. A replica with reports of its own
// is weighed by the last of them; the node's may be of another replica.
func (t *Table) readStates(rows []store.Route) {
	states := make(map[string]state, len(rows))
	for i := range rows {
		r := &rows[i]
		st, known := t.states[r.ID]
		if !known || st.node != r.NodeFacts.Version || st.replica != r.ReplicaFacts.Version {
			st = stateOfRoute(*r)
		}
		states[r.ID] = st
		if st.last != nil {
			r.LastReport, r.ScoreLow = st.last.Run, st.last.Lower
		}
	}
	t.states = states
}

// make weighs what was read.
func (t *Table) make(at time.Time, rows []store.Route) *snapshot {
	s := &snapshot{at: at, targets: make([]Target, 0, len(rows)), answers: make(map[string]string, len(rows))}
	models := map[string][]int{} // places in targets
	joints := make([]control.Node, 0, len(rows))
	for _, r := range rows {
		joint := t.states[r.ID].joint
		if r.EngineDown {
			joint.Contact = control.Silent
		}
		target := Target{Route: r, Contact: joint.Contact, Member: joint.Member, Rotation: control.RotationOf(joint), Figures: t.reports[r.LastReport]}
		target.NodeFacts.State, target.ReplicaFacts.State = nil, nil
		var err error
		if target.Address, err = control.ParseServing(r.ServingURL); err != nil {
			target.Rotation, target.Why = control.RotationDown, err.Error()
		} else if ok, why := control.Trusted(t.policy, r.Proofs, r.ServingURL, at); !ok {
			target.Untrusted, target.Why = why, why
			if target.Rotation == control.RotationReady {
				target.Rotation = control.RotationDrain
			}
		} else {
			models[r.Model] = append(models[r.Model], len(s.targets))
		}
		s.targets = append(s.targets, target)
		joints = append(joints, joint)
	}
	for _, places := range models {
		candidates := make([]control.Candidate, len(places))
		for i, p := range places {
			target := s.targets[p]
			capacity, load := target.Figures.load()
			candidates[i] = control.Candidate{State: joints[p], Lower: target.ScoreLow, Capacity: capacity, Load: load}
		}
		for i, w := range control.Weigh(t.policy, candidates) {
			s.targets[places[i]].Weighed = w
		}
	}
	for _, target := range s.targets {
		s.answers[target.ID] = answer(target)
	}
	return s
}

func answer(t Target) string {
	switch {
	case t.Rotation == control.RotationReady && t.Weight > 0:
		return fmt.Sprintf(answerReady, t.Weight)
	case t.Rotation == control.RotationDrain:
		return answerDrain
	}
	return answerDown
}

// stateOfRoute is the state that counts for a replica. One that cannot be read is of
// a node that nobody knows.
func stateOfRoute(r store.Route) state {
	st := state{node: r.NodeFacts.Version, replica: r.ReplicaFacts.Version}
	node, err := stateOf(r.NodeFacts)
	if err != nil {
		return st
	}
	r.ReplicaFacts.Contact = r.NodeFacts.Contact // one agent speaks for all of a node's
	replica, err := stateOf(r.ReplicaFacts)
	if err != nil {
		return st
	}
	st.joint, st.last = control.Joint(node, replica), replica.Last
	return st
}

// stateOf is a state with the facts of its row.
func stateOf(f store.Facts) (control.Node, error) {
	var n control.Node
	if err := json.Unmarshal(f.State, &n); err != nil {
		return n, err
	}
	n.Facts = control.Facts{Admission: control.Admission(f.Admission), Intent: control.Intent(f.Intent), Contact: control.Contact(f.Contact)}
	return n, nil
}
