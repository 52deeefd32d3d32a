// Package node works on a rented machine over SSH: it looks at its GPUs, starts an
// engine there, measures it with the node binary and brings the run directory home.
//
// It promises:
//
//   - only the commands of a printed list run on the machine ([Commands]): constant
//     lines whose few words are checked before they are put in;
//   - every wait has an end. A connection that does not answer three keep-alives is
//     closed, and with it whatever waits on it; a command has a deadline;
//   - whoever answers at the machine's address is the one who answered at first: the
//     host key is pinned for the provider's instance id when the machine first let
//     us in, and any other is refused;
//   - everything that comes back is a stranger's: it is bounded before it is read,
//     has names of our own list, and is examined before anybody uses it.
//
// It refuses to trust the machine. A hash that the machine computes shows that a
// file arrived as it lay there, never that it is true; what is true of a run is
// what its evidence says when it is reduced again here.
package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Errors by what the caller should do after them.
var (
	// ErrNotReady says that the machine does not let us in yet: try again.
	ErrNotReady = errors.New("the machine does not answer by SSH yet")
	// ErrAuth says that the machine answers and refuses our key, longer than a
	// provider takes to install it: give it back.
	ErrAuth = errors.New("the machine refuses our key")
	// ErrHostKey says that somebody else answers at the machine's address: trust
	// nothing that comes from there, and give it back.
	ErrHostKey = errors.New("the host key is not the one that was pinned")
	// ErrLost says that the connection is gone: connect again, and go on.
	ErrLost = errors.New("the connection to the machine was lost")
	// ErrHostile says that the machine sent what no machine of ours sends: give it
	// back, and do not rent it again.
	ErrHostile = errors.New("the machine sent what it must not")
)

// Pins remembers host keys. Keys are lines as in authorized_keys.
type Pins interface {
	// HostKey gives the key that is pinned for an instance; empty: none is.
	HostKey(ctx context.Context, instance string) (string, error)
	// PinHostKey pins a key unless one is pinned, and gives the one that is.
	PinHostKey(ctx context.Context, instance, key string) (string, error)
}

// Options are how a machine is reached.
type Options struct {
	Address  string // HOST:PORT
	User     string
	Instance string // the provider's id, which the host key is pinned for
	Signer   ssh.Signer
	Pins     Pins

	// DialTimeout is for the connection and the handshake; 0: 20 s.
	DialTimeout time.Duration
	// KeepAlive is the time between keep-alives, and for the answer to one; 0: 15 s.
	KeepAlive time.Duration
	// CommandTimeout is for commands that take a moment; 0: one minute.
	CommandTimeout time.Duration
}

// maxMisses is how many keep-alives stay without an answer before a connection
// counts as lost.
const maxMisses = 3

func (o Options) resolved() Options {
	if o.DialTimeout <= 0 {
		o.DialTimeout = 20 * time.Second
	}
	if o.KeepAlive <= 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.CommandTimeout <= 0 {
		o.CommandTimeout = time.Minute
	}
	return o
}

// Node is a machine that let us in. Several goroutines may use one.
type Node struct {
	o      Options
	client *ssh.Client
	done   chan struct{}
	once   sync.Once
	why    error // set before done is closed
}

