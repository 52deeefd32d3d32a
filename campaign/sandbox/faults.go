package sandbox

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Kind says what the value of a switch is.
type Kind string

const (
	Share   Kind = "share"   // of the calls or instances that could, 0 to 1
	Seconds Kind = "seconds" // of the clouds' clock
	Number  Kind = "number"  // what the help says
)

// Switch is something that a cloud does, or is.
type Switch struct {
	Name string
	Kind Kind
	Help string
	// Off is its value unless it is set, and Nasty that of --faults: rates as seen
	// in the open, by which about two of three first tries fail.
	Off, Nasty float64
}

// Names of switches.
const (
	FaultNoCapacity    = "no-capacity"
	FaultNoIP          = "no-public-ip"
	FaultStale         = "stale-offer"
	FaultDespite       = "created-despite-error"
	FaultCreateLost    = "create-lost"
	FaultPriceJump     = "price-jump"
	FaultListEmpty     = "list-empty"
	FaultListMalformed = "list-malformed"
	FaultListPartial   = "list-partial"
	FaultPageError     = "list-page-error"
	FaultRetired       = "list-retired"
	FaultRetiredAfter  = "list-retired-after"
	FaultKey           = "key-revoked"
	FaultBadKeyAs404   = "bad-key-as-404"
	FaultLimits        = "limits"
	FaultStorm         = "storm"
	FaultServer        = "server-error"
	FaultHang          = "hang"
	FaultHuge          = "huge-answer"
	FaultHostile       = "hostile-text"
	FaultBootNever     = "boot-never"
	FaultBootStopped   = "boot-stopped"
	FaultBootExited    = "boot-exited"
	FaultWrongGPU      = "wrong-gpu"
	FaultHostDies      = "host-dies"
	FaultDestroyRefuse = "destroy-refused"
	FaultDestroyLost   = "destroy-lost"
	FaultDestroyIgnore = "destroy-ignored"

	SettingListLag    = "list-lag"
	SettingListShape  = "list-shape"
	SettingPageSize   = "page-size"
	SettingNull       = "null-state"
	SettingBoot       = "boot"
	SettingKeyLate    = "key-late"
	SettingIPLate     = "ip-late"
	SettingDiesAfter  = "dies-after"
	SettingRefusedFor = "refused-for"
	SettingImageGB    = "image-gb"
	SettingPullGB     = "pull-gb"
	SettingBalance    = "balance"
)

// Switches are all of them. Beside them stand the habits that are always there: Vast's
// page of an instance that is gone says null with status 200, its old list answers
// 410, its prices depend on the storage that is asked for and its bandwidth is billed
// apart; TensorDock says errors with status 200, takes no disk below 100 GB and
// creates without an address; a stopped instance bills its disk.
func Switches() []Switch {
	return []Switch{
		{FaultNoCapacity, Share, "creates are refused: no such ask, no available nodes", 0, 0.20},
		{FaultNoIP, Share, "creates are refused at TensorDock: no available public IPs", 0, 0.10},
		{FaultStale, Share, "offers that are listed and gone, always the same ones", 0, 0.10},
		{FaultDespite, Share, "Vast creates, and answers 400, 404 or 410 with the contract", 0, 0.05},
		{FaultCreateLost, Share, "creates that happen, and whose answer is lost", 0, 0.04},
		{FaultPriceJump, Share, "instances that cost half as much again as their offer", 0, 0.02},
		{FaultListEmpty, Share, "lists that are empty, with status 200", 0, 0.03},
		{FaultListMalformed, Share, "lists that end in the middle", 0, 0.03},
		{FaultListPartial, Share, "lists that lack an instance", 0, 0.03},
		{FaultPageError, Share, "later pages of a list that answer 500", 0, 0.03},
		{FaultRetired, Number, "1: the list's endpoint is retired, and answers with an empty list for good", 0, 0},
		{FaultRetiredAfter, Seconds, "the list's endpoint is retired so long after the start of the sandbox' first instance", 0, 0},
		{FaultKey, Number, "1: the account's key is revoked", 0, 0},
		{FaultBadKeyAs404, Number, "1: Vast answers a wrong key with 404 auth_error, 0: with 401", 1, 1},
		{FaultLimits, Number, "1: calls below the least interval are answered 429, in plain text at Vast; they are counted in any case", 0, 1},
		{FaultStorm, Share, "calls that are answered 429 for no reason", 0, 0.02},
		{FaultServer, Share, "calls that are answered 500", 0, 0.02},
		{FaultHang, Share, "calls whose connection closes without an answer, before anything happens", 0, 0.01},
		{FaultHuge, Share, "lists of 64 MiB", 0, 0},
		{FaultHostile, Number, "1: names and messages carry terminal escapes", 0, 0},
		{FaultBootNever, Share, "instances that never run", 0, 0.10},
		{FaultBootStopped, Share, "instances that the provider stops when they have booted", 0, 0.05},
		{FaultBootExited, Share, "instances whose container exits", 0, 0.05},
		{FaultWrongGPU, Share, "machines with another GPU than was rented", 0, 0.03},
		{FaultHostDies, Share, "instances whose host dies", 0, 0.08},
		{FaultDestroyRefuse, Share, "instances that cannot be destroyed for a while", 0, 0.05},
		{FaultDestroyLost, Share, "destroys that happen, and whose answer is lost", 0, 0.04},
		{FaultDestroyIgnore, Share, "destroys that are accepted, and do not happen", 0, 0.02},

		{SettingListLag, Seconds, "how late lists are", 0, 20},
		{SettingListShape, Number, "shape of TensorDock's list, 1 to 3; 0: one after the other", 0, 0},
		{SettingPageSize, Number, "the largest page of Vast's list", 25, 25},
		{SettingNull, Seconds, "until an instance has a state", 2, 5},
		{SettingBoot, Seconds, "and then until it runs", 20, 60},
		{SettingKeyLate, Seconds, "and then until its key works", 0, 12},
		{SettingIPLate, Seconds, "and until TensorDock knows its address", 0, 10},
		{SettingDiesAfter, Seconds, "from running until a host dies that does", 120, 240},
		{SettingRefusedFor, Seconds, "how long a destroy is refused", 60, 120},
		{SettingImageGB, Number, "gigabytes that an image pulls, billed apart at Vast", 0, 8},
		{SettingPullGB, Number, "gigabytes of models that a machine pulls as soon as it runs, billed apart at Vast", 0, 5},
		{SettingBalance, Number, "USD on each account before anything was rented", 1000, 1000},
	}
}

