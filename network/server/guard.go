package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-bench/assay/network/api"
)

// router is what the generated code registers its handlers with. Each is wrapped
// on the way, so that none is reached but through the guard.
type router struct {
	*http.ServeMux
	wrap func(pattern string, h http.HandlerFunc) http.HandlerFunc
}

// HandleFunc registers a guarded handler.
func (r router) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	r.ServeMux.HandleFunc(pattern, r.wrap(pattern, h))
}

// guards makes the router's wrapper. Every operation of the document must have a
// rule, and every pattern an operation.
func (s *Server) guards() (func(string, http.HandlerFunc) http.HandlerFunc, func() error, error) {
	ops, err := operations()
	if err != nil {
		return nil, nil, err
	}
	type guarded struct {
		op operation
		ru rule
	}
	known := map[string]guarded{}
	for _, op := range ops {
		ru, err := ruleOf(op)
		if err != nil {
			return nil, nil, err
		}
		known[op.pattern] = guarded{op, ru}
	}
	var missing error
	wrap := func(pattern string, h http.HandlerFunc) http.HandlerFunc {
		g, ok := known[pattern]
		if !ok {
			missing = errors.Join(missing, fmt.Errorf("%s is no operation of the document", pattern))
		}
		return s.guard(g.op, g.ru, h)
	}
	return wrap, func() error { return missing }, nil
}

// guard lets those requests through to a handler that its rule allows and that
// are as the document says.
func (s *Server) guard(op operation, ru rule, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req := requestOf(r.Context())
		req.op, req.node = op.id, r.PathValue("node")
		r, err := s.pass(w, r, req, op, ru)
		if err != nil {
			s.fail(w, r, err)
			s.rejected(r.Context(), req, err)
			return
		}
		if ru.waits {
			extend(w, 2*time.Minute)
		}
		h(w, r)
		if ru.audit && !req.audited {
			s.audit(r.Context(), req, req.err)
		}
	}
}

// pass is all that stands before a handler, in this order: who is it, not too
// often, may they, is it theirs to see, is it well formed.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, req *request, op operation, ru rule) (*http.Request, error) {
	r.Body = http.MaxBytesReader(w, r.Body, ru.bytes)
	if ru.anybody {
		// Health is asked for by machines, often, and costs nothing.
		if op.body != nil {
			if wait, ok := s.byAddress.take(address(r, s.o.TrustedProxies), s.now()); !ok {
				return r, refuseFor(http.StatusTooManyRequests, wait, "too many requests from this address")
			}
		}
		return s.formed(r, op)
	}
	p, err := s.who(r)
	if err != nil {
		return r, err
	}
	req.who = p
	r = r.WithContext(context.WithValue(r.Context(), principalKey{}, p))
	limits := s.byPerson
	if p.Role == api.RoleNode {
		limits = s.byNode
	}
	if wait, ok := limits.take(p.ID, s.now()); !ok {
		return r, refuseFor(http.StatusTooManyRequests, wait, "too many requests of %s", p.ID)
	}
	if err := ru.allows(p, req.node); err != nil {
		return r, err
	}
	if r, err = s.formed(r, op); err != nil {
		return r, err
	}
	if req.node != "" && p.Role != api.RoleNode {
		if err := s.visible(r.Context(), req, p); err != nil {
			return r, err
		}
	}
	return r, nil
}

// strangers limits by address what nobody known asks of a handler that is not ours.
func (s *Server) strangers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait, ok := s.byAddress.take(address(r, s.o.TrustedProxies), s.now()); !ok {
			s.fail(w, r, refuseFor(http.StatusTooManyRequests, wait, "too many requests from this address"))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// who finds the principal. An address that showed many credentials that were not
// good is not looked at for a while, so that nobody can try tokens or keep the
// database busy.
func (s *Server) who(r *http.Request) (Principal, error) {
	from := address(r, s.o.TrustedProxies)
	if s.byAddress.empty(from, s.now()) {
		return Principal{}, refuseFor(http.StatusTooManyRequests, time.Second, "too many requests from this address that nobody vouches for")
	}
	for _, a := range s.authenticators {
		p, ok, err := a.Authenticate(r.Context(), r)
		switch {
		case errors.Is(err, ErrCredential):
			s.byAddress.take(from, s.now())
			return Principal{}, refuse(http.StatusUnauthorized, "the credential is unknown, has expired or was taken back: log in again, or ask for another token")
		case err != nil:
			return Principal{}, err
		case ok:
			return p, nil
		}
	}
	s.byAddress.take(from, s.now())
	return Principal{}, refuse(http.StatusUnauthorized, "say who you are: Authorization: Bearer TOKEN")
}
