package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

// Limits of a policy.
const (
	maxPolicy      = 64 << 10
	maxPolicyLines = 1000
)

// Policy says which logs are trusted, and which witnesses must have seen a
// checkpoint before it counts. Its text is that of docs/formats/log.md, which
// Sigsum and Tessera read too. The zero Policy trusts nobody.
type Policy struct {
	raw       []byte
	logs      []vkey
	witnesses []witness
	groups    map[string]group // by name; a single witness is in none
	quorum    string           // a group or a witness; empty: none is asked for
}

type witness struct {
	name string // in the policy; the key has a name of its own
	key  vkey
}

type group struct {
	k       int
	members []string
}

// ErrPolicy marks a text that is no policy, or one that would count something
// twice.
var ErrPolicy = errors.New("not a policy")

// ParsePolicy reads a policy. What Tessera and this reader would understand
// differently is refused.
func ParsePolicy(text []byte) (Policy, error) {
	if len(text) > maxPolicy {
		return Policy{}, fmt.Errorf("%w: it has %d bytes; at most %d are allowed", ErrPolicy, len(text), maxPolicy)
	}
	if !utf8.Valid(text) {
		return Policy{}, fmt.Errorf("%w: it is not UTF-8 text", ErrPolicy)
	}
	p := Policy{raw: bytes.Clone(text), groups: map[string]group{}}
	seen := false // the quorum
	lines := 0
	for line := range strings.Lines(string(text)) {
		lines++
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		err := p.line(f, &seen)
		switch {
		case lines > maxPolicyLines:
			err = fmt.Errorf("more than %d lines", maxPolicyLines)
		case err == nil && strings.Contains(line, "#"):
			err = errors.New("a comment needs a line of its own")
		}
		if err != nil {
			return Policy{}, fmt.Errorf("%w: line %d: %w", ErrPolicy, lines, err)
		}
	}
	switch {
	case len(p.logs) == 0:
		return Policy{}, fmt.Errorf("%w: it names no log; write a line: log VKEY", ErrPolicy)
	case !seen:
		return Policy{}, fmt.Errorf("%w: it has no quorum; write a line: quorum NAME, or quorum none", ErrPolicy)
	}
	return p, nil
}

func (p *Policy) line(f []string, seen *bool) error {
	switch f[0] {
	case "log":
		if len(f) < 2 || len(f) > 3 {
			return errors.New("write: log VKEY [URL]")
		}
		k, err := parseVKey(f[1], noteEd25519)
		if err != nil {
			return err
		}
		for _, o := range p.logs {
			if o.name == k.name {
				return fmt.Errorf("the log %q is there twice", k.name)
			}
		}
		p.logs = append(p.logs, k)
		return p.distinct()
	case "witness":
		if len(f) < 3 || len(f) > 4 {
			return errors.New("write: witness NAME VKEY [URL]")
		}
		if err := p.fresh(f[1]); err != nil {
			return err
		}
		k, err := parseVKey(f[2], noteCosignature)
		if err != nil {
			return err
		}
		p.witnesses = append(p.witnesses, witness{f[1], k})
		return p.distinct()
	case "group":
		return p.group(f)
	case "quorum":
		switch {
		case len(f) != 2:
			return errors.New("write: quorum NAME, or quorum none")
		case *seen:
			return errors.New("there is a quorum already")
		case f[1] != "none" && !p.known(f[1]):
			return fmt.Errorf("the quorum %q is no witness and no group of a line before", f[1])
		}
		*seen = true
		if f[1] != "none" {
			p.quorum = f[1]
		}
		return nil
	}
	return fmt.Errorf("unknown word %q; known are log, witness, group, quorum", f[0])
}

func (p *Policy) group(f []string) error {
	if len(f) < 4 {
		return errors.New("write: group NAME K MEMBER…, with K a number, all or any")
	}
	if err := p.fresh(f[1]); err != nil {
		return err
	}
	g := group{members: f[3:]}
	for i, m := range g.members {
		if !p.known(m) {
			return fmt.Errorf("group %q: %q is no witness and no group of a line before", f[1], m)
		}
		if slices.Contains(g.members[:i], m) {
			return fmt.Errorf("group %q: %q is in it twice and would count twice", f[1], m)
		}
	}
	switch f[2] {
	case "any":
		g.k = 1
	case "all":
		g.k = len(g.members)
	default:
		k, err := strconv.ParseUint(f[2], 10, 8)
		if err != nil || k < 1 || int(k) > len(g.members) {
			return fmt.Errorf("group %q: %q of %d members is not possible", f[1], f[2], len(g.members))
		}
		g.k = int(k)
	}
	p.groups[f[1]] = g
	return nil
}

// fresh refuses a name that cannot be given.
func (p *Policy) fresh(name string) error {
	switch name {
	case "log", "witness", "group", "quorum", "all", "any", "none":
		return fmt.Errorf("%q is a word of the policy and no name", name)
	}
	if p.known(name) {
		return fmt.Errorf("the name %q is given twice", name)
	}
	return nil
}

func (p *Policy) known(name string) bool {
	_, ok := p.groups[name]
	return ok || slices.ContainsFunc(p.witnesses, func(w witness) bool { return w.name == name })
}

// distinct refuses one key under two names: it would be counted twice, and a
// log that is its own witness has been seen by nobody else.
func (p *Policy) distinct() error {
	seen := map[string]string{}
	for _, k := range p.keys() {
		if other, twice := seen[string(k.pub)]; twice {
			return fmt.Errorf("%q and %q are the same key, which would count twice", other, k.name)
		}
		seen[string(k.pub)] = k.name
	}
	return nil
}

func (p *Policy) keys() []vkey {
	all := slices.Clone(p.logs)
	for _, w := range p.witnesses {
		all = append(all, w.key)
	}
	return all
}

// MarshalText is the policy as it was read: Tessera's NewWitnessGroupFromPolicy
// takes it, if each witness has a URL.
func (p Policy) MarshalText() ([]byte, error) { return bytes.Clone(p.raw), nil }

// LogVerifiers check what the policy's logs sign.
func (p Policy) LogVerifiers() []note.Verifier {
	var out []note.Verifier
	for _, k := range p.logs {
		out = append(out, k)
	}
	return out
}

// met reports whether the quorum is kept by the witnesses that have signed.
func (p Policy) met(name string, signed map[string]bool) bool {
	g, ok := p.groups[name]
	if !ok {
		return name == "" || signed[name]
	}
	n := 0
	for _, m := range g.members {
		if p.met(m, signed) {
			n++
		}
	}
	return n >= g.k
}

// shortfall says in words how much of the quorum there is.
func (p Policy) shortfall(signed map[string]bool) string {
	g, ok := p.groups[p.quorum]
	if !ok {
		return fmt.Sprintf("0 of the 1 that is asked for (%s)", p.quorum)
	}
	n := 0
	for _, m := range g.members {
		if p.met(m, signed) {
			n++
		}
	}
	return fmt.Sprintf("%d of the %d that are asked for, among %d (%s)", n, g.k, len(g.members), strings.Join(g.members, ", "))
}
