package control

import (
	"fmt"

	"github.com/assay-bench/assay/internal/foreign"
)

// Admission says what measurements made of a node.
type Admission string

// The values of admission.
const (
	Pending     Admission = "pending"      // enrolled, not verified; or waits for approval
	Verifying   Admission = "verifying"    // its first verification is under way
	Admitted    Admission = "admitted"     // verified, in rotation
	Degraded    Admission = "degraded"     // in rotation, below what is expected of it
	Quarantined Admission = "quarantined"  // out of rotation; only re-verification leads back
	Reverifying Admission = "re-verifying" // out of rotation, on the way back
)

// Intent says what people want of a node.
type Intent string

// The values of intent.
const (
	Serve    Intent = "serve"
	Draining Intent = "draining" // gets nothing new, what is running ends
	Drained  Intent = "drained"
	Retired  Intent = "retired" // for good
)

// Contact says whether a node is heard.
type Contact string

// The values of contact.
const (
	Seen   Contact = "seen"
	Silent Contact = "silent"
)

// Valid says whether a is a value that this version knows.
func (a Admission) Valid() bool {
	switch a {
	case Pending, Verifying, Admitted, Degraded, Quarantined, Reverifying:
		return true
	}
	return false
}

// Valid says whether i is a value that this version knows.
func (i Intent) Valid() bool {
	switch i {
	case Serve, Draining, Drained, Retired:
		return true
	}
	return false
}

// Valid says whether c is a value that this version knows.
func (c Contact) Valid() bool { return c == Seen || c == Silent }

// UnmarshalText refuses values that this version does not know, so that one of a
// later version is never taken for one of ours.
func (a *Admission) UnmarshalText(b []byte) error { return parse(a, "admission", b) }

// UnmarshalText refuses values that this version does not know.
func (i *Intent) UnmarshalText(b []byte) error { return parse(i, "intent", b) }

// UnmarshalText refuses values that this version does not know.
func (c *Contact) UnmarshalText(b []byte) error { return parse(c, "contact", b) }

func parse[T interface {
	~string
	Valid() bool
}](to *T, fact string, b []byte) error {
	v := T(b)
	if !v.Valid() {
		return fmt.Errorf("%q is no value of %s", foreign.Line(b, 40), fact)
	}
	*to = v
	return nil
}

// Facts are the three independent facts about a node or a replica.
type Facts struct {
	Admission Admission `json:"admission"`
	Intent    Intent    `json:"intent"`
	Contact   Contact   `json:"contact"`
}

// Valid says whether all three are values that this version knows.
func (f Facts) Valid() bool { return f.Admission.Valid() && f.Intent.Valid() && f.Contact.Valid() }

// Routable says whether a node may be given requests, and why or why not.
func Routable(f Facts) (ok bool, why string) {
	switch {
	case !f.Valid():
		return false, "its state is not known to this version"
	case f.Admission != Admitted && f.Admission != Degraded:
		return false, "it is " + string(f.Admission)
	case f.Intent != Serve:
		return false, "it is " + string(f.Intent)
	case f.Contact != Seen:
		return false, "it is silent"
	case f.Admission == Degraded:
		return true, "it is degraded, and still useful"
	}
	return true, "it is admitted, serves and is seen"
}

// RoutableReplica says whether a replica may be given requests, and why or why
// not: it is in rotation itself, and its node is. So whatever takes a node out
// takes its replicas with it, without a transition of theirs.
func RoutableReplica(node, replica Facts) (ok bool, why string) {
	if ok, why := Routable(node); !ok {
		return false, "its node is not routed: " + why
	}
	return Routable(replica)
}
