package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/assay-bench/assay/network/api"
)

// maxCompat bounds how many sessions one answer of [Server.Compat] has.
const maxCompat = 10_000

// Compat answers the two lists of rented machines as scripts ask for them that know
// no tokens: /api/v1/inventory and /api/v1/sessions, each as a bare array. Only GET
// is answered, and it is for loopback only: whoever reaches it sees what is rented.
func (s *Server) Compat() (http.Handler, error) {
	ops, err := operations()
	if err != nil {
		return nil, err
	}
	lists := map[string]func(*http.Request) (any, error){"listOffers": s.compatOffers, "listSessions": s.compatSessions}
	mux := http.NewServeMux()
	for _, op := range ops {
		list, ok := lists[op.id]
		if !ok {
			continue
		}
		mux.HandleFunc(op.pattern, func(w http.ResponseWriter, r *http.Request) {
			requestOf(r.Context()).op = op.id
			r, err := s.formed(r, op)
			var out any
			if err == nil {
				out, err = list(r)
			}
			if err != nil {
				s.fail(w, r, err)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(out) // whoever asked may be gone
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := &request{id: newID(s.now())}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, req))
		w.Header().Set("X-Request-Id", req.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := s.local(r); err != nil {
			s.fail(w, r, err)
			return
		}
		s.strangers(mux).ServeHTTP(w, r)
	}), nil
}

// local refuses a request that a browser sends for a page: one of another origin, or
// of a name that somebody has made to mean this machine.
func (s *Server) local(r *http.Request) error {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return refuse(http.StatusForbidden, "only requests to localhost are answered here")
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" && site != "same-origin" {
		return refuse(http.StatusForbidden, "the request was sent by a page of another origin")
	}
	return nil
}

// compatOffers is the inventory; the query is as the document says.
func (s *Server) compatOffers(r *http.Request) (any, error) {
	v := r.URL.Query()
	q := OfferQuery{Provider: v.Get("provider"), GPU: v.Get("gpu_type")}
	if q.GPU == "" {
		q.GPU = v.Get("gpu_name")
	}
	if text := v.Get("min_vram"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "min_vram: %s", err)
		}
		q.MinVRAMGB = n
	}
	if text := v.Get("max_price"); text != "" {
		most, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "max_price: %s", err)
		}
		q.MaxPrice = &most
	}
	out, err := s.offers(r.Context(), q)
	if err == nil && out.Offers == nil {
		out.Offers = []api.Offer{}
	}
	return out.Offers, err
}

// compatSessions is every session that there is, where no limit is given.
func (s *Server) compatSessions(r *http.Request) (any, error) {
	if err := s.rented(); err != nil {
		return nil, err
	}
	v := r.URL.Query()
	q := SessionQuery{Status: api.SessionStatus(v.Get("status")), Provider: v.Get("provider"), Before: v.Get("before"), Limit: 1000}
	most := maxCompat
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "limit: %s", err)
		}
		q.Limit, most = n, n
	}
	all := []api.Session{}
	for {
		list, err := s.o.Rentals.Sessions(r.Context(), q)
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		all = append(all, list...)
		if len(list) < q.Limit || len(all) >= most {
			return all, nil
		}
		q.Before = list[len(list)-1].Id
	}
}
