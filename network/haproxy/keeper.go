package haproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server/ask"
)

// DefaultEvery is how often a keeper looks.
const DefaultEvery = 5 * time.Second

// nobody is what the slots ask for that have no replica; the server answers
// nothing to it. It is what the template in deploy/haproxy.cfg has.
const nobody = "00000000000000000000000000"

// Options say whose slots are kept. Socket, Backend and Routes must be given.
type Options struct {
	Socket  string // of HAProxy's runtime API
	Backend string // all of its servers are slots
	// StateFile is HAProxy's server-state-file; beside it, as .slots, lies which
	// replica has which slot. Empty: nothing is kept.
	StateFile string
	// Routes asks the server for all replicas.
	Routes func(context.Context) ([]api.Route, error)
	// PinMap is the file of HAProxy's map by which looks from outside are pinned to
	// slots, and PinSecret what their pins are made with; empty: there are none.
	PinMap    string
	PinSecret []byte
	TLS       bool // the slots speak TLS: only https addresses are put into them
	// Networks are those of nodes; none: all but this machine's own and link-local
	// ones, since a node names its address itself.
	Networks []netip.Prefix
	Resolve  func(ctx context.Context, host string) ([]netip.Addr, error) // nil: the system's
	Every    time.Duration                                                // zero: DefaultEvery
	Log      *slog.Logger                                                 // nil: nothing is logged
}

// Keeper keeps the slots of one backend.
type Keeper struct {
	o       Options
	runtime runtime

	known    bool               // what assigned says is from the server, or from its last answer
	assigned map[string]replica // by slot
	waiting  []string           // ids of replicas that have none
	process  process            // that applied is about
	applied  map[string]string  // by slot: what its agent check asks for
	saved    string             // of the state file, without its times
	savedAs  string             // of the file beside it
	pinned   string             // of the map of pins
	told     map[string]string  // by topic: what was logged last
}

// New makes a keeper.
func New(o Options) (*Keeper, error) {
	switch {
	case o.Socket == "" || o.Routes == nil:
		return nil, errors.New("a keeper of slots needs HAProxy's socket and a server")
	case o.PinMap != "" && (strings.ContainsAny(o.PinMap, " ;\t\\\"'") || len(o.PinSecret) < ask.MinSecret):
		return nil, errors.New("the map of pins needs a plain path and a secret")
	case !plainName(o.Backend):
		return nil, errors.New("the backend's name is one that HAProxy cannot have")
	}
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	k := &Keeper{o: o, runtime: runtime(o.Socket), assigned: map[string]replica{}, applied: map[string]string{}, told: map[string]string{}}
	return k, k.load()
}

// Run passes until ctx ends. What fails is told, and tried again.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(k.o.Every)
	defer tick.Stop()
	for {
		k.tell("pass", k.Pass(ctx))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell logs an error once, until it is another one.
func (k *Keeper) tell(topic string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if k.told[topic] == text {
		return
	}
	k.told[topic] = text
	if err != nil && !errors.Is(err, context.Canceled) {
		k.o.Log.Error("the slots could not be kept; it is tried again", "error", err)
	} else if err == nil {
		k.o.Log.Info("the slots can be kept again")
	}
}

// Pass asks the server and HAProxy once, and has each slot stand for its replica.
// An error of the server alone does not keep it from telling HAProxy what is known.
func (k *Keeper) Pass(ctx context.Context) error {
	routes, asked := k.o.Routes(ctx)
	p, slots, err := k.runtime.observe(ctx, k.o.Backend)
	if err != nil {
		return errors.Join(asked, err)
	}
	if p != k.process {
		k.process, k.applied, k.saved = p, map[string]string{}, ""
		k.o.Log.Info("an HAProxy that knows nothing of its slots yet", "pid", p.pid, "slots", len(slots))
	}
	if asked == nil {
		asked = k.assign(ctx, routes, slots)
		k.known = true
	}
	if !k.known {
		return asked // what is there is all that is known
	}
	err = k.apply(ctx, slots)
	return errors.Join(asked, err, k.pins(ctx), k.save(ctx))
}

// apply tells HAProxy what it does not know or has otherwise.
func (k *Keeper) apply(ctx context.Context, slots []slot) error {
	var batch []string
	var ids [][2]string
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		answer, err := k.runtime.ask(ctx, batch...)
		if err == nil {
			if c := complaint(answer); c != "" {
				err = fmt.Errorf("HAProxy does not do what it is told: %s", c)
			}
		}
		if err == nil {
			for _, id := range ids {
				k.applied[id[0]] = id[1]
			}
		}
		batch, ids, size = nil, nil, 0
		return err
	}
	var errs []error
	for _, s := range slots {
		commands, id := k.commands(s)
		if len(commands) == 0 {
			continue
		}
		n := 0
		for _, c := range commands {
			n += len(c) + 1
		}
		if size+n > maxCommands {
			errs = append(errs, flush())
		}
		batch, ids, size = append(batch, commands...), append(ids, [2]string{s.name, id}), size+n
	}
	return errors.Join(append(errs, flush())...)
}

// commands are what makes a slot stand for its replica. A slot that was another's
// gets nothing until the server has said "ready" for the new one.
func (k *Keeper) commands(s slot) (commands []string, id string) {
	server := "set server " + k.o.Backend + "/" + s.name
	had, told := k.applied[s.name]
	r, ok := k.assigned[s.name]
	if !ok {
		if told && had == nobody {
			return nil, nobody
		}
		if !s.maintained() {
			commands = append(commands, server+" state maint")
		}
		return append(commands, server+" agent-send "+nobody), nobody
	}
	moved := s.addr != r.Addr || s.port != r.Port
	if had == r.ID && !moved {
		return nil, r.ID
	}
	if moved || told && had != r.ID {
		commands = append(commands, server+" state maint")
	}
	if moved {
		commands = append(commands, fmt.Sprintf("%s addr %s port %d", server, r.Addr, r.Port))
	}
	return append(commands, server+" agent-send "+r.ID), r.ID
}

// allowed says whether requests may be sent to an address.
func (k *Keeper) allowed(a netip.Addr) bool {
	if len(k.o.Networks) == 0 {
		return !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsUnspecified() && !a.IsMulticast()
	}
	return slices.ContainsFunc(k.o.Networks, func(p netip.Prefix) bool { return p.Contains(a) })
}
