package claims

import (
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/yamltext"
)

// Suite is a claims file whose every name has been resolved.
type Suite struct {
	Name   string  `json:"name"`
	File   string  `json:"file"` // as it was named
	Claims []Claim `json:"claims"`
	// Probes are those that are measured: the claims' and those of "measure", a
	// family after the other, in the file's order.
	Probes []Probe `json:"-"`
	// Plans are how long probes are measured, by their name, where the file says so.
	Plans map[string]Plan `json:"-"`
	// Requires is what the promises take for granted.
	Requires Requirements `json:"-"`
}

// Claim is one promise.
type Claim struct {
	Name   string  `json:"name"`
	Probe  string  `json:"probe"`
	Metric string  `json:"metric"`
	Target Target  `json:"target"`         // decides
	Goal   *Target `json:"goal,omitempty"` // is reported
	Line   int     `json:"line,omitempty"`

	figure figure
	wrote  spot // where the target stands
}

type claimsFile struct {
	Name     string       `yaml:"name"`
	Claims   []claimLine  `yaml:"claims"`
	Measure  []string     `yaml:"measure"`
	Commands []declared   `yaml:"commands"`
	Plans    []planLine   `yaml:"probes"`
	Requires requireLines `yaml:"requires"`
}

type claimLine struct {
	Name   string `yaml:"name"`
	Probe  string `yaml:"probe"`
	Metric string `yaml:"metric"`
	Target string `yaml:"target"`
	Goal   string `yaml:"goal"`
}

// Bounds of a file.
const (
	maxFileBytes = 1 << 20
	maxClaims    = 1000
	maxCommands  = 100
)

// Catalog is what a claims file may name.
type Catalog struct {
	Probes []Probe
	// Command makes a probe of a command that the file declares (see
	// host.Command); nil: a file that declares one is refused.
	Command func(Command) Probe
}

// Read reads a claims file. It may name the probes of the catalog and the
// commands that it declares. Everything that is wrong with the file is told at
// once, each fault as FILE:LINE:COLUMN.
func Read(r io.Reader, name string, catalog Catalog) (Suite, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return Suite{}, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > maxFileBytes {
		return Suite{}, fmt.Errorf("read %s: it is longer than %d bytes, which no list of claims is", name, maxFileBytes)
	}
	var file claimsFile
	tree, err := yamltext.Decode(b, &file)
	if err != nil {
		return Suite{}, yamlError(name, err)
	}
	rd := reading{name: name, tree: tree, suite: Suite{Name: file.Name, File: name}, known: slices.Clone(catalog.Probes)}
	rd.commands(file.Commands, catalog.Command)
	rd.claims(file.Claims)
	rd.measure(file.Measure)
	rd.plans(file.Plans)
	rd.requires(file.Requires)
	if len(rd.faults) > 0 {
		return Suite{}, errors.Join(rd.faults...)
	}
	if rd.suite.Name == "" {
		rd.suite.Name = strings.TrimSuffix(path.Base(name), path.Ext(name))
	}
	rd.suite.Probes = byFamily(rd.suite.Probes)
	return rd.suite, nil
}

// yamlError writes the library's errors as all others are.
func yamlError(name string, err error) error {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &located) {
		if t := located.GetToken(); t != nil && t.Position != nil {
			message := located.GetMessage()
			var kind *yaml.TypeError
			if errors.As(err, &kind) { // its own words are about our Go types
				message = fmt.Sprintf("%q is not %s", foreign.Line(t.Value, 60), yamlKind(kind.DstType.Kind()))
			}
			return fmt.Errorf("%s:%d:%d: %s", name, t.Position.Line, t.Position.Column, message)
		}
	}
	return fmt.Errorf("read %s: %w", name, err)
}

// yamlKind is what a member must be, in words of YAML.
func yamlKind(k reflect.Kind) string {
	switch k {
	case reflect.Int:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "a group of members (NAME: VALUE)"
	}
	return "of the kind that stands here"
}

// span is a time in the file.
type span time.Duration

// UnmarshalYAML takes the node, so that the error has its place.
func (s *span) UnmarshalYAML(n ast.Node) error {
	text := n.GetToken().Value
	d, err := time.ParseDuration(text)
	if err != nil {
		return &yaml.SyntaxError{Token: n.GetToken(), Message: fmt.Sprintf("%q is not a time; write a number and its unit, for example 500ms, 5s or 1m30s", foreign.Line(text, 60))}
	}
	*s = span(d)
	return nil
}

// reading is a file under way to a suite.
type reading struct {
	name   string
	tree   *ast.File
	suite  Suite
	known  []Probe
	faults []error
}

// fault is something wrong at a path such as claims[1].target, some bytes into
// its text. Where the path does not lead anywhere its parent's place is given.
func (r *reading) fault(place string, offset int, text string) {
	for p := place; p != ""; p = p[:max(0, strings.LastIndexAny(p, ".["))] {
		at := r.at(p)
		if at == nil {
			offset = 0
			continue
		}
		if at.Type == token.SingleQuoteType || at.Type == token.DoubleQuoteType {
			offset++
		}
		r.faults = append(r.faults, fmt.Errorf("%s:%d:%d: %s", r.name, at.Position.Line, at.Position.Column+offset, text))
		return
	}
	r.faults = append(r.faults, fmt.Errorf("%s: %s", r.name, text))
}

func (r *reading) at(place string) *token.Token {
	p, err := yaml.PathString("$." + place)
	if err != nil {
		return nil
	}
	node, err := p.FilterFile(r.tree)
	if err != nil || node == nil {
		return nil
	}
	at := node.GetToken()
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		at = m.Values[0].Key.GetToken()
	}
	if at == nil || at.Position == nil {
		return nil
	}
	return at
}

