// Package egress connects to addresses that somebody else named: URLs of nodes
// and of webhooks.
//
// What it promises: a connection goes only to an address of a network that is
// allowed, which is every public one and those that the operator names. A name is
// resolved once, and the address that was looked at is the one that is dialled,
// so that an answer of the name server that changes in between leads nowhere.
// No redirect is followed, and no proxy of the environment is used.
//
// What it refuses: loopback, link-local, private and reserved networks, unless
// they are named, also where they hide in an IPv6 address.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// ErrRefused marks an address that is in no allowed network. It does not become
// allowed by trying again.
var ErrRefused = errors.New("not in a network that the server may connect to")

// Bounds of a connection.
const (
	maxAddresses   = 4 // of one name that are tried
	dialTimeout    = 10 * time.Second
	headerTimeout  = 20 * time.Second
	maxHeaderBytes = 64 << 10
)

// Resolver finds addresses; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer connects to allowed networks. The zero Dialer allows public ones.
type Dialer struct {
	Allow    []netip.Prefix // beside those that are public
	Resolver Resolver       // nil: the system's
}

// DialContext connects to HOST:PORT by TCP.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", foreign.Line(address, 200), err)
	}
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, fmt.Errorf("connect to %s: %s is not TCP: %w", foreign.Line(address, 200), foreign.Line(network, 20), ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range addrs {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// resolve gives the addresses of a host that may be dialled.
func (d *Dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	name := foreign.Line(host, 200)
	found := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		found = append(found, a)
	} else {
		r := d.Resolver
		if r == nil {
			r = net.DefaultResolver
		}
		if found, err = r.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, fmt.Errorf("find %s: %w", name, err)
		}
	}
	var out []netip.Addr
	for _, a := range found {
		if a = a.Unmap(); d.Allowed(a) && len(out) < maxAddresses {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("connect to %s at %s: %w; allow it with --allow-network if it is meant", name, foreign.Line(fmt.Sprint(found), 200), ErrRefused)
	}
	return out, nil
}

// Allowed says whether an address may be connected to.
func (d *Dialer) Allowed(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	if slices.ContainsFunc(d.Allow, in) {
		return true
	}
	if v4, hidden := embedded(a); hidden && !d.Allowed(v4) {
		return false
	}
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(reserved, in)
}

// reserved is what is neither private nor public, by IANA's registries.
var reserved = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"100::/64", "64:ff9b:1::/48", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
)

var nat64, sixToFour, compatible = netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("::/96")

// embedded finds an IPv4 address that a gateway would make of an IPv6 one.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case !a.Is6():
		return netip.Addr{}, false
	case nat64.Contains(a), compatible.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

func prefixes(in ...string) (out []netip.Prefix) {
	for _, p := range in {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// Client is an HTTP client that connects by d, keeps no connection, follows no
// redirect and knows no proxy. An answer's body is the caller's to bound.
func Client(d *Dialer, timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext: d.DialContext, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: headerTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
