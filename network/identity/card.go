package identity

import (
	"regexp"
	"strings"
	"time"
)

// Card is a GPU as a node showed it, from when to when.
type Card struct {
	UUID, Serial string // as the node spelt them
	Name, Driver string
	Bus          string // PCI bus id
	MIG, VGPU    string // as assay.GPU has them
	MemoryBytes  int64
	First        time.Time
	Gone         time.Time // zero: the node's last inventory has it
}

var (
	hexOnly = regexp.MustCompile(`^[0-9a-f]+$`)
	serial  = regexp.MustCompile(`^[0-9a-z][0-9a-z-]{7,39}$`)
)

// UUID is a card's UUID in one spelling, so that nobody escapes by another one. It
// is empty for what tells no card from others: a bus id in the place of a UUID, a
// part of a card, zeros.
func UUID(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if strings.HasPrefix(s, "mig-") {
		return ""
	}
	s = strings.ReplaceAll(strings.TrimPrefix(s, "gpu-"), "-", "")
	if len(s) != 32 && len(s) != 16 || !hexOnly.MatchString(s) || uniform(s) {
		return "" // 16 digits are AMD's
	}
	return s
}

// subject names a card in findings. It is the same however a node spells the UUID:
// what a person has decided on cannot be brought up again by another spelling.
func (c Card) subject() string {
	u := UUID(c.UUID)
	if len(u) == 32 {
		u = "GPU-" + strings.Join([]string{u[:8], u[8:12], u[12:16], u[16:20], u[20:]}, "-")
	}
	return "gpu " + u
}

// Serial is a board's serial number in one spelling; empty for one that is none, as
// the zeros that cards without one show.
func Serial(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if !serial.MatchString(s) || uniform(s) || !strings.ContainsAny(s, "123456789") {
		return ""
	}
	return s
}

// uniform says whether all characters are the same.
func uniform(s string) bool { return s == "" || strings.Count(s, s[:1]) == len(s) }

// bus is a PCI bus id in one spelling: NVML has a domain of eight digits, sysfs one
// of four.
func bus(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	domain, rest, ok := strings.Cut(s, ":")
	switch {
	case !ok:
		return s
	case !strings.Contains(rest, ":"):
		return "0000:" + s
	}
	for len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	return domain + ":" + rest
}

// part says whether a node may show this card as one of several that have parts of
// it: each of them sees the UUID of the whole.
func (c Card) part() bool {
	return c.MIG == "enabled" || c.VGPU == "vgpu"
}

// severalOnABoard are cards of which a board has several, with one serial number.
var severalOnABoard = regexp.MustCompile(`(?i)\b(a16|k80|m60|m10|k1|k2|k10|mi250x?)\b`)

func (c Card) ownBoard() bool { return !severalOnABoard.MatchString(c.Name) }
