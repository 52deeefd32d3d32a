package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// instance is a machine that is, or was, rented.
type instance struct {
	cloud   string
	serial  int64
	id      string
	label   string
	image   string
	offer   *offer
	gpus    int
	disk    float64
	sshKey  string
	onStart string
	selfKey string // destroys this instance and nothing else

	created  time.Time
	ended    time.Time // zero: it lives
	endedBy  string
	hour     float64 // USD while it runs
	diskHour float64 // and while it does not
	downGB   float64
	upGB     float64

	state    string // "", loading, running, stopped, exited, offline
	halted   time.Time
	full     time.Duration // that was billed in full before it was halted
	host     string
	port     int
	ipAfter  time.Time
	refuse   time.Time // destroy is refused before
	asked    time.Time // the first destroy
	timers   []*time.Timer
	stop     func()
	stopping bool
}

func (i *instance) alive() bool { return i.ended.IsZero() }

// States of an instance, in Vast's words; TensorDock's are made of them.
const (
	stateNone    = ""
	stateLoading = "loading"
	stateRunning = "running"
	stateStopped = "stopped"
	stateExited  = "exited"
	stateOffline = "offline"
)

// boot plans an instance's life, with s.mu held.
func (s *Sandbox) boot(i *instance) {
	s.after(i, s.seconds(i.cloud, SettingNull), func() {
		if i.state == stateNone { // on a fast clock the next timer may be first
			i.state = stateLoading
		}
	})
	boot := s.seconds(i.cloud, SettingNull) + s.seconds(i.cloud, SettingBoot)
	switch {
	case s.hit(i.cloud, FaultBootNever):
		return
	case s.hit(i.cloud, FaultBootStopped):
		s.after(i, boot, func() { s.halt(i, stateStopped) })
		return
	case s.hit(i.cloud, FaultBootExited):
		s.after(i, boot, func() { s.halt(i, stateExited) })
		return
	}
	wrong := s.hit(i.cloud, FaultWrongGPU)
	s.after(i, boot, func() { s.start(i, wrong) })
	if s.hit(i.cloud, FaultHostDies) {
		s.after(i, boot+s.seconds(i.cloud, SettingDiesAfter), func() { s.halt(i, stateOffline) })
	}
}

// after does something to an instance later, with s.mu held, if it still lives.
func (s *Sandbox) after(i *instance, d time.Duration, do func()) {
	i.timers = append(i.timers, time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i.alive() && s.ctx.Err() == nil {
			do()
		}
	}))
}

// halt makes an instance do nothing, and bill its disk; with s.mu held.
func (s *Sandbox) halt(i *instance, state string) {
	if i.halted.IsZero() {
		i.halted = time.Now()
		i.full = i.halted.Sub(i.created)
	}
	i.state, i.host, i.port = state, "", 0
	i.halt()
}

// halt ends what is behind the instance, without waiting for it.
func (i *instance) halt() {
	for _, t := range i.timers {
		t.Stop()
	}
	i.timers = nil
	i.stopping = true
	if i.stop != nil {
		go i.stop()
		i.stop = nil
	}
}

// end ends an instance for good, with s.mu held.
func (s *Sandbox) end(i *instance, by string) {
	if i.halted.IsZero() {
		i.full = time.Since(i.created)
	}
	i.ended, i.endedBy = time.Now(), by
	if i.cloud == Vast {
		i.offer.taken = false
	}
	i.halt()
}

// cost is what the instance cost until now, in USD.
func (i *instance) cost(scale float64, now time.Time) (run, disk, net float64) {
	until := now
	if !i.alive() {
		until = i.ended
	}
	full, idle := until.Sub(i.created), time.Duration(0)
	if !i.halted.IsZero() {
		full, idle = i.full, until.Sub(i.halted)
	}
	hours := func(d time.Duration) float64 { return d.Hours() * scale }
	up, down := i.offer.bandwidth()
	return hours(full) * i.hour, hours(idle) * i.diskHour, i.upGB*up + i.downGB*down
}

// token makes a secret of n hexadecimal characters.
func token(n int) string {
	b := make([]byte, (n+1)/2)
	_, _ = rand.Read(b) // which does not fail
	return hex.EncodeToString(b)[:n]
}
