package haproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay/network/api"
)

func keeper(t interface{ Fatal(...any) }, change ...func(*Options)) *Keeper {
	o := Options{Socket: "/nowhere", Backend: "llm", Routes: func(context.Context) ([]api.Route, error) { return nil, errors.New("away") }}
	for _, c := range change {
		c(&o)
	}
	k, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Whoever comes and goes: nobody has two slots, nobody moves, and nobody goes
// without while there is room.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := keeper(t)
		var slots []slot
		for i := range rapid.IntRange(1, 6).Draw(t, "slots") {
			slots = append(slots, slot{name: fmt.Sprintf("slot%d", i+1)})
		}
		for range 8 {
			var routes []api.Route
			named := map[string]bool{}
			for _, n := range rapid.SliceOfN(rapid.IntRange(1, 9), 0, 9).Draw(t, "named") { // the same one twice, too
				routes = append(routes, api.Route{Id: id(n), ServingUrl: fmt.Sprintf("http://10.0.0.%d:8000", n)})
				named[id(n)] = true
			}
			before := maps.Clone(k.assigned)
			err := k.assign(context.Background(), routes, slots)
			has := map[string]string{}
			for name, r := range k.assigned {
				if has[r.ID] != "" || !named[r.ID] {
					t.Fatalf("%s has %s and %s; named are %v", r.ID, has[r.ID], name, named)
				}
				has[r.ID] = name
			}
			for name, r := range before {
				if named[r.ID] && has[r.ID] != name {
					t.Fatalf("%s went from %s to %q", r.ID, name, has[r.ID])
				}
			}
			if want := min(len(named), len(slots)); len(has) != want || (err != nil) != (len(named) > len(slots)) {
				t.Fatalf("%d of %d replicas have one of %d slots: %v", len(has), len(named), len(slots), err)
			}
		}
	})
}

// A name keeps the address that it had while it is one of its addresses, or cannot be
// looked up; and stands for none outside of the networks of nodes.
func TestNames(t *testing.T) {
	var answer []netip.Addr
	var fails error
	k := keeper(t, func(o *Options) {
		o.Resolve = func(context.Context, string) ([]netip.Addr, error) { return answer, fails }
	})
	slots := []slot{{name: "s"}}
	routes := []api.Route{{Id: id(1), ServingUrl: "http://node1.example:8000"}}
	for _, c := range []struct {
		answer string
		fails  error
		want   string
	}{
		{"10.0.0.9 10.0.0.2", nil, "10.0.0.2"},
		{"10.0.0.1 10.0.0.2", nil, "10.0.0.2"},
		{"", errors.New("no such host"), "10.0.0.2"},
		{"10.0.0.3", nil, "10.0.0.3"},
		{"127.0.0.1 169.254.169.254 ::1 fe80::1", nil, "invalid IP"},
		{"127.0.0.1 ::ffff:10.0.0.4", nil, "10.0.0.4"},
	} {
		answer, fails = nil, c.fails
		for _, a := range strings.Fields(c.answer) {
			answer = append(answer, netip.MustParseAddr(a))
		}
		_ = k.assign(t.Context(), routes, slots)
		if got := k.assigned["s"].Addr.String(); got != c.want {
			t.Errorf("%s: %s, and not %s", c.answer, got, c.want)
		}
	}
}

func TestAnswersOfHAProxy(t *testing.T) {
	for answer, want := range map[string]string{
		"\n\nIP changed from '192.0.2.1' to '127.0.0.1', port changed from '1' to '9' by 'stats socket command'\n\n": "",
		"no need to change the addr, no need to change the port by 'stats socket command'\n":                         "",
		"No such server.\n":     "No such server.",
		"\nPermission denied\n": "Permission denied",
		"Update for the current server address family is only supported through configuration file by 'stats socket command'\n": "Update for the current",
	} {
		if got := complaint(answer); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %q, and not %q", answer, got, want)
		}
	}
	head := "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_port\n"
	slots, err := parseSlots(head+"3 llm 1 slot1 10.0.0.1 2 0 8000\n4 other 1 slot1 10.0.0.2 2 0 8000\n3 llm 2 slot2 - 0 37 1\n", "llm")
	if err != nil || len(slots) != 2 || slots[0].maintained() || !slots[1].maintained() || slots[1].addr.IsValid() || slots[0].port != 8000 {
		t.Errorf("%+v, %v", slots, err)
	}
	for _, bad := range []string{"", "Can't find backend.\n", head, head + "3 llm 1 a;b 10.0.0.1 2 0 8000\n", head + "3 llm 1 s 10.0.0.1 2 x 8000\n", head + "3 llm 1 s 10.0.0.1 2 0 99999\n"} {
		if slots, err := parseSlots(bad, "llm"); err == nil {
			t.Errorf("%q was read as %+v", bad, slots)
		}
	}
	if _, err := runtime("/nowhere").ask(t.Context(), "show info\nshutdown"); err == nil || !strings.Contains(err.Error(), "line's end") {
		t.Errorf("a command of two lines: %v", err)
	}
}

func TestFilesOfAnotherBackend(t *testing.T) {
	state := t.TempDir() + "/state"
	k := keeper(t, func(o *Options) { o.StateFile = state })
	k.assigned["s1"] = replica{ID: id(1), Addr: netip.MustParseAddr("10.0.0.1"), Port: 80}
	_ = k.save(t.Context()) // HAProxy is not there; who has which slot is kept first
	again := keeper(t, func(o *Options) { o.StateFile = state })
	if !again.known || again.assigned["s1"] != k.assigned["s1"] {
		t.Errorf("what was kept: %+v", again.assigned)
	}
	o := Options{Socket: "/nowhere", Backend: "other", StateFile: state, Routes: again.o.Routes}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "about the backend llm") {
		t.Errorf("another backend's file: %v", err)
	}
	for _, name := range []string{"", "a b", "a;b", "a\nb"} {
		o.Backend, o.StateFile = name, ""
		if _, err := New(o); err == nil {
			t.Errorf("the backend %q was taken", name)
		}
	}
}
