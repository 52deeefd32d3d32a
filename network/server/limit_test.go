package server

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	l := newLimiter(Rate{PerSecond: 2, Burst: 3})
	now := time.Unix(1000, 0)
	for range 3 {
		if _, ok := l.take("a", now); !ok {
			t.Fatal("within the burst")
		}
	}
	wait, ok := l.take("a", now)
	if ok || wait != 500*time.Millisecond || !l.empty("a", now) {
		t.Errorf("beyond the burst: %s, %t", wait, ok)
	}
	if _, ok := l.take("b", now); !ok || l.empty("b", now) {
		t.Error("another one pays for it")
	}
	if _, ok := l.take("a", now.Add(wait)); !ok {
		t.Error("it does not end")
	}
	if _, ok := newLimiter(Rate{}).take("a", now); !ok {
		t.Error("no limit is one")
	}
}

func TestLimiterIsBounded(t *testing.T) {
	l := newLimiter(Rate{PerSecond: 1, Burst: 1})
	for i := range 10 * maxLimited {
		l.take(fmt.Sprint(i), time.Unix(1000, 0))
	}
	if n := len(l.now) + len(l.old); n > 2*maxLimited {
		t.Errorf("%d buckets", n)
	}
}

func TestAddresses(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80":               "192.0.2.1",
		"[::ffff:192.0.2.1]:80":      "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:80":  "2001:db8:1:2::/64",
		"[2001:db8:1:2:9:9:9:9]:443": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":          "fe80::/64",
		"@":                          "@",
	} {
		if got := address(&http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}}, nil); got != want {
			t.Errorf("%s counts as %s", remote, got)
		}
	}
}

// TestForwardedAddresses: a stranger is counted by what the trusted proxy that he came
// through says, whatever he writes into the header himself.
func TestForwardedAddresses(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48")}
	for _, c := range []struct {
		remote string
		header []string
		want   string
	}{
		{"10.1.1.1:5", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.1.1.1:5", []string{"198.51.100.1, 203.0.113.9"}, "203.0.113.9"}, // he claims to be another
		{"10.1.1.1:5", []string{"198.51.100.1", "203.0.113.9"}, "203.0.113.9"},
		{"10.1.1.1:5", []string{"203.0.113.9, 10.2.2.2"}, "203.0.113.9"}, // through two proxies
		{"10.1.1.1:5", []string{"10.9.9.9, 203.0.113.9"}, "203.0.113.9"}, // he claims to be a proxy
		{"10.1.1.1:5", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"10.1.1.1:5", []string{"[2001:db8:1:2::5]:4711"}, "2001:db8:1:2::/64"},
		{"10.1.1.1:5", []string{"2001:db8:1:2::5"}, "2001:db8:1:2::/64"},
		{"[::ffff:10.1.1.1]:5", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"[2001:db8:ffff::1]:5", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.1.1.1:5", nil, "10.1.1.1"},
		{"10.1.1.1:5", []string{""}, "10.1.1.1"},
		{"10.1.1.1:5", []string{"203.0.113.9, unknown"}, "10.1.1.1"},
		{"10.1.1.1:5", []string{"203.0.113.9, 10.2.2.2, "}, "10.1.1.1"},
		{"10.1.1.1:5", []string{"10.2.2.2"}, "10.2.2.2"},           // somebody in our own network
		{"203.0.113.1:5", []string{"198.51.100.1"}, "203.0.113.1"}, // no proxy of ours
		{"10.1.1.1:5", []string{"203.0.113.9" + strings.Repeat(", 10.2.2.2", 50)}, "10.2.2.2"},
		{"@", []string{"203.0.113.9"}, "@"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.header}}
		if got := address(r, trusted); got != c.want {
			t.Errorf("%s with %q counts as %s, not %s", c.remote, c.header, got, c.want)
		}
	}
}
