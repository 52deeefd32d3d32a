package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
)

// replica is who a slot stands for.
type replica struct {
	ID   string     `json:"id"`
	Addr netip.Addr `json:"addr"`
	Port uint16     `json:"port"`
}

var idForm = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// assign gives each replica that the server named a slot: the one that it has, or
// one that is nobody's. Who is not named any more has none. The error says who
// could not be given one; everybody else was.
func (k *Keeper) assign(ctx context.Context, routes []api.Route, slots []slot) error {
	named := map[string]api.Route{}
	for _, r := range routes {
		if idForm.MatchString(r.Id) && r.Id != nobody {
			named[r.Id] = r
		}
	}
	next, has := map[string]replica{}, map[string]bool{}
	var free []string
	var errs []error
	for _, s := range slots {
		old, ok := k.assigned[s.name]
		r, still := named[old.ID]
		if !ok || !still || has[old.ID] {
			free = append(free, s.name)
			continue
		}
		at, err := k.locate(ctx, r, old)
		if err != nil {
			errs = append(errs, err)
			if !at.Addr.IsValid() {
				free = append(free, s.name)
				continue
			}
		}
		next[s.name], has[r.Id] = at, true
	}
	// Those that get requests come first, should slots be few.
	var none []string
	for _, r := range routes {
		if _, ok := named[r.Id]; !ok || has[r.Id] {
			continue
		}
		has[r.Id] = true
		at, err := k.locate(ctx, r, replica{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(free) == 0 {
			none = append(none, r.Id)
			continue
		}
		next[free[0]], free = at, free[1:]
	}
	k.assigned, k.waiting = next, none
	if len(none) > 0 {
		errs = append(errs, fmt.Errorf("%d replicas have no slot, since the backend %s has %d of them: make its server-template longer", len(none), k.o.Backend, len(slots)))
	}
	if len(errs) > 5 {
		errs = append(errs[:5], fmt.Errorf("and %d more", len(errs)-5))
	}
	return errors.Join(errs...)
}

// locate finds a replica's address. A name that stands for several keeps the one
// that it had; one that cannot be looked up now keeps it too.
func (k *Keeper) locate(ctx context.Context, r api.Route, had replica) (replica, error) {
	bad := func(keep replica, err error) (replica, error) {
		return keep, fmt.Errorf("replica %s: %w", r.Id, err)
	}
	s, err := control.ParseServing(r.ServingUrl)
	if err != nil {
		return bad(replica{}, err)
	}
	if s.TLS != k.o.TLS {
		return bad(replica{}, fmt.Errorf("its serving URL is %q, and this backend's slots speak the other scheme", foreign.Line(r.ServingUrl, 100)))
	}
	at := replica{ID: r.Id, Port: s.Port}
	if ip, err := netip.ParseAddr(s.Host); err == nil {
		at.Addr = ip.Unmap()
		if !k.allowed(at.Addr) {
			return bad(replica{}, fmt.Errorf("its address %s is in none of the networks of nodes", at.Addr))
		}
		return at, nil
	}
	all, err := k.o.Resolve(ctx, s.Host)
	if err != nil {
		return bad(had, fmt.Errorf("look up %s: %w", s.Host, err))
	}
	var may []netip.Addr
	for _, a := range all {
		if a = a.Unmap().WithZone(""); k.allowed(a) {
			may = append(may, a)
		}
	}
	if len(may) == 0 {
		return bad(replica{}, fmt.Errorf("no address of %s is in the networks of nodes", s.Host))
	}
	slices.SortFunc(may, netip.Addr.Compare)
	at.Addr = may[0]
	if slices.Contains(may, had.Addr) {
		at.Addr = had.Addr
	}
	return at, nil
}

// withoutTimes is what HAProxy says of its servers without how long ago it changed.
func withoutTimes(state string) string {
	var b strings.Builder
	column := -1
	for line := range strings.Lines(state) {
		fields := strings.Fields(line)
		if head, ok := strings.CutPrefix(line, "# "); ok {
			column = slices.Index(strings.Fields(head), "srv_time_since_last_change")
		} else if column >= 0 && column < len(fields) {
			fields[column] = "-"
		}
		b.WriteString(strings.Join(fields, " "))
		b.WriteByte('\n')
	}
	return b.String()
}
