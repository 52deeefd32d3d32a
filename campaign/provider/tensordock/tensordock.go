// Package tensordock rents virtual machines at TensorDock, by version 2 of its API.
//
// It promises to read errors where this API puts them, which is in answers with
// status 200, and lists in each of the shapes that it has had; a shape that is not
// known is an error and not an empty list.
//
// It refuses to call a shut-down machine an end: its disk is billed until it is
// deleted. The API has no balance; a key is proved by the list of secrets, which a
// wrong one does not get.
package tensordock

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
)

// Base is the API's own URL.
const Base = "https://dashboard.tensordock.com/api/v2"

// Config is how to reach it.
type Config struct {
	// Base is the API's URL; empty: [Base].
	Base string
	// Key is the organisation's.
	Key string
	// Wait gives each request its turn; nil: at once.
	Wait provider.Wait
	// Transport carries the requests; nil: the standard library's.
	Transport http.RoundTripper
}

// What is ordered beside the GPUs, for each of them.
const (
	vcpus = 8
	ramGB = 32
)

// minDiskGB is the smallest disk that the API accepts.
const minDiskGB = 100

// Cloud is TensorDock as a provider, with machines' pages.
type Cloud struct{ web provider.Web }

// New makes a client. It asks nothing yet.
func New(c Config) *Cloud {
	if c.Base == "" {
		c.Base = Base
	}
	return &Cloud{web: provider.Web{Base: c.Base, Key: c.Key, Wait: c.Wait, Transport: c.Transport}}
}

// Traits are what is known of it.
func Traits() provider.Traits {
	return provider.Traits{
		Name:      "tensordock",
		MinAny:    600 * time.Millisecond, // a hundred a minute
		ListLag:   time.Minute,
		KeyLag:    time.Minute,
		User:      "user",
		MinDiskGB: minDiskGB,
		DeadMan: provider.DeadMan{
			Guarantee: provider.EndsCompute,
			Text:      "a machine can only shut itself down: its disk is billed until it is deleted from outside",
			End:       "sudo -n shutdown -h now || sudo -n poweroff || shutdown -h now || poweroff",
			Boots:     true,
		},
	}
}

// do makes a request and finds the errors in its answer.
func (c *Cloud) do(ctx context.Context, call provider.Call, method, path string, body any) (provider.Answer, error) {
	a, err := c.web.Do(ctx, call, method, path, body)
	if err != nil {
		return a, err
	}
	if err := fault(a); err != nil {
		return a, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return a, nil
}

// fault is the error that an answer has in it.
func fault(a provider.Answer) error {
	status := bodyStatus(a)
	said := strings.ToLower(string(a.Body))
	switch {
	case status < 300:
		return nil
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%w: %s", provider.ErrKey, a.Said())
	case status == http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s", provider.ErrRate, a.Said())
	case strings.Contains(said, "no available nodes") || strings.Contains(said, "no available public ip"):
		return fmt.Errorf("%w: %s", provider.ErrNoCapacity, a.Said())
	case strings.Contains(said, "insufficient") && strings.Contains(said, "balance"):
		return fmt.Errorf("%w: %s", provider.ErrNoMoney, a.Said())
	case status == http.StatusNotFound && strings.Contains(said, "instance not found"):
		return fmt.Errorf("%w: %s", provider.ErrGone, a.Said())
	}
	return fmt.Errorf("status %d: %s", status, a.Said())
}

// bodyStatus is the status that the body states, where that is an error's, and that of
// HTTP else. A machine's page has a status too, which is a word.
func bodyStatus(a provider.Answer) int {
	var top map[string]json.RawMessage
	if json.Unmarshal(a.Body, &top) != nil {
		return a.Status
	}
	if n, err := strconv.Atoi(strings.Trim(string(top["status"]), `"`)); err == nil && n >= 400 && n < 600 {
		return n
	}
	if e := string(top["error"]); e != "" && e != "null" && e != `""` {
		return max(a.Status, http.StatusBadRequest)
	}
	return a.Status
}

// ProveKey asks for the names of the organisation's secrets, and forgets them.
func (c *Cloud) ProveKey(ctx context.Context) error {
	a, err := c.do(ctx, provider.CallBalance, http.MethodGet, "/secrets", nil)
	if err != nil {
		return err
	}
	var body struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &body); err != nil || len(body.Data) == 0 {
		return fmt.Errorf("%w: the list of secrets", provider.ErrMalformed) // whose text is nobody's to see
	}
	return nil
}

// Destroy deletes a machine.
func (c *Cloud) Destroy(ctx context.Context, id string) error {
	if err := provider.PlainID(id); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	_, err := c.do(ctx, provider.CallDestroy, http.MethodDelete, "/instances/"+id, nil)
	if gone(err) {
		return nil
	}
	return err
}
