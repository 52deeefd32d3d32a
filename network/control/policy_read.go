package control

import (
	_ "embed" // the default policy
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/yamltext"
)

// DefaultFile is Default as a file, with remarks: a policy to begin with.
//
//go:embed default-policy.yaml
var DefaultFile []byte

// Bounds of a policy.
const (
	maxPolicy    = 1 << 20
	maxNames     = 256
	maxResults   = 1000
	maxSpan      = 366 * 24 * time.Hour
	maxHeartbeat = time.Hour
)

// ReadPolicy reads a policy file. All members have to be there: what is not said
// is no decision. Everything that is wrong is told at once, each fault as
// FILE:LINE:COLUMN where it has a place.
func ReadPolicy(r io.Reader, name string) (Policy, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxPolicy+1))
	if err != nil {
		return Policy{}, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > maxPolicy {
		return Policy{}, fmt.Errorf("read %s: it is longer than %d bytes, which no policy is", name, maxPolicy)
	}
	p := Policy{Trust: Default().Trust}
	tree, err := yamltext.Decode(b, &p)
	if err != nil {
		return Policy{}, fmt.Errorf("read %s: %w", name, err)
	}
	var faults []error
	for _, m := range members(reflect.TypeFor[Policy](), "") {
		if at(tree, m) == nil {
			faults = append(faults, fmt.Errorf("%s: %s is missing; docs/formats/policy.md has its default", name, m))
		}
	}
	if len(faults) > 0 {
		return Policy{}, errors.Join(faults...) // other faults would be about what is missing
	}
	for _, f := range p.faults() {
		faults = append(faults, fmt.Errorf("%s: %s: %s", place(tree, name, f.member), f.member, f.text))
	}
	if len(faults) > 0 {
		return Policy{}, errors.Join(faults...)
	}
	return p, nil
}

// members lists the paths of all members of a policy.
func members(of reflect.Type, prefix string) (out []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		switch name := f.Tag.Get("yaml"); {
		case name == "-" || strings.HasSuffix(name, ",omitempty"):
		case f.Type.Kind() == reflect.Struct:
			out = append(out, members(f.Type, prefix+name+".")...)
		default:
			out = append(out, prefix+name)
		}
	}
	return out
}

// at is where a member stands; nil: nowhere.
func at(tree *ast.File, member string) *token.Position {
	p, err := yaml.PathString("$." + member)
	if err != nil {
		return nil
	}
	node, err := p.FilterFile(tree)
	if err != nil || node == nil || node.GetToken() == nil {
		return nil
	}
	return node.GetToken().Position
}

// place is where a member stands, or else the first of its parents that does.
func place(tree *ast.File, name, member string) string {
	for m := member; m != ""; m = m[:max(0, strings.LastIndexByte(m, '.'))] {
		if at := at(tree, m); at != nil {
			return fmt.Sprintf("%s:%d:%d", name, at.Line, at.Column)
		}
	}
	return name
}

// Validate says what is wrong with a policy; nil: nothing.
func (p Policy) Validate() error {
	var out []error
	for _, f := range p.faults() {
		out = append(out, fmt.Errorf("%s: %s", f.member, f.text))
	}
	return errors.Join(out...)
}

type fault struct{ member, text string }

// faults lists everything that is wrong.
func (p Policy) faults() []fault {
	var c checker
	if p.Format != PolicyFormat {
		c.add("format", "it must be %s", PolicyFormat)
	}
	if p.Name == "" || len(p.Name) > maxName || !foreign.Plain(p.Name) {
		c.add("name", "give it a name of at most %d bytes", maxName)
	}
	if p.GPU != GPURequired && p.GPU != GPUNone {
		c.add("gpu", "it is %s or %s", GPURequired, GPUNone)
	}
	p.checkNames(&c)
	p.checkScores(&c)
	p.checkCounts(&c)
	p.checkTimes(&c)
	p.checkTrust(&c)
	p.checkAnomalies(&c)
	return c.faults
}

type checker struct{ faults []fault }

func (c *checker) add(member, format string, args ...any) {
	c.faults = append(c.faults, fault{member, fmt.Sprintf(format, args...)})
}

