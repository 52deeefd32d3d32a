package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestAllowed: public addresses are, others only by name.
func TestAllowed(t *testing.T) {
	var d Dialer
	for _, a := range []string{"8.8.8.8", "1.1.1.1", "2606:4700::1111", "2002:0808:0808::1", "64:ff9b::808:808", "172.15.0.1", "100.128.0.1"} {
		if !d.Allowed(netip.MustParseAddr(a)) {
			t.Errorf("%s is refused", a)
		}
	}
	for _, a := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
		"255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "2001:db8::1",
	} {
		if d.Allowed(netip.MustParseAddr(a)) {
			t.Errorf("%s is allowed", a)
		}
	}
	d.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for a, want := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "fd00::1": true, "10.0.0.1": false, "::1": false, "8.8.8.8": true} {
		if d.Allowed(netip.MustParseAddr(a)) != want {
			t.Errorf("%s with two networks named: %t", a, !want)
		}
	}
	if d.Allowed(netip.Addr{}) {
		t.Error("no address is allowed")
	}
}

// turning answers each question with the next address: a name server that first
// gives one that passes.
type turning struct {
	answers []string
	asked   atomic.Int64
}

func (r *turning) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	i := int(r.asked.Add(1)) - 1
	return []netip.Addr{netip.MustParseAddr(r.answers[min(i, len(r.answers)-1)])}, nil
}

// TestRebinding: what was resolved and looked at is what is dialled; a second
// answer is not asked for.
func TestRebinding(t *testing.T) {
	reached := make(chan struct{}, 10)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached <- struct{}{}
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())

	// 192.0.2.1 is nobody's, and allowed here: it is dialled and does not answer.
	// The second answer would lead to the listener.
	r := &turning{answers: []string{"192.0.2.1", "127.0.0.1"}}
	d := &Dialer{Resolver: r, Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if conn, err := d.DialContext(ctx, "tcp", "hook.example:"+port); err == nil {
		conn.Close()
		t.Error("it connected")
	}
	if n := r.asked.Load(); n != 1 {
		t.Errorf("the name was resolved %d times", n)
	}
	r = &turning{answers: []string{"127.0.0.1"}}
	if _, err := (&Dialer{Resolver: r}).DialContext(t.Context(), "tcp", "hook.example:"+port); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--allow-network") {
		t.Errorf("a name that leads to loopback: %v", err)
	}
	select {
	case <-reached:
		t.Error("the listener was reached")
	default:
	}
	d = &Dialer{Resolver: r, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	conn, err := d.DialContext(t.Context(), "tcp", "hook.example:"+port)
	if err != nil {
		t.Fatalf("an allowed one: %v", err)
	}
	conn.Close()
	<-reached
	if _, err := d.DialContext(t.Context(), "unix", "hook.example:"+port); !errors.Is(err, ErrRefused) {
		t.Errorf("a socket of another kind: %v", err)
	}
}

// TestClient: no redirect is followed, and the environment's proxy is not used.
func TestClient(t *testing.T) {
	var other atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	defer elsewhere.Close()
	t.Setenv("HTTP_PROXY", elsewhere.URL)
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer here.Close()
	c := Client(&Dialer{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, 10*time.Second)
	resp, err := c.Post(here.URL, "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect || other.Load() != 0 {
		t.Errorf("status %d, the other was asked %d times", resp.StatusCode, other.Load())
	}
	if _, err := Client(&Dialer{}, 10*time.Second).Get(here.URL); !errors.Is(err, ErrRefused) {
		t.Errorf("loopback: %v", err)
	}
}
