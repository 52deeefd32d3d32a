package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// vast serves Vast's API.
func (s *Sandbox) vast() http.Handler {
	mux := http.NewServeMux()
	on := func(pattern, call string, do func(*http.Request) answer) {
		mux.HandleFunc(pattern, s.handle(Vast, call, func(r *http.Request) answer {
			if !s.authorised(Vast, r) {
				return s.vastStranger(call, r)
			}
			return do(r)
		}))
	}
	on("POST /api/v0/bundles/{$}", callOffers, s.vastSearch)
	on("PUT /api/v0/asks/{id}/{$}", callCreate, s.vastCreate)
	on("GET /api/v0/instances/{id}/{$}", callGet, s.vastGet)
	on("DELETE /api/v0/instances/{id}/{$}", callDestroy, s.vastDestroy)
	on("POST /api/v0/instances/{id}/ssh/{$}", callKey, s.vastKey)
	on("GET /api/v0/users/current/{$}", callAccount, func(*http.Request) answer {
		return ok(map[string]any{"id": 1, "credit": s.balance(Vast)})
	})
	on("GET /api/v1/instances/{$}", callList, s.vastList)
	on("GET /api/v0/instances/{$}", callList, func(*http.Request) answer {
		return answer{status: http.StatusGone, body: map[string]any{"success": false, "error": "gone", "msg": "use /api/v1/instances/"}}
	})
	return mux
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

// vastStranger answers a request without the account's key. An instance's own key
// destroys that instance.
func (s *Sandbox) vastStranger(call string, r *http.Request) answer {
	if i := s.find(Vast, r.PathValue("id")); call == callDestroy && i != nil && bearer(r) == i.selfKey {
		return s.vastEnd(i, "self")
	}
	body := map[string]any{"success": false, "error": "auth_error", "msg": "Invalid user key"}
	if s.on(Vast, FaultBadKeyAs404) {
		return answer{status: http.StatusNotFound, body: body}
	}
	return answer{status: http.StatusUnauthorized, body: body}
}

// vastSearch prices offers for the storage that is asked for.
func (s *Sandbox) vastSearch(r *http.Request) answer {
	var q struct {
		GPU struct {
			In []string `json:"in"`
			Eq string   `json:"eq"`
		} `json:"gpu_name"`
		Storage *float64 `json:"allocated_storage"`
		Limit   int      `json:"limit"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return answer{status: http.StatusBadRequest, body: map[string]any{"success": false, "error": "invalid_args"}}
	}
	storage := 5.0
	if q.Storage != nil {
		storage = *q.Storage
	}
	wanted := map[string]bool{q.GPU.Eq: q.GPU.Eq != ""}
	for _, n := range q.GPU.In {
		wanted[n] = true
	}
	offers := []any{}
	for _, o := range s.offers[Vast] {
		if (len(wanted) > 1 || q.GPU.Eq != "") && !wanted[o.gpu] || o.taken || q.Limit > 0 && len(offers) >= q.Limit {
			continue
		}
		hour, _ := o.rates(1, storage)
		offers = append(offers, map[string]any{
			"id": o.number, "ask_contract_id": o.number, "machine_id": o.machine, "host_id": o.machine / 10, "gpu_name": s.text(Vast, o.gpu),
			"gpu_ram": o.vram >> 20, "num_gpus": o.count, "dph_total": hour, "dph_base": o.base, "min_bid": o.base / 2,
			"storage_cost": o.storage * hoursOfMonth, "inet_up_cost": o.up, "inet_down_cost": o.down, "reliability2": 0.97,
			"geolocation": s.text(Vast, o.location), "rentable": true, "rented": false,
		})
	}
	return ok(map[string]any{"offers": offers})
}

func (s *Sandbox) vastCreate(r *http.Request) answer {
	var ask struct {
		Client  string   `json:"client_id"`
		Image   string   `json:"image"`
		Disk    float64  `json:"disk"`
		Label   string   `json:"label"`
		RunType string   `json:"runtype"`
		OnStart string   `json:"onstart"`
		Price   *float64 `json:"price"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask.Client != "me" || ask.Disk <= 0 {
		return answer{status: http.StatusBadRequest, body: map[string]any{"success": false, "error": "invalid_args", "msg": "client_id and disk are needed"}}
	}
	i, err := s.create(request{
		cloud: Vast, offer: s.offer(Vast, r.PathValue("id")), gpus: 1, label: ask.Label, image: ask.Image, diskGB: ask.Disk, onStart: ask.OnStart,
	})
	switch {
	case errors.Is(err, errNoMoney):
		return answer{status: http.StatusBadRequest, body: map[string]any{"success": false, "error": "insufficient_credit", "msg": "Your account lacks credit"}}
	case err != nil:
		return answer{status: http.StatusNotFound, body: map[string]any{"success": false, "error": "no_such_ask", "msg": "error 404/3603: no_such_ask Instance type by id is not available."}}
	case s.hit(Vast, FaultCreateLost):
		return answer{none: true}
	}
	made := map[string]any{"success": true, "new_contract": i.serial, "instance_api_key": i.selfKey}
	if s.hit(Vast, FaultDespite) {
		made["success"], made["error"] = false, "no_such_ask"
		status := []int{http.StatusBadRequest, http.StatusNotFound, http.StatusGone}[s.rng.IntN(3)]
		return answer{status: status, body: made}
	}
	return ok(made)
}

// offer finds one, with s.mu held.
func (s *Sandbox) offer(cloud, id string) *offer {
	for _, o := range s.offers[cloud] {
		if o.id == id {
			return o
		}
	}
	return nil
}

func (s *Sandbox) vastKey(r *http.Request) answer {
	var body struct {
		Key string `json:"ssh_key"`
	}
	i := s.find(Vast, r.PathValue("id"))
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Key == "" || i == nil {
		return answer{status: http.StatusNotFound, body: map[string]any{"success": false, "error": "no_such_instance"}}
	}
	i.sshKey = body.Key
	return ok(map[string]any{"success": true})
}

// vastGet is an instance's page: null, with status 200, when it is gone.
func (s *Sandbox) vastGet(r *http.Request) answer {
	i := s.find(Vast, r.PathValue("id"))
	if i == nil {
		return ok(map[string]any{"instances": nil})
	}
	return ok(map[string]any{"instances": s.vastInstance(i)})
}

func (s *Sandbox) vastInstance(i *instance) map[string]any {
	out := map[string]any{
		"id": i.serial, "label": i.label, "machine_id": i.offer.machine, "gpu_name": s.text(Vast, i.offer.gpu), "num_gpus": i.gpus,
		"geolocation": i.offer.location, "dph_total": i.hour, "start_date": float64(i.created.UnixMicro()) / 1e6,
		"actual_status": nil, "intended_status": "running", "status_msg": s.text(Vast, "pulling"), "image_uuid": i.image,
		"public_ipaddr": nil, "ssh_host": "", "ssh_port": 0,
	}
	if i.state != stateNone {
		out["actual_status"] = i.state
	}
	if i.state == stateRunning {
		out["public_ipaddr"], out["ssh_host"], out["ssh_port"] = i.host, i.host, i.port
		out["ports"] = map[string]any{"22/tcp": []any{map[string]string{"HostIp": "0.0.0.0", "HostPort": strconv.Itoa(i.port)}}}
	}
	return out
}

// vastList is the paged list.
func (s *Sandbox) vastList(r *http.Request) answer {
	size := min(max(1, int(s.value(Vast, SettingPageSize))), 25)
	if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && limit > 0 {
		size = min(size, limit)
	}
	after, _ := strconv.ParseInt(r.URL.Query().Get("after_token"), 10, 64)
	if after > 0 && s.hit(Vast, FaultPageError) {
		return answer{status: http.StatusInternalServerError, body: map[string]any{"error": "internal"}}
	}
	if s.hit(Vast, FaultHuge) {
		return answer{status: http.StatusOK, raw: huge()}
	}
	all := s.listed(Vast)
	total := len(all)
	all, cut := s.damaged(Vast, all)
	if len(all) == 0 || s.rng.IntN(2) == 0 { // a partial list states its own length, or the true one
		total = len(all)
	}
	page, next := []any{}, any(nil)
	for _, i := range all {
		if i.serial <= after {
			continue
		}
		if len(page) == size {
			next = strconv.FormatInt(page[len(page)-1].(map[string]any)["id"].(int64), 10)
			break
		}
		page = append(page, s.vastInstance(i))
	}
	body := map[string]any{"success": true, "instances": page, "instances_found": len(page), "total_instances": total, "next_token": next}
	if cut {
		return answer{status: http.StatusOK, raw: half(body)}
	}
	return ok(body)
}

func (s *Sandbox) vastDestroy(r *http.Request) answer {
	i := s.find(Vast, r.PathValue("id"))
	if i == nil {
		return answer{status: http.StatusNotFound, body: map[string]any{"success": false, "error": "no_such_instance"}}
	}
	return s.vastEnd(i, "api")
}

func (s *Sandbox) vastEnd(i *instance, by string) answer {
	switch s.destroy(i, by) {
	case refused:
		return answer{status: http.StatusInternalServerError, body: map[string]any{"success": false, "error": "destroy_failed", "msg": "try again later"}}
	case lost:
		return answer{none: true}
	}
	return ok(map[string]any{"success": true})
}

// destroyed is what becomes of a destroy.
type destroyed int

const (
	done destroyed = iota
	lost
	refused
)

// destroy ends an instance, or does not; with s.mu held.
func (s *Sandbox) destroy(i *instance, by string) destroyed {
	now := time.Now()
	if i.asked.IsZero() {
		i.asked = now
		if s.hit(i.cloud, FaultDestroyRefuse) {
			i.refuse = now.Add(s.seconds(i.cloud, SettingRefusedFor))
		}
	}
	switch {
	case now.Before(i.refuse):
		return refused
	case s.hit(i.cloud, FaultDestroyIgnore):
		return done
	}
	s.end(i, by)
	if s.hit(i.cloud, FaultDestroyLost) {
		return lost
	}
	return done
}
