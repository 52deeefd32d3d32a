package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Bounds of a conversation with HAProxy, which reads a command line of at most
// one buffer: 16 KiB unless it was told otherwise.
const (
	askTimeout  = 10 * time.Second
	maxCommands = 8 << 10
	maxAnswer   = 64 << 20
)

// runtime is HAProxy's runtime API on a socket.
type runtime string

// ask sends commands on one connection, so that one process answers all of them,
// and gives the answer.
func (r runtime) ask(ctx context.Context, commands ...string) (string, error) {
	line := strings.Join(commands, ";")
	if strings.ContainsAny(line, "\r\n") {
		return "", errors.New("ask HAProxy: a command has a line's end")
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", string(r))
	if err != nil {
		return "", fmt.Errorf("ask HAProxy: %w", err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", fmt.Errorf("ask HAProxy: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(c, maxAnswer+1))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("ask HAProxy: %w", ctx.Err())
	case err != nil:
		return "", fmt.Errorf("ask HAProxy: %w", err)
	case len(b) > maxAnswer:
		return "", fmt.Errorf("ask HAProxy: it answers with more than %d bytes", maxAnswer)
	}
	return string(b), nil
}

// process is which HAProxy answers: another one knows nothing of what was set.
type process struct{ pid, started string }

// slot is a server of the backend, as HAProxy has it.
type slot struct {
	name  string
	addr  netip.Addr // zero: none
	port  uint16
	admin int // flags; see maintained
}

// Flags of a server's administrative state that mean maintenance by whoever used
// the runtime API, or that it was inherited or has no address.
const maintenance = 0x01 | 0x02 | 0x20

func (s slot) maintained() bool { return s.admin&maintenance != 0 }

// observe asks what is there.
func (r runtime) observe(ctx context.Context, backend string) (process, []slot, error) {
	answer, err := r.ask(ctx, "show info", "show servers state "+backend)
	if err != nil {
		return process{}, nil, err
	}
	var p process
	for line := range strings.Lines(answer) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name {
		case "Pid":
			p.pid = value
		case "Start_time_sec":
			p.started = value
		}
	}
	if p.pid == "" {
		return p, nil, fmt.Errorf("ask HAProxy: it does not say its process id: %q", foreign.Line(answer, 200))
	}
	slots, err := parseSlots(answer, backend)
	return p, slots, err
}

// parseSlots reads "show servers state", by the names of its columns.
func parseSlots(answer, backend string) ([]slot, error) {
	var columns map[string]int
	var slots []slot
	for line := range strings.Lines(answer) {
		if head, ok := strings.CutPrefix(line, "# be_id "); ok {
			columns = map[string]int{"be_id": 0}
			for i, name := range strings.Fields(head) {
				columns[name] = i + 1
			}
			continue
		}
		fields := strings.Fields(line)
		if columns == nil || len(fields) != len(columns) {
			continue
		}
		field := func(name string) string {
			i, ok := columns[name]
			if !ok {
				return ""
			}
			return fields[i]
		}
		if field("be_name") != backend {
			continue
		}
		s := slot{name: field("srv_name")}
		port, err := strconv.ParseUint(field("srv_port"), 10, 16)
		admin, err2 := strconv.Atoi(field("srv_admin_state"))
		if err := errors.Join(err, err2); err != nil || !plainName(s.name) {
			return nil, fmt.Errorf("read HAProxy's servers: %q: %w", foreign.Line(line, 200), errors.Join(err, errUnreadable))
		}
		s.port, s.admin = uint16(port), admin
		if a, err := netip.ParseAddr(field("srv_addr")); err == nil {
			s.addr = a
		}
		slots = append(slots, s)
	}
	if columns == nil || len(slots) == 0 {
		return nil, fmt.Errorf("HAProxy has no backend %s with servers in it: %q", backend, foreign.Line(answer, 200))
	}
	return slots, nil
}

var errUnreadable = errors.New("it is not as HAProxy 2.6 writes it")

// plainName says whether a name is one that HAProxy's configuration can have, and
// that means nothing else in a command.
func plainName(s string) bool {
	return s != "" && len(s) <= 200 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-") == ""
}

// complaint is the first line of an answer to "set server" that is no success.
func complaint(answer string) string {
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasSuffix(line, "by 'stats socket command'") && strings.Contains(line, "chang") && !strings.Contains(line, "only supported") {
			continue
		}
		return foreign.Line(line, 300)
	}
	return ""
}
