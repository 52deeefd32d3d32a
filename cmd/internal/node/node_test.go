package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

// fake answers as a server does, and notes what it was asked to do.
type fake struct {
	t      *testing.T
	nodes  []*api.NodeDetail
	asked  []string                     // ACTION ID
	refuse map[string]int               // status by id
	looks  map[string]func() api.Intent // what a node's intent becomes at the next look
	open   bool                         // the breaker holds
}

func id(n int) string { return fmt.Sprintf("01M7%022d", n) }

func (f *fake) add(n int, host string, state api.Admission, intent api.Intent) {
	f.nodes = append(f.nodes, &api.NodeDetail{
		Node:     api.Node{Id: id(n), Owner: "home", Hostname: &host, State: state, Intent: intent, Contact: api.ContactSeen, Reasons: []string{strings.Repeat("long ", 60)}},
		Replicas: []api.ReplicaFacts{{Name: "a", State: state, Intent: intent, Contact: api.ContactSeen}},
	})
}

func (f *fake) node(id string) *api.NodeDetail {
	for _, d := range f.nodes {
		if d.Node.Id == id {
			return d
		}
	}
	return nil
}

func (f *fake) start() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		all := []api.Node{}
		for _, d := range f.nodes {
			all = append(all, d.Node)
		}
		write(w, http.StatusOK, all)
	})
	mux.HandleFunc("GET /api/v1/nodes/{id}", func(w http.ResponseWriter, r *http.Request) {
		d := f.node(r.PathValue("id"))
		if d == nil {
			problem(w, http.StatusNotFound, "there is no such node")
			return
		}
		if next := f.looks[d.Node.Id]; next != nil {
			d.Node.Intent = next()
		}
		write(w, http.StatusOK, d)
	})
	mux.HandleFunc("GET /api/v1/breaker", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, api.Breaker{Open: f.open, Reasons: &[]string{"5 of 9 are silent"}})
	})
	mux.HandleFunc("POST /api/v1/nodes/{id}/actions", f.act)
	s := httptest.NewServer(mux)
	f.t.Cleanup(s.Close)
	token := filepath.Join(f.t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.t.Setenv("ASSAY_SERVER", s.URL)
	f.t.Setenv("ASSAY_TOKEN_FILE", token)
}

func (f *fake) act(w http.ResponseWriter, r *http.Request) {
	var a api.Action
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		f.t.Error(err)
	}
	d := f.node(r.PathValue("id"))
	f.asked = append(f.asked, string(a.Action)+" "+d.Node.Id)
	if s := f.refuse[d.Node.Id]; s != 0 {
		problem(w, s, "not this one")
		return
	}
	switch a.Action {
	case api.ActionActionDrain:
		d.Node.Intent = api.IntentDraining
	case api.ActionActionQuarantine:
		d.Node.State = api.AdmissionQuarantined
	case api.ActionActionApprove:
		d.Node.State = api.AdmissionAdmitted
	case api.ActionActionOverride:
		d.Override = &api.Override{State: *a.State, Expires: time.Unix(int64(*a.Seconds), 0), Actor: "person:01X", Reason: a.Reason}
	}
	write(w, http.StatusOK, d)
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{Detail: &detail, Status: status})
}

// run runs the command as the program does.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := cli.Root("assay", nil, New())
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Run(t.Context(), root, append([]string{"node"}, args...))
	return code, out.String(), errs.String()
}

