// Package vast rents at Vast.ai.
//
// It promises that what its API is known to do wrong is not believed: a list whose
// pages do not add up to its own total is an error, a 404 is not an end unless the
// page of the instance says null, an error that carries a contract is an instance,
// and a key that is refused with a 404 is a key that is refused.
//
// It refuses to retry, and to rent interruptibly: who is outbid in the middle has
// measured nothing.
package vast

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/foreign"
)

// Base is the API's own URL.
const Base = "https://console.vast.ai"

// Config is how to reach it.
type Config struct {
	// Base is the API's URL; empty: [Base].
	Base string
	// NodeBase is the same as an instance reaches it; empty: Base.
	NodeBase string
	// Key is the account's.
	Key string
	// Wait gives each request its turn; nil: at once.
	Wait provider.Wait
	// Transport carries the requests; nil: the standard library's.
	Transport http.RoundTripper
}

// Cloud is Vast.ai as a provider, with instances' pages and a balance.
type Cloud struct{ web provider.Web }

// New makes a client. It asks nothing yet.
func New(c Config) *Cloud {
	if c.Base == "" {
		c.Base = Base
	}
	return &Cloud{web: provider.Web{Base: c.Base, Key: c.Key, Wait: c.Wait, Transport: c.Transport}}
}

// Traits are what is known of it.
func Traits(c Config) provider.Traits {
	base := c.NodeBase
	if base == "" {
		base = c.Base
	}
	if base == "" {
		base = Base
	}
	return provider.Traits{
		Name: "vast",
		MinInterval: map[provider.Call]time.Duration{
			provider.CallOffers:  6 * time.Second, // ten a minute
			provider.CallCreate:  4500 * time.Millisecond,
			provider.CallDestroy: 3 * time.Second,
			provider.CallGet:     2 * time.Second,
			provider.CallList:    time.Second,
			provider.CallBalance: time.Second,
		},
		ListLag:   30 * time.Second,
		KeyLag:    15 * time.Second,
		User:      "root",
		MinDiskGB: 10,
		DeadMan: provider.DeadMan{
			Guarantee: provider.EndsAll,
			Text:      "an instance has a key that destroys itself and nothing else: it ends, disk included, when nobody renews its lease",
			End:       endSelf(base),
			Boots:     true,
		},
	}
}

// endSelf is the command by which an instance destroys itself, with whichever
// program its image has.
func endSelf(base string) string {
	url := base + `/api/v0/instances/$CONTAINER_ID/`
	auth := `Authorization: Bearer $CONTAINER_API_KEY`
	return `{ command -v curl >/dev/null && curl -fsS -m 30 -X DELETE -H "` + auth + `" "` + url + `"; } || ` +
		`{ command -v wget >/dev/null && wget -q -T 30 -O - --method=DELETE --header="` + auth + `" "` + url + `"; } || ` +
		`python3 -c 'import os,sys,urllib.request as u; u.urlopen(u.Request(sys.argv[1],method="DELETE",headers={"Authorization":"Bearer "+os.environ["CONTAINER_API_KEY"]}),timeout=30)' "` + url + `"`
}

// said is what every answer of this API may carry.
type said struct {
	Success *bool  `json:"success"`
	Error   string `json:"error"`
	Msg     string `json:"msg"`
}

// do makes a request and knows how this API refuses a key: also by a 404.
func (c *Cloud) do(ctx context.Context, call provider.Call, method, path string, body any) (provider.Answer, error) {
	a, err := c.web.Do(ctx, call, method, path, body)
	if err != nil {
		return a, err
	}
	var s said
	if a.Status >= 400 && json.Unmarshal(a.Body, &s) == nil && s.Error == "auth_error" {
		return a, fmt.Errorf("%s %s: HTTP %d: %w: %s", method, path, a.Status, provider.ErrKey, a.Said())
	}
	return a, nil
}

// Balance gives the credit that is left.
func (c *Cloud) Balance(ctx context.Context) (assay.Money, error) {
	a, err := c.do(ctx, provider.CallBalance, http.MethodGet, "/api/v0/users/current/", nil)
	if err != nil {
		return assay.Money{}, err
	}
	if a.Status != http.StatusOK {
		return assay.Money{}, a.Unexpected()
	}
	var user struct {
		Credit *float64 `json:"credit"`
	}
	if err := a.JSON(&user); err != nil {
		return assay.Money{}, err
	}
	if user.Credit == nil {
		return assay.Money{}, fmt.Errorf("%w: the account's page has no credit", provider.ErrMalformed)
	}
	return provider.USD(max(*user.Credit, 0)) // an account in debt has nothing left
}

// Destroy ends an instance.
func (c *Cloud) Destroy(ctx context.Context, id string) error {
	if err := numeric(id); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	a, err := c.do(ctx, provider.CallDestroy, http.MethodDelete, "/api/v0/instances/"+id+"/", nil)
	if err != nil {
		return err
	}
	var s said
	if err := a.JSON(&s); err != nil {
		return err
	}
	switch {
	case a.Status == http.StatusOK && s.Success != nil && *s.Success:
		return nil
	case a.Status == http.StatusNotFound && s.Error == "no_such_instance":
		return nil
	}
	return fmt.Errorf("destroy instance %s: %w", id, a.Unexpected())
}

// numeric refuses what is no id of this API.
func numeric(id string) error {
	if n, err := strconv.ParseInt(id, 10, 64); err != nil || n <= 0 || strconv.FormatInt(n, 10) != id {
		return fmt.Errorf("%w: %q is no id of an instance", provider.ErrMalformed, foreign.Line(id, 80))
	}
	return nil
}
