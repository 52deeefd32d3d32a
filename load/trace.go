package load

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a trace may hold. Traces are files from elsewhere.
const (
	maxTraceLine     = 1 << 20
	maxTraceArrivals = 5_000_000
	maxTraceTokens   = 100_000_000
	maxTraceBlocks   = 50_000_000    // names of blocks, of all lines together
	maxTraceSeconds  = 366 * 86400.0 // a year
)

// ReadTrace reads a trace, and finds out from its first line which of three
// forms it has:
//
//   - ours, JSON lines: {"at_s":0.5,"input_tokens":100,"output_tokens":20} and,
//     for the turns of a conversation, "conversation":"name" and "think_s":2;
//   - Mooncake's, JSON lines: {"timestamp":500,"input_length":100,
//     "output_length":20,"hash_ids":[1,2]}, timestamps in milliseconds;
//   - Azure's, CSV: TIMESTAMP,ContextTokens,GeneratedTokens.
//
// Times count from the earliest line. Errors name the line.
func ReadTrace(r io.Reader) ([]Arrival, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	if bom, _ := br.Peek(3); string(bom) == "\ufeff" {
		_, _ = br.Discard(3) // they were peeked at
	}
	start, err := br.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("reading the trace: %w", err)
	}
	start = bytes.TrimLeft(start, " \t\r\n")
	if len(start) == 0 {
		return nil, errors.New("reading the trace: it is empty")
	}
	t := &trace{}
	if start[0] == '{' {
		err = t.readJSON(br)
	} else {
		err = t.readCSV(br)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the trace: %w", err)
	}
	return t.shifted()
}

type trace struct {
	arrivals []Arrival
	at       []float64 // seconds, as in the file; NaN where a turn has none
	blocks   int
}

// traceLine is a JSON line of either form.
type traceLine struct {
	At           *float64 `json:"at_s"`
	Input        *float64 `json:"input_tokens"`
	Output       *float64 `json:"output_tokens"`
	Conversation string   `json:"conversation"`
	Think        *float64 `json:"think_s"`

	Timestamp    *float64 `json:"timestamp"`
	InputLength  *float64 `json:"input_length"`
	OutputLength *float64 `json:"output_length"`
	HashIDs      []int64  `json:"hash_ids"`
}

func (t *trace) readJSON(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxTraceLine)
	known := map[string]bool{} // conversations that have begun
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var l traceLine
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := t.add(l, known[l.Conversation]); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if l.Conversation != "" {
			known[l.Conversation] = true
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}

func (t *trace) add(l traceLine, follows bool) error {
	at, in, out, names := l.At, l.Input, l.Output, [3]string{"at_s", "input_tokens", "output_tokens"}
	if l.Timestamp != nil {
		ms := *l.Timestamp / 1000
		at, in, out, names = &ms, l.InputLength, l.OutputLength, [3]string{"timestamp", "input_length", "output_length"}
	}
	if at == nil && follows {
		nan := math.NaN()
		at = &nan
	}
	for i, v := range []*float64{at, in, out} {
		if v == nil {
			return fmt.Errorf("%s is missing", names[i])
		}
	}
	a := Arrival{Conversation: l.Conversation, Blocks: l.HashIDs}
	var err error
	if a.Input, err = tokens(names[1], *in, 1); err != nil {
		return err
	}
	if a.Output, err = tokens(names[2], *out, 0); err != nil {
		return err
	}
	if l.Think != nil {
		if !(*l.Think >= 0 && *l.Think <= maxTraceSeconds) {
			return fmt.Errorf("think_s is %g", *l.Think)
		}
		a.Think = seconds(*l.Think)
	}
	if t.blocks += len(a.Blocks); t.blocks > maxTraceBlocks {
		return fmt.Errorf("more than %d hash_ids in total", maxTraceBlocks)
	}
	return t.append(a, *at)
}

func (t *trace) append(a Arrival, at float64) error {
	if len(t.arrivals) >= maxTraceArrivals {
		return fmt.Errorf("more than %d requests", maxTraceArrivals)
	}
	if math.IsInf(at, 0) || math.Abs(at) > 1e12 {
		return fmt.Errorf("a time of %g s", at)
	}
	t.arrivals = append(t.arrivals, a)
	t.at = append(t.at, at)
	return nil
}

func tokens(name string, v, least float64) (int, error) {
	if !(v >= least && v <= maxTraceTokens) || v != math.Trunc(v) {
		return 0, fmt.Errorf("%s is %g; it must be a whole number between %g and %d", name, v, least, int(maxTraceTokens))
	}
	return int(v), nil
}

func (t *trace) readCSV(r io.Reader) error {
	rows := csv.NewReader(&lineBound{r: r})
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil {
		return err
	}
	var column [3]int
	for i, name := range []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"} {
		column[i] = slices.IndexFunc(head, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) })
		if column[i] < 0 {
			return fmt.Errorf("line 1: no column %s; a trace is JSON lines, or CSV with TIMESTAMP, ContextTokens and GeneratedTokens", name)
		}
	}
	var first time.Time
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // csv names the line
		}
		n, _ := rows.FieldPos(0)
		when, err := azureTime(row[column[0]])
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if first.IsZero() {
			first = when
		}
		var a Arrival
		for i, to := range []*int{&a.Input, &a.Output} {
			text := strings.TrimSpace(row[column[i+1]])
			v, err := strconv.ParseFloat(text, 64)
			if err == nil {
				*to, err = tokens(strings.TrimSpace(head[column[i+1]]), v, float64(1-i))
			}
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if err := t.append(a, when.Sub(first).Seconds()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// azureTime reads 2023-11-16 18:17:03.9799600, with or without a zone.
func azureTime(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	for _, form := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", time.RFC3339} {
		if when, err := time.Parse(form, s); err == nil {
			return when, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time like 2023-11-16 18:17:03.9799600", s)
}

// shifted makes the earliest time zero.
func (t *trace) shifted() ([]Arrival, error) {
	if len(t.arrivals) == 0 {
		return nil, errors.New("reading the trace: it has no requests")
	}
	first := math.Inf(1)
	for _, at := range t.at {
		if at < first {
			first = at
		}
	}
	for i, at := range t.at {
		t.arrivals[i].N = i
		if math.IsNaN(at) {
			continue
		}
		if at-first > maxTraceSeconds {
			return nil, fmt.Errorf("reading the trace: request %d comes %.0f s after the first; a trace may span a year", i+1, at-first)
		}
		t.arrivals[i].At = seconds(at - first)
	}
	return t.arrivals, nil
}

// lineBound fails when a line is too long: encoding/csv would read it whole.
type lineBound struct {
	r io.Reader
	n int
}

func (b *lineBound) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if last := bytes.LastIndexByte(p[:n], '\n'); last >= 0 {
		b.n = n - last - 1
	} else if b.n += n; b.n > maxTraceLine {
		return 0, fmt.Errorf("a line is longer than %d bytes", maxTraceLine)
	}
	return n, err
}
