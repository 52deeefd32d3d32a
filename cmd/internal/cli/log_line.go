package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// lineHandler logs lines for people: the message first, as it would be said, and
// what belongs to it behind it.
//
//	2026-11-15T09:00:00Z WARN Kafka is away, and is tried again error="connection refused"
type lineHandler struct {
	out   *lineOutput
	attrs slog.Handler // writes the attributes alone, into out.attrs
	level slog.Level
	times bool
}

// maxMessage bounds the message of a line.
const maxMessage = 8 << 10

// lineOutput is what a handler shares with those that were made from it.
type lineOutput struct {
	mu    sync.Mutex
	w     io.Writer
	attrs bytes.Buffer
}

func newLineHandler(w io.Writer, level slog.Level, times bool) *lineHandler {
	out := &lineOutput{w: w}
	return &lineHandler{out: out, level: level, times: times,
		attrs: slog.NewTextHandler(&out.attrs, &slog.HandlerOptions{Level: level, ReplaceAttr: attrsOnly})}
}

// attrsOnly leaves out what a line has in front.
func attrsOnly(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.attrs = h.attrs.WithAttrs(attrs)
	return &n
}

func (h *lineHandler) WithGroup(name string) slog.Handler {
	n := *h
	n.attrs = h.attrs.WithGroup(name)
	return &n
}

func (h *lineHandler) Handle(ctx context.Context, r slog.Record) error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.attrs.Reset()
	if err := h.attrs.Handle(ctx, r); err != nil {
		return err
	}
	var b bytes.Buffer
	if h.times {
		b.WriteString(r.Time.UTC().Format(time.RFC3339) + " ")
	}
	if r.Level != slog.LevelInfo {
		b.WriteString(r.Level.String() + " ")
	}
	b.WriteString(foreign.Line(r.Message, maxMessage)) // there may be an error of somebody else's in it
	if attrs := bytes.TrimSpace(h.out.attrs.Bytes()); len(attrs) > 0 {
		b.WriteByte(' ')
		b.Write(attrs)
	}
	b.WriteByte('\n')
	_, err := h.out.w.Write(b.Bytes())
	return err
}
