package tensordock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/foreign"
)

// machine is one as pages and lists give it.
type machine struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Status   string          `json:"status"`
	IP       string          `json:"ipAddress"`
	Forwards json.RawMessage `json:"portForwards"`
	Hour     float64         `json:"rateHourly"`
	Location string          `json:"location_id"`
	Created  *time.Time      `json:"createdAt"`
}

func gone(err error) bool { return errors.Is(err, provider.ErrGone) }

// Create rents a machine. Its answer has no address yet.
func (c *Cloud) Create(ctx context.Context, o provider.Order) (provider.Instance, error) {
	if err := o.Check(); err != nil {
		return provider.Instance{}, err
	}
	body, err := order(o)
	if err != nil {
		return provider.Instance{}, err
	}
	a, err := c.do(ctx, provider.CallCreate, http.MethodPost, "/instances", body)
	i := created(a)
	if i.ID == "" && err == nil {
		err = fmt.Errorf("%w: a create without an id: %s", provider.ErrMalformed, a.Said())
	}
	if i.ID != "" {
		i.Label, i.State, i.Location, i.Hour = o.Label, provider.Starting, o.Offer.Location, o.Offer.Price.Hour
		i.GPU, i.GPUs = o.Offer.GPU, o.Offer.GPUs
	}
	if err != nil {
		err = fmt.Errorf("create %s: %w", o.Label, err)
	}
	return i, err
}

// created finds the id in the answer to a create, whatever else it says.
func created(a provider.Answer) provider.Instance {
	var body struct {
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(a.Body, &body) != nil || provider.PlainID(body.Data.ID) != nil {
		return provider.Instance{}
	}
	return provider.Instance{ID: body.Data.ID}
}

// Get reads a machine's own page.
func (c *Cloud) Get(ctx context.Context, id string) (provider.Instance, error) {
	if err := provider.PlainID(id); err != nil {
		return provider.Instance{}, fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	a, err := c.do(ctx, provider.CallGet, http.MethodGet, "/instances/"+id, nil)
	if err != nil {
		return provider.Instance{}, err
	}
	i, err := decodeMachine(a.Body)
	if err == nil && i.ID != id {
		err = fmt.Errorf("%w: the page is about machine %s", provider.ErrMalformed, i.ID)
	}
	if err != nil {
		return provider.Instance{}, fmt.Errorf("machine %s: %w", id, err)
	}
	return i, nil
}

// List reads the list, in whichever of its shapes it comes.
func (c *Cloud) List(ctx context.Context) ([]provider.Instance, error) {
	a, err := c.do(ctx, provider.CallList, http.MethodGet, "/instances", nil)
	if err != nil {
		return nil, err
	}
	return decodeList(a)
}

// decodeList finds the list: under data.attributes.instances, data.instances, data
// itself, or instances. A null is none of them.
func decodeList(a provider.Answer) ([]provider.Instance, error) {
	raw, err := findList(a)
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil || !isList(raw) {
		return nil, fmt.Errorf("%w: a list in a shape that is not known: %s", provider.ErrMalformed, a.Said())
	}
	out := []provider.Instance{}
	for _, item := range items {
		i, err := decodeMachine(item)
		if err != nil {
			return nil, err // one that cannot be read may be ours
		}
		out = append(out, i)
	}
	return out, nil
}

func findList(a provider.Answer) (json.RawMessage, error) {
	var top struct {
		Data      json.RawMessage `json:"data"`
		Instances json.RawMessage `json:"instances"`
	}
	if err := a.JSON(&top); err != nil {
		return nil, err
	}
	if isList(top.Data) {
		return top.Data, nil
	}
	var data struct {
		Instances  json.RawMessage `json:"instances"`
		Attributes struct {
			Instances json.RawMessage `json:"instances"`
		} `json:"attributes"`
	}
	if len(top.Data) > 0 {
		if err := json.Unmarshal(top.Data, &data); err != nil {
			return nil, fmt.Errorf("%w: %s", provider.ErrMalformed, a.Said())
		}
	}
	for _, raw := range []json.RawMessage{top.Instances, data.Instances, data.Attributes.Instances} {
		if isList(raw) {
			return raw, nil
		}
	}
	return nil, fmt.Errorf("%w: a list in a shape that is not known: %s", provider.ErrMalformed, a.Said())
}

func isList(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) }

// decodeMachine reads one machine, unwrapped, under attributes, or under data.
func decodeMachine(raw json.RawMessage) (provider.Instance, error) {
	var item struct {
		machine
		Attributes *machine        `json:"attributes"`
		Data       json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &item); err != nil {
		return provider.Instance{}, fmt.Errorf("%w: %s", provider.ErrMalformed, foreign.Line(raw, maxName))
	}
	if item.ID == "" && len(item.Data) > 0 && bytes.HasPrefix(bytes.TrimSpace(item.Data), []byte("{")) {
		var inner map[string]json.RawMessage
		if json.Unmarshal(item.Data, &inner) == nil && len(inner["data"]) == 0 {
			return decodeMachine(item.Data)
		}
	}
	m := item.machine
	if item.Attributes != nil {
		id := m.ID
		if m = *item.Attributes; m.ID == "" {
			m.ID = id
		}
	}
	return m.instance()
}

func (m machine) instance() (provider.Instance, error) {
	if err := provider.PlainID(m.ID); err != nil {
		return provider.Instance{}, err
	}
	hour, err := provider.USD(m.Hour)
	if err != nil {
		return provider.Instance{}, err
	}
	i := provider.Instance{
		ID: m.ID, Label: foreign.Line(m.Name, 4*provider.MaxLabel), State: state(m.Status), Said: foreign.Line(m.Status, maxName),
		Location: foreign.Line(m.Location, maxName), Hour: hour,
	}
	i.Host, i.Port = provider.Address(m.IP, m.port())
	if m.Created != nil {
		i.Created = m.Created.UTC()
	}
	return i, nil
}

// port is the outer one of SSH: 22 where nothing is forwarded.
func (m machine) port() int {
	var list []struct {
		Inner int `json:"internal_port"`
		Outer int `json:"external_port"`
	}
	var table map[string]int
	switch {
	case json.Unmarshal(m.Forwards, &list) == nil:
		for _, f := range list {
			if f.Inner == 22 {
				return f.Outer
			}
		}
	case json.Unmarshal(m.Forwards, &table) == nil && table["22"] != 0:
		return table["22"]
	}
	return 22
}

// state translates. What is not in the table is unknown.
func state(word string) provider.State {
	switch word {
	case "starting", "creating", "pending", "provisioning":
		return provider.Starting
	case "running", "online":
		return provider.Running
	case "stopping", "stopped", "stoppeddisassociated":
		return provider.Stopped
	case "error", "failed", "deleting", "deleted":
		return provider.Dead
	}
	return provider.Unknown
}
