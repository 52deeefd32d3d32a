package control

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// A proof is of one address, ends, and unknown is none, and takes none away. Who cannot
// be reached gets no requests, whatever is required.
func TestTrusted(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := Default()
	const url = "http://10.0.0.1:8000"
	proof := func(verdict string, ago time.Duration) Proof {
		return Proof{Verdict: verdict, At: now.Add(-ago), URL: url}
	}
	after := func(verdicts ...string) (p Proof) { // one an hour, the last one now
		for i, v := range verdicts {
			p = p.Next(v, now.Add(time.Duration(i+1-len(verdicts))*time.Hour), url)
		}
		return p
	}
	for _, c := range []struct {
		require []string
		proofs  Proofs
		why     string // empty: it is trusted
	}{
		{nil, nil, ""},
		{nil, Proofs{"reach": proof(ProofFail, time.Minute)}, "could not be reached"},
		{nil, Proofs{"reach": proof(ProofFail, 23*time.Hour)}, "could not be reached"},
		{nil, Proofs{"reach": proof(ProofFail, 25*time.Hour)}, ""}, // nobody looks any more
		{nil, Proofs{"reach": {Verdict: ProofFail, At: now, URL: "http://10.0.0.2:8000"}}, "could not be reached"},
		{nil, Proofs{"address": proof(ProofFail, time.Minute)}, ""}, // what follows is the policy's
		{[]string{"address"}, nil, "not passed the check address yet"},
		{[]string{"address"}, Proofs{"address": proof(ProofUnknown, time.Minute)}, "is unknown"},
		{[]string{"address"}, Proofs{"address": proof(ProofFail, time.Minute)}, "is fail"},
		{[]string{"address"}, Proofs{"address": proof(ProofPass, time.Minute)}, ""},
		{[]string{"address"}, Proofs{"address": proof(ProofPass, 25*time.Hour)}, "too old"},
		{[]string{"address"}, Proofs{"address": {Verdict: ProofPass, At: now, URL: "http://10.0.0.2:8000"}}, "not passed the check address yet"},
		{[]string{"address"}, Proofs{"address": {Verdict: ProofPass, At: now, URL: url + "/v1"}}, ""}, // the same address
		{[]string{"reach", "address"}, Proofs{"address": proof(ProofPass, 0)}, "not passed the check reach yet"},
		{[]string{"address"}, Proofs{"address": after(ProofPass, ProofUnknown)}, ""},
		{[]string{"address"}, Proofs{"address": after(ProofPass, ProofFail, ProofUnknown)}, "is unknown"},
		{[]string{"address"}, Proofs{"address": after(ProofPass, ProofUnknown, ProofFail)}, "is fail"},
		{[]string{"address"}, Proofs{"address": after(append([]string{ProofPass}, slices.Repeat([]string{ProofUnknown}, 25)...)...)}, "too old"},
		{[]string{"address"}, Proofs{"address": after(ProofPass).Next(ProofUnknown, now, "http://10.0.0.2:8000").Next(ProofUnknown, now, url)}, "is unknown"},
		{nil, Proofs{"reach": after(ProofFail, ProofUnknown)}, "could not be reached"},
		{nil, Proofs{"reach": after(ProofFail, ProofUnknown, ProofPass)}, ""},
	} {
		p.Trust.Require = c.require
		ok, why := Trusted(p, c.proofs, url, now)
		if ok != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%v with %v: %v, %q", c.require, c.proofs, ok, why)
		}
	}
}

// A policy of before there was trust is read as one with the default, and one that
// says half of it keeps the rest.
func TestTrustMayBeLeftOut(t *testing.T) {
	text := string(DefaultFile)
	i, j := strings.Index(text, "trust:"), strings.Index(text, "# note, re-verify")
	old, err := ReadPolicy(strings.NewReader(text[:i]+text[j:]), "p.yaml")
	if err != nil || old.Trust.Every != Default().Trust.Every || old.Trust.Slower != 0.25 {
		t.Errorf("%+v, %v", old.Trust, err)
	}
	half, err := ReadPolicy(strings.NewReader(text[:i]+"trust: { every: 1h, require: [reach, address] }\n"+text[j:]), "p.yaml")
	if err != nil || half.Trust.Every != assay.Duration(time.Hour) || len(half.Trust.Require) != 2 || half.Trust.Slower != 0.25 {
		t.Errorf("%+v, %v", half.Trust, err)
	}
	for _, bad := range []string{"trust: { every: 48h }", "trust: { slower: 0 }", "trust: { require: [reach, reach] }", "trust: { what: 1 }"} {
		if _, err := ReadPolicy(strings.NewReader(text[:i]+bad+"\n"+text[j:]), "p.yaml"); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