// Dial connects once. The error is ErrNotReady when nobody answers, ErrAuth when
// our key is refused, ErrHostKey when the wrong machine answers.
func Dial(ctx context.Context, o Options) (*Node, error) {
	o = o.resolved()
	pinned, err := o.Pins.HostKey(ctx, o.Instance)
	if err != nil {
		return nil, fmt.Errorf("read the pinned host key of %s: %w", o.Instance, err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	n, err := handshake(ctx, conn, o, pinned)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	go n.keepAlive()
	return n, nil
}

func handshake(ctx context.Context, conn net.Conn, o Options, pinned string) (*Node, error) {
	// The deadline ends a handshake that stands still, and the context any.
	if err := conn.SetDeadline(time.Now().Add(o.DialTimeout)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	key := hostKey{pinned: pinned}
	config := &ssh.ClientConfig{
		User: o.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(o.Signer)},
		HostKeyCallback: key.check, ClientVersion: "SSH-2.0-assay",
	}
	if err := key.restrict(config); err != nil {
		return nil, err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, o.Address, config)
	if err != nil {
		return nil, key.cause(err)
	}
	// Pinned only now: what did not let us in is not yet our machine, but perhaps
	// the provider's proxy in front of one that is being made.
	if err := key.pin(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Node{o: o, client: ssh.NewClient(c, channels, requests), done: make(chan struct{})}, nil
}

// Close ends the connection. What was started on the machine goes on.
func (n *Node) Close() { n.end(net.ErrClosed) }

func (n *Node) end(why error) {
	n.once.Do(func() {
		n.why = why
		close(n.done)
		_ = n.client.Close()
	})
}

// keepAlive asks the machine for an answer now and then, and ends the connection
// when none comes: TCP would wait for a quarter of an hour.
func (n *Node) keepAlive() {
	tick := time.NewTicker(n.o.KeepAlive)
	defer tick.Stop()
	answers := make(chan error, maxMisses+1)
	missed := 0
	for waiting := false; ; {
		select {
		case <-n.done:
			return
		case err := <-answers:
			if err != nil {
				n.end(fmt.Errorf("%w: %w", ErrLost, err))
				return
			}
			missed, waiting = 0, false
		case <-tick.C:
			if waiting {
				if missed++; missed >= maxMisses {
					n.end(fmt.Errorf("%w: %d keep-alives were not answered", ErrLost, missed))
					return
				}
				continue
			}
			waiting = true
			go func() {
				_, _, err := n.client.SendRequest("keepalive@openssh.com", true, nil)
				answers <- err
			}()
		}
	}
}

// hostKey decides about the key that a machine shows.
type hostKey struct {
	pinned string
	shown  string
	wrong  bool
}

func marshal(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// restrict asks the machine for the kind of key that is pinned: it may have several.
func (k *hostKey) restrict(config *ssh.ClientConfig) error {
	if k.pinned == "" {
		return nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(k.pinned))
	if err != nil {
		return fmt.Errorf("the pinned host key is none: %w", err)
	}
	config.HostKeyAlgorithms = []string{key.Type()}
	if key.Type() == ssh.KeyAlgoRSA { // which signs by newer algorithms
		config.HostKeyAlgorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return nil
}

func (k *hostKey) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	k.shown = marshal(key)
	if k.wrong = k.pinned != "" && k.shown != k.pinned; k.wrong {
		return ErrHostKey
	}
	return nil
}

// cause says what a handshake failed for.
func (k *hostKey) cause(err error) error {
	var none *ssh.AlgorithmNegotiationError
	switch {
	case k.wrong:
		return fmt.Errorf("%w: it shows %s, and %s is pinned", ErrHostKey, fingerprint(k.shown), fingerprint(k.pinned))
	case k.pinned != "" && errors.As(err, &none):
		return fmt.Errorf("%w: it has no key of that kind any more (%w)", ErrHostKey, err)
	case k.shown != "" && strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("%w (host key %s)", ErrAuth, fingerprint(k.shown))
	}
	return fmt.Errorf("%w: %w", ErrNotReady, err)
}

func (k *hostKey) pin(ctx context.Context, o Options) error {
	if k.pinned != "" {
		return nil
	}
	kept, err := o.Pins.PinHostKey(ctx, o.Instance, k.shown)
	switch {
	case err != nil:
		return fmt.Errorf("pin the host key of %s: %w", o.Instance, err)
	case kept != k.shown: // another worker was there first, and met another machine
		return fmt.Errorf("%w: it shows %s, and %s is pinned", ErrHostKey, fingerprint(k.shown), fingerprint(kept))
	}
	return nil
}

// fingerprint is a key as ssh prints it.
func fingerprint(line string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return "no key"
	}
	return ssh.FingerprintSHA256(key)
}

// Is reports whether err is one of the errors given.
func is(err error, any ...error) bool {
	return slices.ContainsFunc(any, func(e error) bool { return errors.Is(err, e) })
}
