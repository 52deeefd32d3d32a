package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// logged runs a command that logs, with a command line.
func logged(t *testing.T, log func(context.Context), args ...string) (string, int) {
	t.Helper()
	var b bytes.Buffer
	root := Root("assay", nil, &cobra.Command{Use: "serve", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		log(cmd.Context())
		return nil
	}})
	root.SetOut(io.Discard)
	root.SetErr(&b)
	code := Run(t.Context(), root, append([]string{"serve"}, args...))
	return b.String(), code
}

func TestLogForPeopleAndPrograms(t *testing.T) {
	say := func(ctx context.Context) {
		l := Log(ctx).With("log", "example")
		l.Debug("a step")
		l.Info("the log is served", "url", "http://127.0.0.1:1")
		l.WithGroup("kafka").Warn("Kafka is\x1b[31m away\nand is tried again", "error", errors.New("refused\n\x1b[0m"))
	}
	out, code := logged(t, say)
	want := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ the log is served log=example url=http://127\.0\.0\.1:1
\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ WARN Kafka is\x{fffd}\[31m away and is tried again log=example kafka\.error="refused\\n\\x1b\[0m"
$`)
	if code != ExitOK || !want.MatchString(out) {
		t.Errorf("exit %d:\n%s", code, out)
	}
	out, _ = logged(t, say, "--log-format", "json", "--log-level", "debug")
	var lines []map[string]any
	for line := range strings.Lines(out) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, m)
	}
	if len(lines) != 3 || lines[0]["level"] != "DEBUG" || lines[1]["url"] != "http://127.0.0.1:1" || lines[2]["log"] != "example" {
		t.Errorf("%v", lines)
	}
	if out, _ := logged(t, say, "--log-level=error"); out != "" {
		t.Errorf("below the level: %q", out)
	}
	for _, bad := range []string{"--log-format=xml", "--log-level=loud"} {
		if out, code := logged(t, say, bad); code != ExitUsage || !strings.Contains(out, "text or json") && !strings.Contains(out, "warn or error") {
			t.Errorf("%s: exit %d: %s", bad, code, out)
		}
	}
}

// Lines between the progress look as those that are said, and do not stand on the
// progress line.
func TestLogBetweenProgress(t *testing.T) {
	var b bytes.Buffer
	p := &Progress{w: &b, tty: true, width: func() int { return 80 }, drawn: true}
	p.Log(t.Context()).Info("round 1 of 2", "engine", "a")
	if got, want := b.String(), "\r\x1b[Kround 1 of 2 engine=a\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.Reset()
	NewProgress(&b, true).Log(t.Context()).Error("no")
	if b.Len() > 0 {
		t.Errorf("quiet, and printed %q", b.String())
	}
	b.Reset()
	ctx := context.WithValue(t.Context(), logsKey{}, logs{json: true, level: slog.LevelInfo})
	NewProgress(&b, false).Log(ctx).Info("x")
	if !json.Valid(b.Bytes()) {
		t.Errorf("%q is not JSON", b.String())
	}
	Log(context.Background()).Error("nobody listens, and nothing breaks")
}
