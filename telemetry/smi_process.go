package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

func (s *SMI) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// run keeps one nvidia-smi alive.
func (s *SMI) run(ctx context.Context) {
	fields := s.known(ctx)
	wait := firstBackOff
	for ctx.Err() == nil {
		began := time.Now()
		refused, err := s.live(ctx, fields)
		if ctx.Err() != nil {
			return
		}
		if refused != "" {
			var ok bool
			if fields, ok = without(fields, refused); ok {
				continue // at once: each try leaves one column fewer
			}
		}
		s.failed(err)
		if time.Since(began) > 10*wait {
			wait = firstBackOff // it worked for a while
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, lastBackOff)
	}
}

// known asks which columns this driver has, so that an old one need not refuse
// a dozen of them one by one, at a start of the program each. Without a useful
// answer all are tried.
func (s *SMI) known(ctx context.Context) []smiField {
	all := append([]smiField(nil), smiFields...)
	ctx, cancel := context.WithTimeout(ctx, s.o.Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.o.Path, "--help-query-gpu")
	ownGroup(cmd)
	out := &head{max: maxPage}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return all
	}
	text := out.String()
	has := func(name string) bool { return strings.Contains(text, `"`+name+`"`) }
	if !has("index") || !has("uuid") {
		return all
	}
	for _, f := range smiFields {
		if !has(f.name) {
			all, _ = without(all, f.name)
			if f.old != "" && !has(f.old) {
				all, _ = without(all, f.old)
			}
		}
	}
	return all
}

// without drops a column that this driver does not know, or asks for it by its
// old name. It reports false when the column is not ours, or is indispensable.
func without(fields []smiField, refused string) ([]smiField, bool) {
	for i, f := range fields {
		if f.name != refused {
			continue
		}
		if f.name == "index" || f.name == "uuid" {
			return fields, false
		}
		out := append([]smiField(nil), fields...)
		if f.old == "" || f.renamed {
			return append(out[:i], out[i+1:]...), true
		}
		// The new name stays findable through old, see smiRow.word.
		out[i].name, out[i].old, out[i].renamed = f.old, f.name, true
		return out, true
	}
	return fields, false
}

// live runs one nvidia-smi until it ends or has to be ended. refused is the
// column that it did not know.
func (s *SMI) live(ctx context.Context, fields []smiField) (refused string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	cmd := exec.CommandContext(ctx, s.o.Path,
		"--query-gpu="+strings.Join(names, ","), "--format=csv,noheader,nounits",
		"-lms", strconv.FormatInt(s.o.Interval.Milliseconds(), 10))
	ownGroup(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	complaint := &head{max: 4 << 10}
	cmd.Stderr = complaint
	if err := cmd.Start(); err != nil {
		return "", err
	}
	// A grandchild that left the group could keep the pipe open.
	defer context.AfterFunc(ctx, func() { out.Close() })()
	hung := false
	var mu sync.Mutex
	// The first answer may take as long as loading the driver does.
	alarm := time.AfterFunc(2*s.o.Deadline, func() {
		mu.Lock()
		hung = true
		mu.Unlock()
		cancel()
	})
	said := ""
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 0, 4<<10), maxPageLine)
	for lines.Scan() {
		line := lines.Text()
		if row, ok := newSMIRow(fields, line); ok {
			alarm.Reset(s.o.Deadline)
			s.take(row)
			continue
		}
		if name, ok := notAField(line); ok {
			refused = name
			break
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		s.message(line)
		said = line
	}
	scanErr := lines.Err()
	alarm.Stop()
	cancel() // ends it and all that it started
	waitErr := cmd.Wait()
	mu.Lock()
	defer mu.Unlock()
	switch {
	case refused != "":
		return refused, fmt.Errorf("nvidia-smi does not know the column %s", word(refused))
	case hung:
		return "", fmt.Errorf("nvidia-smi said nothing for %v", s.o.Deadline)
	case said != "":
		return "", fmt.Errorf("nvidia-smi ended: %s", firstLine(said))
	case scanErr != nil:
		return "", fmt.Errorf("nvidia-smi: %w", scanErr)
	case complaint.Len() > 0:
		return "", fmt.Errorf("nvidia-smi ended: %s", firstLine(complaint.String()))
	}
	if waitErr == nil {
		return "", errors.New("nvidia-smi ended")
	}
	return "", fmt.Errorf("nvidia-smi ended: %w", waitErr)
}

// notAField reads: Field "x" is not a valid field to query.
func notAField(line string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), `Field "`)
	if !ok {
		return "", false
	}
	name, rest, ok := strings.Cut(rest, `"`)
	return name, ok && strings.Contains(rest, "not a valid field")
}

// head keeps the first bytes that are written to it and drops the rest.
type head struct {
	bytes.Buffer
	max int
}

func (h *head) Write(p []byte) (int, error) {
	if room := h.max - h.Len(); room > 0 {
		h.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return word(s)
}
