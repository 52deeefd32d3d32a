package control

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Serving is where a replica answers requests.
type Serving struct {
	TLS  bool
	Host string // an address, or a name of letters, digits, dots and dashes
	Port uint16
}

// hostName has nothing that a router's commands or a list of targets give a
// meaning to.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// ParseServing reads the serving URL that a node tells. Only its scheme, host and
// port count: which path a request has is the client's.
func ParseServing(address string) (Serving, error) {
	u, err := url.Parse(address)
	switch {
	case len(address) > 500 || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return Serving{}, errors.New("the serving URL is not http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		return Serving{}, errors.New("the serving URL has a user or a password")
	}
	s := Serving{TLS: u.Scheme == "https", Host: u.Hostname(), Port: 80}
	if s.TLS {
		s.Port = 443
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return Serving{}, errors.New("the serving URL's port is none")
		}
		s.Port = uint16(n)
	}
	if ip, err := netip.ParseAddr(s.Host); err == nil {
		if ip = ip.Unmap(); ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() {
			return Serving{}, errors.New("the serving URL's address is none that a router can reach")
		}
		s.Host = ip.String()
		return s, nil
	}
	if len(s.Host) > 253 || !hostName.MatchString(s.Host) || strings.Trim(s.Host, "0123456789.") == "" {
		return Serving{}, errors.New("the serving URL's host is neither an address nor a name of letters, digits, dots and dashes")
	}
	return s, nil
}

// String is HOST:PORT.
func (s Serving) String() string { return net.JoinHostPort(s.Host, strconv.Itoa(int(s.Port))) }

// URL is SCHEME://HOST:PORT: where requests go, whatever path the node has told.
func (s Serving) URL() string {
	if s.TLS {
		return "https://" + s.String()
	}
	return "http://" + s.String()
}

// SameServing says whether two serving URLs lead requests to one address.
func SameServing(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := ParseServing(a)
	y, errY := ParseServing(b)
	return errX == nil && errY == nil && x.TLS == y.TLS && x.Port == y.Port && strings.EqualFold(x.Host, y.Host)
}
