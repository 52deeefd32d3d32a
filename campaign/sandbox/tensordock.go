package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// tensordock serves TensorDock's API.
func (s *Sandbox) tensordock() http.Handler {
	mux := http.NewServeMux()
	on := func(pattern, call string, open bool, do func(*http.Request) answer) {
		mux.HandleFunc(pattern, s.handle(TensorDock, call, func(r *http.Request) answer {
			if !open && !s.authorised(TensorDock, r) {
				return answer{status: http.StatusUnauthorized, body: map[string]any{"status": 401, "error": "Unauthorized"}}
			}
			return do(r)
		}))
	}
	on("GET /locations", callOffers, true, s.tdLocations) // which needs no key
	on("GET /secrets", callAccount, false, func(*http.Request) answer {
		return ok(map[string]any{"data": map[string]any{"type": "secrets", "attributes": map[string]any{"secrets": []any{}}}})
	})
	on("POST /instances", callCreate, false, s.tdCreate)
	on("GET /instances", callList, false, s.tdList)
	on("GET /instances/{id}", callGet, false, s.tdGet)
	on("DELETE /instances/{id}", callDestroy, false, s.tdDestroy)
	return mux
}

// tdError is an error as this cloud says it: with status 200.
func tdError(status int, text string) answer {
	return ok(map[string]any{"status": status, "error": text})
}

func (s *Sandbox) tdLocations(*http.Request) answer {
	var places []map[string]any
	for _, o := range s.offers[TensorDock] {
		if len(places) == 0 || places[len(places)-1]["id"] != o.location {
			places = append(places, map[string]any{"id": o.location, "city": s.text(TensorDock, "Winden"), "country": "Germany", "gpus": []any{}})
		}
		l := places[len(places)-1]
		l["gpus"] = append(l["gpus"].([]any), map[string]any{
			"v0Name": o.gpu, "displayName": s.text(TensorDock, o.gpu), "max_count": o.count, "price_per_hr": o.base,
			"resources": map[string]any{"max_vcpus": 64, "max_ram_gb": 256, "max_storage_gb": 2000},
			"pricing":   map[string]any{"per_vcpu_hr": o.vcpu, "per_gb_ram_hr": o.ram, "per_gb_storage_hr": o.storage},
		})
	}
	return ok(map[string]any{"data": map[string]any{"locations": places}})
}

func (s *Sandbox) tdCreate(r *http.Request) answer {
	var body struct {
		Data struct {
			Type       string `json:"type"`
			Attributes struct {
				Name      string `json:"name"`
				Image     string `json:"image"`
				Location  string `json:"location_id"`
				SSHKey    string `json:"ssh_key"`
				Resources struct {
					VCPUs   int                            `json:"vcpu_count"`
					RAM     int                            `json:"ram_gb"`
					Storage float64                        `json:"storage_gb"`
					GPUs    map[string]struct{ Count int } `json:"gpus"`
				} `json:"resources"`
				CloudInit struct {
					Run []string `json:"runcmd"`
				} `json:"cloud_init"`
			} `json:"attributes"`
		} `json:"data"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Data.Type != "virtualmachine" {
		return tdError(400, "Invalid request body")
	}
	at := body.Data.Attributes
	if at.Resources.Storage < 100 {
		return tdError(400, "storage_gb must be at least 100")
	}
	if at.SSHKey == "" || at.Name == "" || len(at.Resources.GPUs) != 1 {
		return tdError(400, "name, ssh_key and one kind of GPU are needed")
	}
	q := request{cloud: TensorDock, label: at.Name, image: at.Image, diskGB: at.Resources.Storage, sshKey: at.SSHKey}
	for name, g := range at.Resources.GPUs {
		q.offer, q.gpus = s.offer(TensorDock, at.Location+"/"+name), max(g.Count, 1)
	}
	for _, line := range at.CloudInit.Run {
		q.onStart += line + "\n"
	}
	i, err := s.create(q)
	switch {
	case errors.Is(err, errNoIP):
		return tdError(400, "No available public IPs found on the hostnode")
	case errors.Is(err, errNoMoney):
		return tdError(402, "Insufficient balance")
	case err != nil:
		return tdError(404, "No available nodes found")
	case s.hit(TensorDock, FaultCreateLost):
		return answer{none: true}
	}
	return answer{status: http.StatusCreated, body: map[string]any{"data": map[string]any{"type": "virtualmachine", "id": i.id, "name": i.label, "status": "running"}}}
}

// tdGet is a machine's page, which is not wrapped.
func (s *Sandbox) tdGet(r *http.Request) answer {
	i := s.find(TensorDock, r.PathValue("id"))
	if i == nil {
		return tdError(404, "Instance not found")
	}
	return ok(s.tdMachine(i))
}

func (s *Sandbox) tdMachine(i *instance) map[string]any {
	out := map[string]any{
		"id": i.id, "name": i.label, "status": s.tdState(i), "rateHourly": i.hour, "location_id": i.offer.location,
		"createdAt": i.created.UTC().Format(time.RFC3339Nano), "portForwards": []any{},
	}
	if i.state == stateRunning && !time.Now().Before(i.ipAfter) {
		out["ipAddress"] = i.host
		out["portForwards"] = []any{map[string]int{"internal_port": 22, "external_port": i.port}}
	}
	return out
}

// tdState is an instance's state in this cloud's words.
func (s *Sandbox) tdState(i *instance) string {
	switch i.state {
	case stateRunning:
		return "running"
	case stateStopped:
		return s.text(TensorDock, "stopped")
	case stateExited, stateOffline:
		return "error"
	}
	return "starting"
}

// tdList is the list, in one of three shapes.
func (s *Sandbox) tdList(*http.Request) answer {
	if s.hit(TensorDock, FaultHuge) {
		return answer{status: http.StatusOK, raw: huge()}
	}
	list, cut := s.damaged(TensorDock, s.listed(TensorDock))
	wrapped, bare := []any{}, []any{}
	for _, i := range list {
		m := s.tdMachine(i)
		bare = append(bare, m)
		wrapped = append(wrapped, map[string]any{"type": "virtualmachine", "id": i.id, "attributes": m})
	}
	shape := int(s.value(TensorDock, SettingListShape))
	if shape == 0 {
		s.shape++
		shape = s.shape%3 + 1
	}
	var body any
	switch shape {
	case 1:
		body = map[string]any{"data": map[string]any{"type": "list", "id": "instances", "attributes": map[string]any{"instances": wrapped}}}
	case 2:
		body = map[string]any{"data": map[string]any{"instances": wrapped}}
	default:
		body = map[string]any{"instances": bare}
	}
	if cut {
		return answer{status: http.StatusOK, raw: half(body)}
	}
	return ok(body)
}

func (s *Sandbox) tdDestroy(r *http.Request) answer {
	i := s.find(TensorDock, r.PathValue("id"))
	if i == nil {
		return tdError(404, "Instance not found")
	}
	switch s.destroy(i, "api") {
	case refused:
		return tdError(409, "Instance is locked by another operation")
	case lost:
		return answer{none: true}
	}
	return ok(map[string]any{"data": map[string]any{"id": i.id, "deleted": true}})
}