func has(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

// Nothing is done before every word names a node.
func TestNothingIsDoneToSomeOfThem(t *testing.T) {
	f := &fake{t: t}
	f.add(1, "vm-1", api.AdmissionAdmitted, api.IntentServe)
	f.add(2, "vm-2", api.AdmissionAdmitted, api.IntentServe)
	f.start()
	for _, words := range [][]string{{id(1), "wrong"}, {id(1), id(9)}, {id(1), "01M70"}, {id(1), id(2), "--replica", "b"}} {
		code, stdout, stderr := run(t, append(append([]string{"drain"}, words...), "--reason", "test")...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, "nothing was done") {
			t.Errorf("%v: %d %q %q", words, code, stdout, stderr)
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("it did %v", f.asked)
	}
}

// A refusal is of one node; the others are tried, and all are accounted for.
func TestGoesOnPastARefusal(t *testing.T) {
	f := &fake{t: t, refuse: map[string]int{id(2): http.StatusConflict}}
	for n := range 4 {
		f.add(n+1, fmt.Sprint("vm-", n+1), api.AdmissionAdmitted, api.IntentServe)
	}
	f.nodes[3].Node.Intent = api.IntentDraining
	f.start()
	code, stdout, stderr := run(t, "drain", "vm-1", id(2), "vm-3", "VM-4", id(1), "--reason", "test")
	has(t, stdout, id(1)+" (vm-1): done: serve → draining", id(2)+" (vm-2): refused: ", "not this one", id(3)+" (vm-3): done",
		id(4)+" (vm-4): nothing changed: it is draining already", "2 done, 1 unchanged, 1 refused\n")
	has(t, stderr, "1 of 4 nodes were refused")
	if want := []string{"drain " + id(1), "drain " + id(2), "drain " + id(3)}; code != 1 || fmt.Sprint(f.asked) != fmt.Sprint(want) {
		t.Errorf("%d, asked %v", code, f.asked)
	}
}

// A server that has no time is not asked for the rest.
func TestStopsWhereAllWouldFail(t *testing.T) {
	f := &fake{t: t, refuse: map[string]int{id(2): http.StatusTooManyRequests}}
	for n := range 3 {
		f.add(n+1, "", api.AdmissionAdmitted, api.IntentServe)
	}
	f.start()
	code, stdout, _ := run(t, "quarantine", id(1), id(2), id(3), "--reason", "test", "--format", "json")
	var got []outcome
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got) != 3 {
		t.Fatalf("%v %s", err, stdout)
	}
	if code != 1 || len(f.asked) != 2 || got[0].Outcome != done || got[1].Outcome != refused || got[2].Outcome != untried || got[2].Why == "" {
		t.Errorf("%d %v %+v", code, f.asked, got)
	}
}

func TestWhatChangedIsSaid(t *testing.T) {
	for _, c := range []struct {
		action []string
		state  api.Admission
		intent api.Intent
		want   string
		asked  bool
	}{
		{[]string{"approve"}, api.AdmissionPending, api.IntentServe, "done: pending → admitted", true},
		{[]string{"approve"}, api.AdmissionAdmitted, api.IntentServe, "nothing changed: it is admitted already", true},
		{[]string{"quarantine"}, api.AdmissionQuarantined, api.IntentServe, "nothing changed: it is quarantined already", true},
		{[]string{"drain"}, api.AdmissionAdmitted, api.IntentDrained, "nothing changed: it is drained already", false},
		{[]string{"drain", "--within", "5m"}, api.AdmissionAdmitted, api.IntentServe, "serve → draining", true},
		{[]string{"undrain"}, api.AdmissionAdmitted, api.IntentServe, "nothing changed: it is not drained", false},
		{[]string{"retire"}, api.AdmissionAdmitted, api.IntentRetired, "nothing changed: it is retired already", false},
		{[]string{"check"}, api.AdmissionAdmitted, api.IntentServe, "done: a verification is asked for", true},
		{[]string{"override", "--state", "keep", "--for", "5m"}, api.AdmissionAdmitted, api.IntentServe, "done: override keep until 1970-01-01T00:05:00Z, by 01X: test", true},
		{[]string{"override", "--state", "out", "--for", "5m"}, api.AdmissionAdmitted, api.IntentServe, "done: override out until", true},
	} {
		f := &fake{t: t}
		f.add(1, "vm", c.state, c.intent)
		f.start()
		code, stdout, stderr := run(t, append(c.action, "vm", "--reason", "test")...)
		if code != 0 || !strings.Contains(stdout, c.want) || (len(f.asked) > 0) != c.asked {
			t.Errorf("%v: %d %s%s, and not %q; asked %v", c.action, code, stdout, stderr, c.want, f.asked)
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	f := &fake{t: t}
	f.add(1, "vm", api.AdmissionAdmitted, api.IntentServe)
	f.add(2, "vm", api.AdmissionAdmitted, api.IntentServe)
	f.start()
	for want, args := range map[string][]string{
		"--reason WHY is needed":                    {"drain", "vm"},
		"--state is needed: keep":                   {"override", "vm", "--reason", "x", "--for", "5m"},
		"known are keep, out":                       {"override", "vm", "--reason", "x", "--for", "5m", "--state", "admitted"},
		"--for is needed":                           {"override", "vm", "--reason", "x", "--state", "keep"},
		"whole seconds up to 720h0m0s":              {"override", "vm", "--reason", "x", "--state", "keep", "--for", "1000h"},
		"may be any of 2 nodes: " + id(1) + " (vm)": {"show", "vm"},
		"no node has the id or the host \"01\"":     {"show", "01"},
		"there is no node " + id(3):                 {"show", id(3)},
		"--timeout is for --wait":                   {"drain", "vm", "--reason", "x", "--timeout", "1m"},
		"known are serve, draining":                 {"list", "--intent", "gone"},
	} {
		if code, _, stderr := run(t, args...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s, and not %q", args, code, stderr, want)
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("it did %v", f.asked)
	}
}

// The host of a node that was retired is that of the one in its place.
func TestRetiredStandBack(t *testing.T) {
	f := &fake{t: t, open: true}
	f.add(1, "vm", api.AdmissionAdmitted, api.IntentRetired)
	f.add(2, "vm", api.AdmissionQuarantined, api.IntentServe)
	f.start()
	if code, stdout, stderr := run(t, "approve", "vm", "--reason", "x"); code != 0 || !strings.Contains(stdout, id(2)) {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	_, stdout, _ := run(t, "list")
	has(t, stdout, id(2), "1 nodes: 1 admitted; 0 may be given requests; 1 retired are left out", "The breaker holds", "5 of 9 are silent")
	if strings.Contains(stdout, id(1)) {
		t.Errorf("a retired node:\n%s", stdout)
	}
	for want, args := range map[string][]string{
		id(1) + "\n":                {"list", "-q", "--intent", "retired"},
		id(1) + "\n" + id(2) + "\n": {"list", "-q", "--all"},
		"":                          {"list", "-q", "--intent", "draining"},
	} {
		if code, stdout, stderr := run(t, args...); code != 0 || stdout != want {
			t.Errorf("%v: %d %q %s", args, code, stdout, stderr)
		}
	}
}

// A list has one line a node: reasons are cut on a terminal, and whole elsewhere.
func TestOneLineANode(t *testing.T) {
	f := &fake{t: t}
	f.add(1, "vm", api.AdmissionAdmitted, api.IntentServe)
	seen := time.Unix(1000, 0)
	f.nodes[0].Node.LastSeen = &seen
	for _, width := range []int{0, 120} {
		page := listPage([]api.Node{f.nodes[0].Node}, 0, "", width, seen.Add(90*time.Second))
		var b bytes.Buffer
		if err := (report.Look{}).Text(&b, page); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if len(lines) != 5 || !strings.Contains(lines[3], "seen 1m") {
			t.Fatalf("%d lines:\n%s", len(lines), b.String())
		}
		if n := len([]rune(lines[3])); width > 0 && (n > width || n < width-3) || width == 0 && n < 300 {
			t.Errorf("width %d: a line of %d", width, n)
		}
	}
}

// A drain that is waited for ends when the node is drained, and says when it is not.
func TestDrainWaits(t *testing.T) {
	f := &fake{t: t, looks: map[string]func() api.Intent{}}
	f.add(1, "vm-1", api.AdmissionAdmitted, api.IntentServe)
	f.start()
	looks := 0
	f.looks[id(1)] = func() api.Intent {
		switch looks++; looks {
		case 1:
			return api.IntentServe
		case 2:
			return api.IntentDraining
		}
		return api.IntentDrained
	}
	code, stdout, stderr := run(t, "drain", "vm-1", "--reason", "x", "--wait")
	if code != 0 || looks != 3 || !strings.Contains(stdout, "it is drained") {
		t.Errorf("%d after %d looks: %s%s", code, looks, stdout, stderr)
	}
	f.looks[id(1)] = func() api.Intent { return api.IntentDraining }
	if code, _, stderr := run(t, "drain", "vm-1", "--reason", "x", "--wait", "--timeout", "10ms"); code != cli.ExitUnknown || !strings.Contains(stderr, "1 are still draining") {
		t.Errorf("%d %s", code, stderr)
	}
	looks = 0
	f.looks[id(1)] = func() api.Intent {
		if looks++; looks == 1 {
			return api.IntentDraining
		}
		return api.IntentServe
	}
	if code, _, stderr := run(t, "drain", "vm-1", "--reason", "x", "--wait"); code != 1 || !strings.Contains(stderr, "took the drain back") {
		t.Errorf("%d %s", code, stderr)
	}
}
