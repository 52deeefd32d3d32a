package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/child"
)

func (s *SMI) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// run keeps one nvidia-smi alive.
func (s *SMI) run(ctx context.Context) {
	fields := s.known(ctx)
	waits := child.NewBackoff(firstBackoff, maxBackoff)
	wait := firstBackoff
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
			waits.Reset() // it worked for a while
		}
		wait = waits.NextBackOff()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// known asks which columns this driver has, so that an old one need not refuse
// a dozen of them one by one, at a start of the program each. Without a useful
// answer all are tried.
func (s *SMI) known(ctx context.Context) []smiField {
	all := append([]smiField(nil), smiFields...)
	ctx, cancel := context.WithTimeout(ctx, s.o.Deadline)
	defer cancel()
	out, err := child.Output(ctx, child.Spec{Command: []string{s.o.Path, "--help-query-gpu"}, MaxAnswer: maxPage}, nil)
	if err != nil {
		return all
	}
	text := string(out.Stdout)
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
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	p, err := child.Start(child.Spec{
		Command: []string{
			s.o.Path, "--query-gpu=" + strings.Join(names, ","), "--format=csv,noheader,nounits",
			"-lms", strconv.FormatInt(s.o.Interval.Milliseconds(), 10),
		},
		MaxLine: maxPageLine, MaxAnswer: maxPage, MaxStderr: 4 << 10,
	})
	if err != nil {
		return "", err
	}
	defer p.Close(0) // it and all that it started
	message := ""
	row := func(b []byte) (bool, error) {
		line := string(b)
		if row, ok := newSMIRow(fields, line); ok {
			s.take(row)
			return true, nil
		}
		var ok bool
		if refused, ok = notAField(line); ok {
			return true, fmt.Errorf("nvidia-smi does not know the column %s", word(refused))
		}
		if line = strings.TrimSpace(line); line != "" {
			s.message(line)
			message = line
		}
		return false, nil
	}
	// The first answer may take as long as loading the driver does.
	for until := 2 * s.o.Deadline; err == nil; until = s.o.Deadline {
		err = p.Receive(ctx, time.Now().Add(until), row)
	}
	var ended *child.EndedError
	switch {
	case refused != "":
		return refused, err
	case errors.Is(err, child.ErrLate):
		return "", fmt.Errorf("nvidia-smi gave no reading for %v", s.o.Deadline)
	case message != "" && errors.As(err, &ended):
		return "", fmt.Errorf("nvidia-smi ended: %s", firstLine(message))
	}
	return "", fmt.Errorf("nvidia-smi: %w", err)
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

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return word(s)
}
