package server

import (
	"fmt"
	"net/http"
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
		if got := address(&http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%s counts as %s", remote, got)
		}
	}
}
