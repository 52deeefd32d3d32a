package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/internal/foreign"
)

// Formats of --log-format.
const (
	logText = "text"
	logJSON = "json"
)

// logFlags say how a program logs. The zero value logs nothing.
type logFlags struct{ format, level string }

// register adds the flags to every command of a program, and gives each its log.
func (f *logFlags) register(root *cobra.Command) {
	fs := root.PersistentFlags()
	fs.StringVar(&f.format, "log-format", logText, "of what is logged on standard error: text or json")
	fs.StringVar(&f.level, "log-level", "info", "the least that is logged: debug, info, warn or error")
	Values(fs, "log-format", logText, logJSON)
	Values(fs, "log-level", "debug", "info", "warn", "error")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		l, err := f.logs(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		cmd.SetContext(context.WithValue(cmd.Context(), logsKey{}, l))
		return nil
	}
}

func (f *logFlags) logs(w io.Writer) (logs, error) {
	l := logs{w: w, json: f.format == logJSON}
	if !l.json && f.format != logText {
		return logs{}, fmt.Errorf("--log-format is %s or %s, not %q", logText, logJSON, f.format)
	}
	if err := l.level.UnmarshalText([]byte(f.level)); err != nil {
		return logs{}, fmt.Errorf("--log-level is debug, info, warn or error, not %q", f.level)
	}
	return l, nil
}

// logs is how one command logs, and where.
type logs struct {
	w     io.Writer
	json  bool
	level slog.Level
}

type logsKey struct{}

// Log is the log of the command whose context this is. Without one, as where a
// part of a command is tested, nothing is logged.
func Log(ctx context.Context) *slog.Logger {
	l, ok := ctx.Value(logsKey{}).(logs)
	if !ok {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(l.handler(l.w, true))
}

// handler writes to w: objects for programs, else lines for people, which have
// times in the log of a service.
func (l logs) handler(w io.Writer, times bool) slog.Handler {
	if l.json {
		return slog.NewJSONHandler(escaped{w}, &slog.HandlerOptions{Level: l.level})
	}
	return newLineHandler(w, l.level, times)
}

// Log is a log whose lines stand between the progress, as those of Say do. They
// have no time, for a person looks on; with --log-format json they are objects.
func (p *Progress) Log(ctx context.Context) *slog.Logger {
	if p.quiet {
		return slog.New(slog.DiscardHandler)
	}
	l, _ := ctx.Value(logsKey{}).(logs) // without one: lines from info on
	return slog.New(l.handler(between{p}, false))
}

// escaped writes JSON that does nothing to a terminal.
type escaped struct{ w io.Writer }

func (e escaped) Write(object []byte) (int, error) {
	if _, err := e.w.Write(foreign.JSON(object)); err != nil {
		return 0, err
	}
	return len(object), nil
}

// between writes lines between the progress.
type between struct{ p *Progress }

func (b between) Write(line []byte) (int, error) {
	b.p.Clear()
	return b.p.w.Write(line)
}
