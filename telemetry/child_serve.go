package telemetry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// ServeChild is the child's side of [Child]: it answers questions from in until
// in ends, which is also how the parent's death ends it. It then returns even
// if the source hangs in the middle of an answer: the caller should end the
// process.
func ServeChild(in io.Reader, out io.Writer, src Source) error {
	if _, err := io.WriteString(out, childHello+"\n"); err != nil {
		return fmt.Errorf("saying hello: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	questions := make(chan string)
	answered := make(chan error, 1)
	go func() {
		s := childServer{ctx: ctx, out: out, src: src}
		var err error
		for q := range questions {
			if err == nil {
				err = s.answer(q)
			}
		}
		answered <- err
	}()
	lines := bufio.NewScanner(io.LimitReader(in, 1<<40))
	lines.Buffer(make([]byte, 256), 256)
	for lines.Scan() {
		select {
		case questions <- lines.Text():
		case <-ctx.Done():
		}
	}
	close(questions)
	cancel()
	select {
	case err := <-answered:
		return errors.Join(err, lines.Err())
	case <-time.After(time.Second):
		return errors.Join(errors.New("the source did not come back from a call"), lines.Err())
	}
}

type childServer struct {
	ctx context.Context
	out io.Writer
	src Source
	buf []byte
}

func (s *childServer) answer(line string) error {
	question, number, _ := strings.Cut(line, " ")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return fmt.Errorf("a question without a number: %.40q", line)
	}
	s.buf = s.buf[:0]
	switch question {
	case askRead:
		err = s.read()
	case askDescribe:
		err = s.describe()
	default:
		err = fmt.Errorf("cannot answer %.20q", question)
	}
	if err != nil {
		s.buf = append(s.buf, "!\t"...)
		s.buf = append(s.buf, childText(err.Error())...)
		s.buf = append(s.buf, '\n')
	}
	s.buf = append(appendEnd(s.buf, seq), '\n')
	if _, err := s.out.Write(s.buf); err != nil {
		return fmt.Errorf("writing an answer: %w", err)
	}
	return nil
}

func (s *childServer) read() error {
	bad := ""
	err := s.src.Read(s.ctx, func(r assay.Reading) {
		var ok bool
		if s.buf, ok = appendReading(s.buf, r); !ok {
			bad = r.Name
		}
	})
	if bad != "" {
		err = errors.Join(err, fmt.Errorf("reading %.80q is not one finite number of a printable device", bad))
	}
	return err
}

func (s *childServer) describe() error {
	d, ok := s.src.(Describer)
	if !ok {
		return fmt.Errorf("the source %s describes no GPUs", s.src.Name())
	}
	gpus, err := d.Describe(s.ctx)
	for _, g := range gpus {
		b, jerr := json.Marshal(g)
		if jerr != nil {
			return fmt.Errorf("writing a GPU: %w", jerr)
		}
		s.buf = append(s.buf, "g\t"...)
		s.buf = append(s.buf, b...)
		s.buf = append(s.buf, '\n')
	}
	return err
}
