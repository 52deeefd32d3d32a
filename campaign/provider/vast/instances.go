package vast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/foreign"
)

// contract is an instance as lists and pages give it.
type contract struct {
	ID       int64    `json:"id"`
	Label    *string  `json:"label"`
	Status   *string  `json:"actual_status"`
	Intended string   `json:"intended_status"`
	Message  string   `json:"status_msg"`
	Machine  int64    `json:"machine_id"`
	GPU      string   `json:"gpu_name"`
	GPUs     int      `json:"num_gpus"`
	Location string   `json:"geolocation"`
	SSHHost  string   `json:"ssh_host"`
	SSHPort  int      `json:"ssh_port"`
	IP       string   `json:"public_ipaddr"`
	Hour     float64  `json:"dph_total"`
	Start    *float64 `json:"start_date"`
	Ports    map[string][]struct {
		HostPort string `json:"HostPort"`
	} `json:"ports"`
}

// Create rents by an ask. The key is attached by a second request, which an
// instance outlives: its error comes with the instance.
func (c *Cloud) Create(ctx context.Context, o provider.Order) (provider.Instance, error) {
	if err := o.Check(); err != nil {
		return provider.Instance{}, err
	}
	if err := numeric(o.Offer.ID); err != nil {
		return provider.Instance{}, fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	ask := map[string]any{
		"client_id": "me", "image": o.Image, "disk": max(o.DiskGB, o.Offer.DiskGB), "label": o.Label,
		"runtype": "ssh_direct", "onstart": o.OnStart, "cancel_unavail": true,
	}
	a, err := c.do(ctx, provider.CallCreate, http.MethodPut, "/api/v0/asks/"+o.Offer.ID+"/", ask)
	i, createErr := created(a, err)
	if createErr != nil {
		createErr = fmt.Errorf("create %s: %w", o.Label, createErr)
	}
	if i.ID == "" {
		return provider.Instance{}, createErr
	}
	i.Label, i.State, i.Machine, i.Location = o.Label, provider.Starting, o.Offer.Machine, o.Offer.Location
	i.GPU, i.GPUs, i.Hour = o.Offer.GPU, o.Offer.GPUs, o.Offer.Price.Hour
	return i, errors.Join(createErr, c.attach(ctx, i.ID, o.SSHKey))
}

// created reads the answer to a create. Whatever its status is, a contract in it is
// an instance.
func created(a provider.Answer, err error) (provider.Instance, error) {
	var made struct {
		said
		Contract int64 `json:"new_contract"`
	}
	var i provider.Instance
	decodeErr := json.Unmarshal(a.Body, &made)
	if decodeErr == nil && made.Contract > 0 {
		i.ID = strconv.FormatInt(made.Contract, 10)
	}
	switch {
	case err != nil:
		return i, err
	case decodeErr != nil:
		return i, fmt.Errorf("%w: HTTP %d: %s", provider.ErrMalformed, a.Status, a.Said())
	case a.Status == http.StatusOK && made.Success != nil && *made.Success && i.ID != "":
		return i, nil
	case made.Error == "insufficient_credit":
		return i, fmt.Errorf("%w: %s", provider.ErrNoMoney, a.Said())
	case a.Status == http.StatusBadRequest || a.Status == http.StatusNotFound || a.Status == http.StatusGone:
		return i, fmt.Errorf("%w: HTTP %d: %s", provider.ErrNoCapacity, a.Status, a.Said())
	}
	return i, a.Unexpected()
}

// attach gives an instance its key.
func (c *Cloud) attach(ctx context.Context, id, key string) error {
	if key == "" {
		return nil
	}
	a, err := c.do(ctx, provider.CallGet, http.MethodPost, "/api/v0/instances/"+id+"/ssh/", map[string]string{"ssh_key": key})
	if err == nil && a.Status != http.StatusOK {
		err = a.Unexpected()
	}
	if err != nil {
		return fmt.Errorf("attach the SSH key to instance %s: %w", id, err)
	}
	return nil
}

// pageSize is the largest that this API allows, and maxPages bounds a list that
// never ends.
const (
	pageSize = 25
	maxPages = 400
)

// List reads all pages. What they have must add up to the total that they state.
func (c *Cloud) List(ctx context.Context) ([]provider.Instance, error) {
	out := []provider.Instance{}
	seen, token := map[string]bool{}, ""
	for range maxPages {
		query := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if token != "" {
			query.Set("after_token", token)
		}
		a, err := c.do(ctx, provider.CallList, http.MethodGet, "/api/v1/instances/?"+query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		page, next, total, err := decodePage(a)
		if err != nil {
			return nil, err
		}
		for _, i := range page {
			if !seen[i.ID] { // pages move when instances come and go between them
				seen[i.ID] = true
				out = append(out, i)
			}
		}
		switch {
		case next == "" && total >= 0 && len(out) != total:
			return nil, fmt.Errorf("%w: the list states a total of %d instances, and has %d: ask again", provider.ErrMalformed, total, len(out))
		case next == "":
			return out, nil
		case len(page) == 0 || next == token:
			return nil, fmt.Errorf("%w: a list whose pages do not end", provider.ErrMalformed)
		}
		token = next
	}
	return nil, fmt.Errorf("%w: a list of more than %d pages", provider.ErrMalformed, maxPages)
}

// decodePage reads one page. A total of -1 is one that is not stated.
func decodePage(a provider.Answer) (page []provider.Instance, next string, total int, err error) {
	if a.Status != http.StatusOK {
		return nil, "", 0, a.Unexpected()
	}
	var body struct {
		said
		Instances *[]contract `json:"instances"`
		Next      *string     `json:"next_token"`
		Total     *int        `json:"total_instances"`
	}
	if err := a.JSON(&body); err != nil {
		return nil, "", 0, err
	}
	if body.Instances == nil || body.Success != nil && !*body.Success {
		return nil, "", 0, fmt.Errorf("%w: a list without instances: %s", provider.ErrMalformed, a.Said())
	}
	for _, c := range *body.Instances {
		i, err := c.instance()
		if err != nil {
			return nil, "", 0, err // an instance that cannot be read may be ours
		}
		page = append(page, i)
	}
	total = -1
	if body.Total != nil {
		total = *body.Total
	}
	if body.Next != nil {
		next = *body.Next
	}
	return page, next, total, nil
}

// Get reads an instance's own page, which says null when it is gone.
func (c *Cloud) Get(ctx context.Context, id string) (provider.Instance, error) {
	if err := numeric(id); err != nil {
		return provider.Instance{}, fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	a, err := c.do(ctx, provider.CallGet, http.MethodGet, "/api/v0/instances/"+id+"/", nil)
	if err != nil {
		return provider.Instance{}, fmt.Errorf("instance %s: %w", id, err)
	}
	i, err := decodeInstance(a)
	if err == nil && i.ID != id {
		err = fmt.Errorf("%w: the page is about instance %s", provider.ErrMalformed, i.ID)
	}
	if err != nil {
		return provider.Instance{}, fmt.Errorf("instance %s: %w", id, err)
	}
	return i, nil
}

// decodeInstance reads a page. Only a null where the instance should stand is an
// end: a page without it is not.
func decodeInstance(a provider.Answer) (provider.Instance, error) {
	if a.Status != http.StatusOK {
		return provider.Instance{}, a.Unexpected()
	}
	var body map[string]json.RawMessage
	if err := a.JSON(&body); err != nil {
		return provider.Instance{}, err
	}
	raw, ok := body["instances"]
	if !ok {
		return provider.Instance{}, fmt.Errorf("%w: a page without an instance: %s", provider.ErrMalformed, a.Said())
	}
	if string(raw) == "null" {
		return provider.Instance{}, provider.ErrGone
	}
	var c contract
	if err := json.Unmarshal(raw, &c); err != nil {
		return provider.Instance{}, fmt.Errorf("%w: %s", provider.ErrMalformed, a.Said())
	}
	return c.instance()
}

func (c contract) instance() (provider.Instance, error) {
	if c.ID <= 0 {
		return provider.Instance{}, fmt.Errorf("%w: an instance without an id", provider.ErrMalformed)
	}
	hour, err := provider.USD(c.Hour)
	if err != nil {
		return provider.Instance{}, err
	}
	i := provider.Instance{
		ID: strconv.FormatInt(c.ID, 10), State: c.state(), GPU: foreign.Line(c.GPU, maxName), GPUs: c.GPUs,
		Location: foreign.Line(c.Location, maxName), Hour: hour,
	}
	if c.Label != nil {
		i.Label = foreign.Line(*c.Label, 4*provider.MaxLabel)
	}
	if c.Machine > 0 {
		i.Machine = strconv.FormatInt(c.Machine, 10)
	}
	i.Said = foreign.Line(c.word()+": "+c.Message, maxName)
	i.Host, i.Port = c.address()
	if c.Start != nil && *c.Start > 0 && *c.Start < 1e11 {
		i.Created = time.UnixMicro(int64(*c.Start * 1e6)).UTC()
	}
	return i, nil
}

// word is the state in this API's own word.
func (c contract) word() string {
	if c.Status == nil {
		return "not started"
	}
	return *c.Status
}

// state translates. Nothing yet is the beginning; what is not in the table is
// unknown.
func (c contract) state() provider.State {
	if c.Status == nil {
		return provider.Starting
	}
	switch *c.Status {
	case "created", "loading", "rebooting":
		return provider.Starting
	case "running":
		return provider.Running
	case "stopped":
		return provider.Stopped
	case "exited", "unknown", "offline":
		return provider.Dead
	}
	return provider.Unknown
}

// address is where SSH answers: directly where a port is mapped, else by the
// provider's proxy.
func (c contract) address() (host string, port int) {
	if m := c.Ports["22/tcp"]; c.IP != "" && len(m) > 0 {
		if p, err := strconv.Atoi(m[0].HostPort); err == nil {
			host, port = c.IP, p
		}
	}
	if host == "" {
		host, port = c.SSHHost, c.SSHPort
	}
	return provider.Address(host, port)
}
