package command

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/foreign"
)

// request is what a program reads.
type request struct {
	Protocol string `json:"protocol"`
	Verb     string `json:"verb"`
	Query    *query `json:"query,omitempty"`
	Order    *order `json:"order,omitempty"`
	ID       string `json:"id,omitempty"`
}

type query struct {
	GPU       string  `json:"gpu"`
	GPUs      int     `json:"gpus"`
	MinVRAMGB float64 `json:"min_vram_gb"`
	DiskGB    int     `json:"disk_gb"`
}

type order struct {
	Label   string `json:"label"`
	Offer   string `json:"offer"`
	GPUs    int    `json:"gpus"`
	Image   string `json:"image"`
	DiskGB  int    `json:"disk_gb"`
	SSHKey  string `json:"ssh_key"`
	OnStart string `json:"on_start"`
}

// failure is an error that a program states.
type failure struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// failed is the error that a program states, in whichever shape.
func failed(raw json.RawMessage) error {
	var f failure
	if json.Unmarshal(raw, &f) != nil {
		f = failure{Kind: "error", Text: string(raw)}
	}
	return f.err()
}

// err is what a kind means. One that the protocol does not have means nothing.
func (f failure) err() error {
	text := foreign.Line(f.Text, maxSaid)
	switch f.Kind {
	case "no_capacity":
		return fmt.Errorf("%w: %s", provider.ErrNoCapacity, text)
	case "key":
		return fmt.Errorf("%w: %s", provider.ErrKey, text)
	case "rate":
		return fmt.Errorf("%w: %s", provider.ErrRate, text)
	case "money":
		return fmt.Errorf("%w: %s", provider.ErrNoMoney, text)
	case "gone":
		return fmt.Errorf("%w: %s", provider.ErrGone, text)
	}
	return fmt.Errorf("%s: %s", foreign.Line(f.Kind, maxName), text)
}

// description is what a program says of itself.
type description struct {
	Verbs       []string           `json:"verbs"`
	User        string             `json:"user"`
	ListLag     float64            `json:"list_lag_s"`
	KeyLag      float64            `json:"key_lag_s"`
	MinInterval map[string]float64 `json:"min_interval_s"`
	MinDiskGB   int                `json:"min_disk_gb"`
	DeadMan     struct {
		Ends  string `json:"ends"` // nothing, compute or all
		Text  string `json:"text"`
		End   string `json:"command"`
		Boots bool   `json:"boots"`
	} `json:"dead_man"`
}

// maxLag bounds what a program may state in seconds.
const maxLag = 3600

func (d description) traits(name string) (provider.Traits, error) {
	t := provider.Traits{Name: name, User: "root", MinInterval: map[provider.Call]time.Duration{}, MinDiskGB: d.MinDiskGB}
	if d.User != "" {
		if t.User = d.User; provider.PlainID(d.User) != nil {
			return t, fmt.Errorf("%w: user %q", provider.ErrMalformed, foreign.Line(d.User, maxName))
		}
	}
	var err error
	if t.ListLag, err = seconds("list_lag_s", d.ListLag); err != nil {
		return t, err
	}
	if t.KeyLag, err = seconds("key_lag_s", d.KeyLag); err != nil {
		return t, err
	}
	for _, c := range provider.Calls() {
		if t.MinInterval[c], err = seconds("min_interval_s", d.MinInterval[string(c)]); err != nil {
			return t, err
		}
	}
	t.DeadMan = provider.DeadMan{Guarantee: provider.Guarantee(d.DeadMan.Ends), Text: foreign.Line(d.DeadMan.Text, maxSaid), End: d.DeadMan.End, Boots: d.DeadMan.Boots}
	switch t.DeadMan.Guarantee {
	case provider.EndsAll, provider.EndsCompute:
	case provider.EndsNothing, "":
		t.DeadMan = provider.DeadMan{Guarantee: provider.EndsNothing, Text: "a machine cannot end what it costs: only this campaign and reap do"}
	default:
		return t, fmt.Errorf("%w: dead_man.ends is nothing, compute or all", provider.ErrMalformed)
	}
	return t, nil
}

func seconds(name string, v float64) (time.Duration, error) {
	if !(v >= 0 && v <= maxLag) {
		return 0, fmt.Errorf("%w: %s: %v is not from 0 to %d", provider.ErrMalformed, name, v, maxLag)
	}
	return time.Duration(v * float64(time.Second)), nil
}

// offer is one as a program writes it.
type offer struct {
	ID          string  `json:"id"`
	Machine     string  `json:"machine"`
	Location    string  `json:"location"`
	GPU         string  `json:"gpu"`
	GPUs        int     `json:"gpus"`
	VRAMGB      float64 `json:"vram_gb"`
	Reliability float64 `json:"reliability"`
	Hour        float64 `json:"usd_hour"`
	Stopped     float64 `json:"usd_stopped_hour"`
	Up          float64 `json:"usd_up_gb"`
	Down        float64 `json:"usd_down_gb"`
}

func (w offer) offer(disk int) (provider.Offer, error) {
	if err := provider.PlainID(w.ID); err != nil {
		return provider.Offer{}, err
	}
	price, err := provider.Prices(w.Hour, w.Stopped, w.Up, w.Down)
	if err != nil || !(w.VRAMGB >= 0 && w.VRAMGB < 1e5) || !(w.Reliability >= 0 && w.Reliability <= 1) {
		return provider.Offer{}, provider.ErrMalformed
	}
	return provider.Offer{
		ID: w.ID, Machine: foreign.Line(w.Machine, maxName), Location: foreign.Line(w.Location, maxName), GPU: foreign.Line(w.GPU, maxName),
		GPUs: max(w.GPUs, 1), VRAM: int64(w.VRAMGB * (1 << 30)), Reliability: w.Reliability, DiskGB: disk, Price: price,
	}, nil
}

// instance is one as a program writes it.
type instance struct {
	ID       string     `json:"id"`
	Label    string     `json:"label"`
	State    string     `json:"state"`
	Said     string     `json:"said"`
	Machine  string     `json:"machine"`
	Location string     `json:"location"`
	GPU      string     `json:"gpu"`
	GPUs     int        `json:"gpus"`
	Host     string     `json:"host"`
	Port     int        `json:"port"`
	Hour     float64    `json:"usd_hour"`
	Created  *time.Time `json:"created"`
}

func (w instance) instance() (provider.Instance, error) {
	if err := provider.PlainID(w.ID); err != nil {
		return provider.Instance{}, err
	}
	hour, err := provider.USD(w.Hour)
	if err != nil {
		return provider.Instance{}, err
	}
	i := provider.Instance{
		ID: w.ID, Label: foreign.Line(w.Label, 4*provider.MaxLabel), Said: foreign.Line(w.Said, maxName), Machine: foreign.Line(w.Machine, maxName),
		Location: foreign.Line(w.Location, maxName), GPU: foreign.Line(w.GPU, maxName), GPUs: w.GPUs, Hour: hour,
	}
	switch s := provider.State(w.State); s {
	case provider.Starting, provider.Running, provider.Stopped, provider.Dead:
		i.State = s
	}
	i.Host, i.Port = provider.Address(w.Host, w.Port)
	if w.Created != nil {
		i.Created = w.Created.UTC()
	}
	return i, nil
}