func (r *reading) commands(all []declared, toProbe func(Command) Probe) {
	if toProbe == nil && len(all) > 0 {
		r.fault("commands", 0, "commands cannot be run here")
		return
	}
	if len(all) > maxCommands {
		r.fault("commands", 0, fmt.Sprintf("%d commands; %d are the most", len(all), maxCommands))
		return
	}
	for i, d := range all {
		place := fmt.Sprintf("commands[%d]", i)
		switch {
		case d.Name == "" || strings.ContainsAny(d.Name, "/ \t\n"):
			r.fault(place+".name", 0, "a command needs a name without spaces and slashes")
		case r.find("command/"+d.Name) != nil:
			r.fault(place+".name", 0, fmt.Sprintf("there are two commands named %s", foreign.Line(d.Name, 60)))
		case len(d.Command) == 0 || d.Command[0] == "":
			r.fault(place+".command", 0, "command is a list: a program and its arguments; there is no shell")
		case d.Unit == "":
			r.fault(place+".unit", 0, "a command's unit must be said: s, 1/s, bytes, bytes/s, ratio, or a word of your own")
		case d.Better != "lower" && d.Better != "higher" && d.Better != "neither":
			r.fault(place+".better", 0, fmt.Sprintf("better is lower, higher or neither, not %q", foreign.Line(d.Better, 60)))
		case d.Parse != "" && d.Parse != "number" && (!strings.HasPrefix(d.Parse, "json:") || d.Parse == "json:"):
			r.fault(place+".parse", 0, fmt.Sprintf("parse is number or json:FIELD, not %q", foreign.Line(d.Parse, 60)))
		case d.Timeout < 0:
			r.fault(place+".timeout", 0, "a timeout cannot be negative")
		default:
			r.known = append(r.known, d.probe(toProbe))
		}
	}
}

func (r *reading) find(name string) *Probe {
	i := slices.IndexFunc(r.known, func(p Probe) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &r.known[i]
}

func (r *reading) claims(all []claimLine) {
	switch {
	case len(all) == 0:
		r.fault("claims", 0, "there are no claims: a file needs at least one")
	case len(all) > maxClaims:
		r.fault("claims", 0, fmt.Sprintf("%d claims; %d are the most", len(all), maxClaims))
		return
	}
	names := map[string]bool{}
	for i, line := range all {
		place := fmt.Sprintf("claims[%d]", i)
		if line.Name == "" {
			r.fault(place, 0, "a claim needs a name")
		} else if names[line.Name] {
			r.fault(place+".name", 0, fmt.Sprintf("there are two claims named %q", foreign.Line(line.Name, 60)))
		}
		names[line.Name] = true
		p := r.find(line.Probe)
		if p == nil {
			r.fault(place+".probe", 0, r.noProbe(line.Probe))
			continue
		}
		c := Claim{Name: line.Name, Probe: p.Name}
		var err error
		if c.figure, err = metricOf(line.Metric, *p); err != nil {
			r.fault(place+".metric", 0, err.Error())
			continue
		}
		c.Metric = c.figure.name
		if at := r.at(place); at != nil {
			c.Line = at.Position.Line
		}
		if at := r.at(place + ".target"); at != nil {
			c.wrote = spotOf(at)
		}
		var wrong *misplaced
		if c.Target, wrong = parseTarget(line.Target, c.figure.unit, c.figure.better); wrong != nil {
			r.fault(place+".target", wrong.at, "target: "+wrong.text)
		}
		if line.Goal != "" {
			goal, wrong := parseTarget(line.Goal, c.figure.unit, c.figure.better)
			if wrong != nil {
				r.fault(place+".goal", wrong.at, "goal: "+wrong.text)
			} else if goal.Better() != c.Target.Better() {
				r.fault(place+".goal", 0, "goal: its operator points the other way than the target's")
			}
			c.Goal = &goal
		}
		r.suite.Claims = append(r.suite.Claims, c)
		r.take(*p)
	}
}

func (r *reading) measure(all []string) {
	for i, pattern := range all {
		found := false
		for _, p := range r.known {
			if ok, err := path.Match(pattern, p.Name); err == nil && ok {
				r.take(p)
				found = true
			}
		}
		if !found {
			r.fault(fmt.Sprintf("measure[%d]", i), 0, r.noProbe(pattern))
		}
	}
}

func (r *reading) take(p Probe) {
	if !slices.ContainsFunc(r.suite.Probes, func(q Probe) bool { return q.Name == p.Name }) {
		r.suite.Probes = append(r.suite.Probes, p)
	}
}

func (r *reading) noProbe(name string) string {
	if name == "" {
		return "a claim needs a probe; `assay claims list` names them"
	}
	text := fmt.Sprintf("there is no probe %q", foreign.Line(name, 60))
	family, _, _ := strings.Cut(name, "/")
	var near []string
	for _, p := range r.known {
		if p.Family() == family {
			near = append(near, p.Name)
		}
	}
	if len(near) > 0 {
		return text + "; of this family there are " + strings.Join(near, ", ")
	}
	return text + "; `assay claims list` names them"
}

// byFamily puts the probes of a family together, families in the order of their
// first.
func byFamily(all []Probe) []Probe {
	var out []Probe
	for _, family := range families(all) {
		for _, p := range all {
			if p.Family() == family {
				out = append(out, p)
			}
		}
	}
	return out
}

func families(all []Probe) []string {
	var out []string
	for _, p := range all {
		if f := p.Family(); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
