package oidc

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/yamltext"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// Format of the file of rules.
const Format = "assay/people/v1"

// Bounds of the file.
const (
	MaxRules = 256 << 10 // bytes
	maxRules = 1000
	maxClaim = 300
)

// Rules say which claims give which role and which owners. The zero Rules give
// nobody anything.
type Rules struct{ rules []rule }

type rule struct {
	Claim  string   `yaml:"claim"`
	Value  string   `yaml:"value"`
	Role   api.Role `yaml:"role"`
	Owners owners   `yaml:"owners"`
}

// owners are `all`, or a list of names.
type owners struct{ store.Scope }

// UnmarshalYAML is for the library.
func (o *owners) UnmarshalYAML(decode func(any) error) error {
	var word string
	if err := decode(&word); err == nil {
		if word != "all" {
			return errors.New("owners are the word all, or a list of names")
		}
		o.All = true
		return nil
	}
	return decode(&o.Owners)
}

// ReadRules reads a file of rules, docs/formats/people.md.
func ReadRules(b []byte, name string) (Rules, error) {
	if len(b) > MaxRules {
		return Rules{}, fmt.Errorf("read %s: it is longer than %d bytes", name, MaxRules)
	}
	var file struct {
		Format string `yaml:"format"`
		Rules  []rule `yaml:"rules"`
	}
	if _, err := yamltext.Decode(b, &file); err != nil {
		return Rules{}, fmt.Errorf("read %s: %w", name, err)
	}
	if file.Format != Format {
		return Rules{}, fmt.Errorf("read %s: its format is %q, and not %q", name, foreign.Line(file.Format, 100), Format)
	}
	if len(file.Rules) == 0 || len(file.Rules) > maxRules {
		return Rules{}, fmt.Errorf("read %s: it has %d rules; 1 to %d are allowed", name, len(file.Rules), maxRules)
	}
	var faults []error
	for i, r := range file.Rules {
		if fault := r.fault(); fault != "" {
			faults = append(faults, fmt.Errorf("%s: rule %d: %s", name, i+1, fault))
		}
	}
	return Rules{file.Rules}, errors.Join(faults...)
}

var ownerName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)

// fault says what is wrong with a rule; nothing: nothing.
func (r rule) fault() string {
	switch {
	case r.Claim == "" || len(r.Claim) > maxClaim || !foreign.Plain(r.Claim):
		return "claim: the name of a claim is missing"
	case r.Value == "" || len(r.Value) > maxClaim || !foreign.Plain(r.Value):
		return "value: a rule without a value would fit everybody; give the value that the claim must have"
	case r.Role != api.RoleViewer && r.Role != api.RoleOperator && r.Role != api.RoleAdmin:
		return "role: it must be viewer, operator or admin"
	case !r.Owners.All && len(r.Owners.Owners) == 0:
		return "owners: give the word all, or a list of names"
	}
	for _, o := range r.Owners.Owners {
		if !ownerName.MatchString(o) {
			return fmt.Sprintf("owners: %q is no owner's name", foreign.Line(o, 100))
		}
	}
	return ""
}

// grant is what the claims of a token give: the first rule that fits decides, so
// that nobody gets the role of one rule with the owners of another.
func (rs Rules) grant(claims map[string]any) (api.Role, store.Scope, bool) {
	for _, r := range rs.rules {
		if r.fits(claims) {
			return r.Role, r.Owners.Scope, true
		}
	}
	return "", store.Scope{}, false
}

// fits says whether a claim is the rule's value, or a list that has it. An address
// that the provider has not verified is only what somebody typed.
func (r rule) fits(claims map[string]any) bool {
	if verified, _ := claims["email_verified"].(bool); r.Claim == "email" && !verified {
		return false
	}
	switch v := claims[r.Claim].(type) {
	case string:
		return v == r.Value
	case []any:
		for _, one := range v {
			if s, ok := one.(string); ok && s == r.Value {
				return true
			}
		}
	}
	return false
}