var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,79}$`)

func (c *checker) names(member string, names []string) {
	if len(names) > maxNames {
		c.add(member, "it has more than %d names", maxNames)
		return
	}
	for i, n := range names {
		switch {
		case !plainName.MatchString(n):
			c.add(member, "%q is no name of a check, finding or anomaly", foreign.Line(n, 40))
		case slices.Contains(names[:i], n):
			c.add(member, "%s is named twice", n)
		}
	}
}

func (c *checker) share(member string, v float64) {
	if !(v > 0 && v <= 1) {
		c.add(member, "it is %v, and must be above 0 and at most 1", v)
	}
}

func (c *checker) between(member string, v, low, high int) {
	if v < low || v > high {
		c.add(member, "it is %d, and must be from %d to %d", v, low, high)
	}
}

func (c *checker) span(member string, d assay.Duration, high time.Duration) {
	if d < assay.Duration(time.Second) || d > assay.Duration(high) {
		c.add(member, "it is %s, and must be from 1s to %s", d, high)
	}
}

func (p Policy) checkNames(c *checker) {
	c.names("checks.gpu", p.Checks.GPU)
	c.names("checks.engine", p.Checks.Engine)
	c.names("checks.host", p.Checks.Host)
	c.names("hard_failures", p.HardFailures)
	c.names("resets", p.Resets)
	if i := slices.IndexFunc(p.HardFailures, bystander); i >= 0 {
		c.add("hard_failures", "%s is about a node that did nothing: anybody could take it out by claiming what it has", p.HardFailures[i])
	}
	if p.GPU == GPURequired && len(p.Checks.GPU) == 0 {
		c.add("checks.gpu", "name at least one check, or write gpu: none")
	}
	if len(p.Checks.Engine)+len(p.Checks.Host) == 0 {
		c.add("checks", "name at least one check of engine or host: else a node without a GPU is admitted by nothing")
	}
}

func (p Policy) checkScores(c *checker) {
	s := p.Score
	c.share("score.admit", s.Admit)
	c.share("score.degrade", s.Degrade)
	c.share("score.quarantine", s.Quarantine)
	c.share("score.starting", s.Starting)
	if !(s.Admit > s.Degrade) {
		c.add("score.admit", "it must be above degrade: else a node at the threshold goes up and down with every report")
	}
	if !(s.Degrade >= s.Quarantine) {
		c.add("score.degrade", "it must be at least quarantine")
	}
	c.share("breaker.share", p.Breaker.Share)
	c.share("silence.share", p.Silence.Share)
}

func (p Policy) checkCounts(c *checker) {
	c.between("newcomer.min_peers", p.Newcomer.MinPeers, 1, maxResults)
	c.between("results.bad", p.Results.Bad, 1, maxResults)
	c.between("results.good", p.Results.Good, 1, maxResults)
	c.between("results.unknown", p.Results.Unknown, 1, maxResults)
	c.between("flaps.limit", p.Flaps.Limit, 1, maxFlaps)
	c.between("readmission.steps", p.Readmission.Steps, 0, 100)
	c.between("silence.missed", p.Silence.Missed, graceBeats, 100)
}

func (p Policy) checkTimes(c *checker) {
	c.span("flaps.window", p.Flaps.Window, maxSpan)
	c.span("verification.timeout", p.Verification.Timeout, maxSpan)
	c.span("verification.retry", p.Verification.Retry, maxSpan)
	c.span("verification.max_age", p.Verification.MaxAge, maxSpan)
	c.span("verification.min_interval", p.Verification.MinInterval, maxSpan)
	c.span("quarantine.retry", p.Quarantine.Retry, maxSpan)
	c.span("quarantine.max_retry", p.Quarantine.MaxRetry, maxSpan)
	c.span("readmission.every", p.Readmission.Every, maxSpan)
	c.span("override.max", p.Override.Max, maxSpan)
	c.span("drain.deadline", p.Drain.Deadline, maxSpan)
	c.span("drain.max", p.Drain.Max, maxSpan)
	c.span("silence.heartbeat", p.Silence.Heartbeat, maxHeartbeat)
	c.span("silence.verify_after", p.Silence.VerifyAfter, maxSpan)
	if p.Drain.Deadline > p.Drain.Max {
		c.add("drain.deadline", "it must be at most max")
	}
	if p.Quarantine.Retry > p.Quarantine.MaxRetry {
		c.add("quarantine.retry", "it must be at most max_retry")
	}
	if p.Verification.Timeout > p.Verification.MaxAge {
		c.add("verification.timeout", "it must be at most max_age: else a verification is too old before it is late")
	}
}

func (p Policy) checkTrust(c *checker) {
	c.names("trust.require", p.Trust.Require)
	c.span("trust.every", p.Trust.Every, maxSpan)
	c.span("trust.max_age", p.Trust.MaxAge, maxSpan)
	c.share("trust.slower", p.Trust.Slower)
	if p.Trust.Every > p.Trust.MaxAge {
		c.add("trust.every", "it must be at most max_age: else each pass is too old before the next look")
	}
}

func (p Policy) checkAnomalies(c *checker) {
	if len(p.Anomalies) > maxNames {
		c.add("anomalies", "it has more than %d kinds", maxNames)
		return
	}
	if len(p.Anomalies[anyAnomaly]) == 0 {
		c.add("anomalies", "say under %s what an anomaly that is not named triggers; at least note", anyAnomaly)
	}
	for _, kind := range slices.Sorted(maps.Keys(p.Anomalies)) {
		if !plainName.MatchString(kind) {
			c.add("anomalies", "%q is no name of an anomaly", foreign.Line(kind, 40))
			continue
		}
		for i, a := range p.Anomalies[kind] {
			switch {
			case !slices.Contains([]Action{ActionNote, ActionReverify, ActionDegrade, ActionQuarantine, ActionPage, ActionHold}, a):
				c.add("anomalies."+kind, "%q is none of note, re-verify, degrade, quarantine, page, hold", foreign.Line(a, 40))
			case bystander(kind) && a != ActionNote && a != ActionPage:
				c.add("anomalies."+kind, "only note and page may follow: the node did nothing, and anybody could take it out by claiming what it has")
			case slices.Contains(p.Anomalies[kind][:i], a):
				c.add("anomalies."+kind, "%s is named twice", a)
			}
		}
	}
}