// Nasty are the values of --faults.
func Nasty() map[string]float64 {
	out := map[string]float64{}
	for _, w := range Switches() {
		out[w.Name] = w.Nasty
	}
	return out
}

// Set changes switches. A name may begin with a cloud's, as "vast:list-empty", and is
// then for that one only.
func (s *Sandbox) Set(values map[string]float64) error {
	for name, v := range values {
		if err := checkSwitch(name, v); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, v := range values {
		s.faults[name] = v
	}
	return nil
}

func checkSwitch(name string, v float64) error {
	if cloud, rest, ok := strings.Cut(name, ":"); ok && (cloud == Vast || cloud == TensorDock) {
		name = rest
	}
	all := Switches()
	at := slices.IndexFunc(all, func(w Switch) bool { return w.Name == name })
	switch {
	case at < 0:
		return fmt.Errorf("no switch is called %q", name)
	case math.IsNaN(v) || v < 0 || v > 1e9:
		return fmt.Errorf("%s=%v: it is a number from 0", name, v)
	case all[at].Kind == Share && v > 1:
		return fmt.Errorf("%s=%v: it is a share from 0 to 1", name, v)
	}
	return nil
}

// Next makes the next n decisions about a fault come out against the caller,
// whatever its share is.
func (s *Sandbox) Next(name string, n int) error {
	if err := checkSwitch(name, 0); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[name] = n
	return nil
}

// value is a switch's value for a cloud, with s.mu held.
func (s *Sandbox) value(cloud, name string) float64 {
	if v, ok := s.faults[cloud+":"+name]; ok {
		return v
	}
	if v, ok := s.faults[name]; ok {
		return v
	}
	for _, w := range Switches() {
		if w.Name == name {
			return w.Off
		}
	}
	return 0
}

// on reports whether a switch is on, with s.mu held.
func (s *Sandbox) on(cloud, name string) bool { return s.value(cloud, name) > 0 }

// hit decides by chance whether a fault happens now, with s.mu held.
func (s *Sandbox) hit(cloud, name string) bool {
	if name == FaultNoIP && cloud != TensorDock {
		return false
	}
	happens := false
	for _, n := range []string{cloud + ":" + name, name} {
		if s.next[n] > 0 {
			s.next[n]--
			happens = true
			break
		}
	}
	if share := s.value(cloud, name); !happens && share > 0 {
		happens = s.rng.Float64() < share
	}
	if happens {
		s.hits[name]++
	}
	return happens
}

// retired reports whether a cloud's list is, with s.mu held.
func (s *Sandbox) retired(cloud string) bool {
	after := s.value(cloud, FaultRetiredAfter)
	late := after > 0 && len(s.instances) > 0 && time.Since(s.instances[0].created) > s.seconds(cloud, FaultRetiredAfter)
	if s.on(cloud, FaultRetired) || late {
		s.hits[FaultRetired]++
		return true
	}
	return false
}
