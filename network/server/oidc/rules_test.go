package oidc

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay/network/api"
)

func TestRulesThatAreNone(t *testing.T) {
	const head = "format: assay/people/v1\nrules:\n"
	for file, want := range map[string]string{
		"":                     "format",
		"format: x\nrules: []": "format",
		head + "  []":          "0 rules",
		head + "  - {claim: groups, value: '', role: admin, owners: all}":                   "would fit everybody",
		head + "  - {claim: groups, role: admin, owners: all}":                              "would fit everybody",
		head + "  - {value: a, role: admin, owners: all}":                                   "claim",
		head + "  - {claim: groups, value: a, role: node, owners: all}":                     "role",
		head + "  - {claim: groups, value: a, owners: all}":                                 "role",
		head + "  - {claim: groups, value: a, role: root, owners: all}":                     "role",
		head + "  - {claim: groups, value: a, role: admin}":                                 "owners",
		head + "  - {claim: groups, value: a, role: admin, owners: []}":                     "owners",
		head + "  - {claim: groups, value: a, role: admin, owners: everything}":             "owners",
		head + "  - {claim: groups, value: a, role: admin, owners: [all, 'A B']}":           "no owner's name",
		head + "  - {claim: groups, value: a, role: admin, owners: all, scope: all}":        "scope",
		head + "  - {claim: groups, value: a, role: admin, owners: all}\nextra: 1":          "extra",
		head + strings.Repeat("  - {claim: c, value: a, role: admin, owners: all}\n", 1001): "1001 rules",
	} {
		if _, err := ReadRules([]byte(file), "rules.yaml"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rules.yaml") {
			t.Errorf("%.80q: %v, which does not have %q", file, err, want)
		}
	}
}

// The first rule that fits decides: nobody gets the role of one with the owners of
// another.
func TestFirstRuleDecides(t *testing.T) {
	rs, err := ReadRules([]byte(`
format: assay/people/v1
rules:
  - {claim: groups, value: acme-ops, role: operator, owners: [acme]}
  - {claim: groups, value: everyone, role: viewer, owners: all}
  - {claim: email, value: eve@example.org, role: admin, owners: all}
`), "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role, scope, ok := rs.grant(map[string]any{"groups": []any{"everyone", "acme-ops"}})
	if !ok || role != api.RoleOperator || scope.All || !scope.Allows("acme") || scope.Allows("other") {
		t.Errorf("%s %+v %t", role, scope, ok)
	}
	for name, claims := range map[string]map[string]any{
		"nothing":                   {},
		"a part of a value":         {"groups": "acme-ops-2"},
		"a value within text":       {"groups": "everyone acme-ops"},
		"an address, unverified":    {"email": "eve@example.org"},
		"an address, not verified":  {"email": "eve@example.org", "email_verified": false},
		"an address, said verified": {"email": "eve@example.org", "email_verified": "true"},
		"numbers":                   {"groups": []any{1.0, nil}},
	} {
		if role, _, ok := rs.grant(claims); ok {
			t.Errorf("%s gives the role %s", name, role)
		}
	}
	if role, _, ok := rs.grant(map[string]any{"email": "eve@example.org", "email_verified": true}); !ok || role != api.RoleAdmin {
		t.Errorf("a verified address gives %q", role)
	}
	if _, _, ok := (Rules{}).grant(map[string]any{"groups": "everyone"}); ok {
		t.Error("no rules give something")
	}
}
