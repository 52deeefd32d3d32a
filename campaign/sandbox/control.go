package sandbox

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/assay-bench/assay/internal/foreign"
)

// Control serves what the clouds themselves do not: the book and the switches. It is
// for loopback, since it has no key.
//
//	GET  /book                        what really happened
//	GET  /switches                    all of them, with their values
//	PUT  /switches                    {"NAME": VALUE, …}
//	POST /next?name=NAME&count=N      the fault hits the next N times
//	POST /instances/{id}/kill         the instance's host dies
//	POST /instances/{id}/stop         the provider stops it
func (s *Sandbox) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /book", func(w http.ResponseWriter, _ *http.Request) { ok(s.Book()).write(w) })
	mux.HandleFunc("GET /switches", func(w http.ResponseWriter, _ *http.Request) { ok(s.values()).write(w) })
	mux.HandleFunc("PUT /switches", func(w http.ResponseWriter, r *http.Request) {
		var values map[string]float64
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&values)
		if err == nil {
			err = s.Set(values)
		}
		outcome(err, s.values).write(w)
	})
	mux.HandleFunc("POST /next", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("count"))
		if err == nil {
			err = s.Next(r.FormValue("name"), n)
		}
		outcome(err, s.values).write(w)
	})
	for verb, state := range map[string]string{"kill": stateOffline, "stop": stateStopped} {
		mux.HandleFunc("POST /instances/{id}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			if !s.stopInstance(r.PathValue("id"), state) {
				answer{status: http.StatusNotFound, body: map[string]string{"error": "no such instance lives"}}.write(w)
				return
			}
			ok(s.Book()).write(w)
		})
	}
	return mux
}

// outcome is an error, or a value.
func outcome(err error, value func() any) answer {
	if err != nil {
		return answer{status: http.StatusBadRequest, body: map[string]string{"error": foreign.Line(err.Error(), 300)}}
	}
	return ok(value())
}

// values are the switches as the control endpoint shows them.
func (s *Sandbox) values() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	type row struct {
		Kind       Kind    `json:"kind"`
		Help       string  `json:"help"`
		Vast       float64 `json:"vast"`
		TensorDock float64 `json:"tensordock"`
	}
	out := map[string]row{}
	for _, w := range Switches() {
		out[w.Name] = row{w.Kind, w.Help, s.value(Vast, w.Name), s.value(TensorDock, w.Name)}
	}
	return out
}

// stopInstance halts one from outside, as a host that dies does.
func (s *Sandbox) stopInstance(id, state string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cloud := range []string{Vast, TensorDock} {
		if i := s.find(cloud, id); i != nil {
			s.halt(i, state)
			return true
		}
	}
	return false
}
