package sandbox

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Handler serves the clouds: Vast below /vast, TensorDock below /tensordock/api/v2.
func (s *Sandbox) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/vast/", http.StripPrefix("/vast", s.vast()))
	mux.Handle("/tensordock/api/v2/", http.StripPrefix("/tensordock/api/v2", s.tensordock()))
	return mux
}

// Paths of the clouds below the sandbox' own URL.
const (
	VastPath       = "/vast"
	TensorDockPath = "/tensordock/api/v2"
)

// Kinds of calls, as the limits count them.
const (
	callOffers  = "offers"
	callCreate  = "create"
	callList    = "list"
	callGet     = "get"
	callDestroy = "destroy"
	callAccount = "account"
	callKey     = "ssh-key"
)

// least are the intervals that the clouds state, by cloud and kind; the empty kind is
// for all calls together.
func least(cloud, call string) time.Duration {
	if cloud == TensorDock {
		return 600 * time.Millisecond
	}
	switch call {
	case callOffers:
		return 6 * time.Second
	case callCreate:
		return 4500 * time.Millisecond
	case callDestroy:
		return 3 * time.Second
	case callGet:
		return 2 * time.Second
	case callList:
		return time.Second
	}
	return 0
}

// slack is how much of an interval may be missing: clients wait by their own clock,
// and requests overtake each other on the way.
const slack = 0.1

// count counts a call and reports whether it came too early, with s.mu held.
func (s *Sandbox) count(cloud, call string) (early bool) {
	s.calls[cloud+" "+call]++
	key := cloud + " " + call
	if cloud == TensorDock {
		key = cloud
	}
	now := time.Now()
	last, seen := s.last[key]
	s.last[key] = now
	want := least(cloud, call)
	after := time.Duration(float64(now.Sub(last)) * s.c.Scale)
	// What the machine itself takes for a request is no fault of the client's.
	grace := time.Duration(slack*float64(want)) + time.Duration(float64(5*time.Millisecond)*s.c.Scale)
	if !seen || want == 0 || after >= want-grace {
		return false
	}
	s.broken = append(s.broken, Violation{Cloud: cloud, Call: call, At: now, After: after, Least: want})
	return true
}

// answer is what a cloud says: a status and a body, or nothing at all.
type answer struct {
	status int
	body   any // JSON; a string is plain text
	raw    []byte
	none   bool // the connection closes
}

// guard counts a call, and makes the faults that any call can have. Its answer is nil
// when the call goes on; with s.mu held.
func (s *Sandbox) guard(cloud, call string) *answer {
	early := s.count(cloud, call)
	switch {
	case early && s.on(cloud, FaultLimits), s.hit(cloud, FaultStorm):
		if cloud == Vast {
			return &answer{status: http.StatusTooManyRequests, body: "API requests too frequent"}
		}
		return &answer{status: http.StatusTooManyRequests, body: map[string]any{"status": 429, "error": "Too many requests"}}
	case s.hit(cloud, FaultHang):
		return &answer{none: true}
	case s.hit(cloud, FaultServer):
		return &answer{status: http.StatusInternalServerError, body: map[string]any{"error": "internal"}}
	}
	return nil
}

// write sends an answer.
func (a answer) write(w http.ResponseWriter) {
	if a.none {
		panic(http.ErrAbortHandler) // closes the connection, and is not logged
	}
	if text, ok := a.body.(string); ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(text))
		return
	}
	b := a.raw
	if b == nil {
		b, _ = json.Marshal(a.body)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(b)
}

// maxRequest bounds what a client may send.
const maxRequest = 1 << 20

// bearer is the key of a request.
func bearer(r *http.Request) string {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

// authorised reports whether a request has the account's key, with s.mu held.
func (s *Sandbox) authorised(cloud string, r *http.Request) bool {
	return bearer(r) == s.keys[cloud] && !s.on(cloud, FaultKey)
}

// handle makes a handler of a function that runs with s.mu held. A request that was
// read is answered outside of it.
func (s *Sandbox) handle(cloud, call string, do func(*http.Request) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		s.serve(cloud, call, r, do).write(w)
	}
}

func (s *Sandbox) serve(cloud, call string, r *http.Request, do func(*http.Request) answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.guard(cloud, call); a != nil {
		return *a
	}
	return do(r)
}

// damaged makes a list what its faults say: empty, without some, or broken; with s.mu
// held.
func (s *Sandbox) damaged(cloud string, list []*instance) (out []*instance, cut bool) {
	switch {
	case s.retired(cloud), s.hit(cloud, FaultListEmpty):
		return nil, false
	case s.hit(cloud, FaultListMalformed):
		return list, true
	case len(list) > 0 && s.hit(cloud, FaultListPartial):
		return list[1:], false
	}
	return list, false
}

// huge is a list without end, as far as a client can tell.
func huge() []byte { return []byte(`{"instances":[` + strings.Repeat(`"x",`, 16<<20) + `"x"]}`) }

// half is the beginning of a document.
func half(body any) []byte {
	b, _ := json.Marshal(body)
	return b[:len(b)-len(b)/3-1]
}

// text is a name as the cloud gives it, hostile where that is switched on; with s.mu
// held.
func (s *Sandbox) text(cloud, name string) string {
	if s.on(cloud, FaultHostile) {
		return name + "\x1b]0;owned\a\x1b[31m\u202e"
	}
	return name
}
