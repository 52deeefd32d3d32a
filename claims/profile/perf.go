package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/child"
	"github.com/assay-bench/assay/internal/proc"
)

// Bounds of what perf may write.
const (
	maxData   = "256M"      // its own file
	maxScript = 1 << 30     // the stacks as text
	maxLine   = 64 << 10    // one frame: C++ has long names
	scriptFor = time.Minute // to write the text
)

// perfRecord is perf under way.
type perfRecord struct {
	path, data string
	engine     map[int]bool // its processes, as they were at the start
	child      *child.Process
}

// startPerf records the processes, their threads and whatever these start. A
// first short recording shows whether that is permitted, and why not.
func startPerf(ctx context.Context, path, data string, looked []proc.Seen) (*perfRecord, error) {
	var pids []string
	engine := map[int]bool{}
	for i, p := range looked {
		pids = append(pids, strconv.Itoa(p.PID))
		engine[p.PID] = i > 0 // the first is our own
	}
	// cpu-clock is there in virtual machines too. With a process and a command perf
	// records the process for as long as the command runs: cat ends with its input.
	command := func(file, runs string) []string {
		return []string{path, "record", "-e", "cpu-clock", "-F", strconv.Itoa(hertz), "-g", "--max-size=" + maxData, "-o", file, "-p", strings.Join(pids, ","), "--", runs}
	}
	within, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	out, err := child.Output(within, child.Spec{Command: command(data+".trial", "true"), MaxStderr: 4 << 10}, nil)
	remove(data + ".trial")
	if err != nil {
		return nil, notPermitted(err, out.Stderr)
	}
	p, err := child.Start(child.Spec{Command: command(data, "cat"), MaxStderr: 4 << 10})
	if err != nil {
		return nil, fmt.Errorf("start perf: %w", err)
	}
	return &perfRecord{path: path, data: data, engine: engine, child: p}, nil
}

// remove takes away perf's file, and the older one that perf makes of a file which is
// there already.
func remove(data string) {
	_, _ = os.Remove(data), os.Remove(data+".old")
}

// notPermitted adds what to do where the kernel says no.
func notPermitted(err error, said string) error {
	var ended *child.EndedError
	if errors.As(err, &ended) {
		err = fmt.Errorf("perf record: %s: %s", ended.Exit, said)
	}
	for _, word := range []string{"perf_event_paranoid", "Permission", "permission", "not permitted", "No permission"} {
		if strings.Contains(said, word) {
			return fmt.Errorf("perf is not permitted here (run as root, or sudo sysctl kernel.perf_event_paranoid=1): %w", err)
		}
	}
	return err
}

// stop ends the recording and reads its stacks.
func (p *perfRecord) stop(into *Stacks) error {
	defer remove(p.data)
	p.child.Close(settleWithin)
	c, err := child.Start(child.Spec{
		Command: []string{p.path, "script", "-i", p.data, "--no-inline", "-F", "comm,pid,ip,sym,dso"},
		MaxLine: maxLine, MaxAnswer: maxScript,
	})
	if err != nil {
		return fmt.Errorf("start perf script: %w", err)
	}
	defer c.Close(0)
	read := scriptReader{to: into, own: ownCode("/proc/self"), engine: p.engine}
	err = c.Receive(context.Background(), time.Now().Add(scriptFor), func(line []byte) (bool, error) {
		read.line(line)
		return false, nil
	})
	read.end()
	var ended *child.EndedError
	switch {
	case errors.As(err, &ended) && ended.Exit == "exit status 0":
		return nil
	case err != nil:
		return fmt.Errorf("perf script: %w", err)
	}
	return nil
}

// scriptReader reads the text of perf script: a line with the program's name and
// its process, then a line for each frame that begins with a tab, the innermost
// first, then an empty line.
type scriptReader struct {
	to     *Stacks
	own    code         // our own program, whose functions we can name ourselves
	engine map[int]bool // processes that are the engine's
	comm   string
	frames []scriptFrame
	within bool
}

type scriptFrame struct {
	at   uint64 // in its file
	name string
	file string
}

func (r *scriptReader) line(line []byte) {
	switch trimmed := bytes.TrimSpace(line); {
	case len(trimmed) == 0:
		r.end()
	case line[0] == '\t':
		if len(r.frames) <= maxDepth {
			r.frames = append(r.frames, readFrame(trimmed))
		}
	default:
		r.end()
		comm, pid := readHead(trimmed)
		if r.engine[pid] {
			comm = "engine: " + comm // which may be a program of our name
		}
		r.within, r.comm = true, comm
	}
}

// end takes the sample that is under way.
func (r *scriptReader) end() {
	if r.within {
		stack := []string{r.comm}
		for i := len(r.frames) - 1; i >= 0; i-- {
			stack = append(stack, r.names(r.frames[i], i == 0)...)
		}
		r.to.Add(stack, 1)
	}
	r.within, r.frames = false, r.frames[:0]
}

// names are a frame's functions, the caller first: several where calls were
// inlined. Our own program names its functions without a table of symbols, which a
// program that is shipped does not have.
func (r *scriptReader) names(f scriptFrame, leaf bool) []string {
	if f.name != unknownName || f.file == "" || f.file != r.own.file {
		return []string{f.name}
	}
	pc := uintptr(f.at) + r.own.base
	if leaf {
		pc++ // the others are where a call returns to
	}
	var out []string
	for all, more := runtime.CallersFrames([]uintptr{pc}), true; more; {
		var x runtime.Frame
		if x, more = all.Next(); x.Function != "" {
			out = append([]string{x.Function}, out...)
		}
	}
	if len(out) == 0 {
		return []string{f.name}
	}
	return out
}

// readFrame reads an address, a name and a file. Functions of the kernel, whose addresses are
// in the upper half, are marked as other tools mark them.
func readFrame(line []byte) scriptFrame {
	address, rest, _ := bytes.Cut(line, []byte(" "))
	at, err := strconv.ParseUint(string(address), 16, 64)
	if err != nil {
		at = 0
	}
	text, file := strings.TrimSpace(string(rest)), ""
	if i := strings.LastIndex(text, " ("); i >= 0 && strings.HasSuffix(text, ")") {
		text, file = strings.TrimSpace(text[:i]), text[i+2:len(text)-1]
	}
	switch {
	case text == "":
		text = unknownName
	case at >= 1<<63 && text != unknownName:
		text += kernelMark
	}
	return scriptFrame{at, text, file}
}

// unknownName is perf's for a function that it cannot name.
const unknownName = "[unknown]"

// kernelMark is behind the name of a function of the kernel.
const kernelMark = "_[k]"

// readHead reads the program's name, and behind it its process.
func readHead(line []byte) (comm string, pid int) {
	text := string(line)
	if at := strings.LastIndexByte(text, ' '); at > 0 {
		if n, err := strconv.Atoi(text[at+1:]); err == nil {
			return strings.TrimSpace(text[:at]), n
		}
	}
	return text, 0
}

// code is where a program's own instructions are.
type code struct {
	file string
	base uintptr // what a place in the file is less than the address in our process
}

// ownCode is that of the process whose directory of procfs is given; its zero value
// where that cannot be read.
func ownCode(dir string) code {
	file, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return code{}
	}
	maps, err := os.ReadFile(filepath.Join(dir, "maps"))
	if err != nil {
		return code{}
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.Contains(f[1], "x") || strings.Join(f[5:], " ") != file {
			continue
		}
		from, _, _ := strings.Cut(f[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		offset, err2 := strconv.ParseUint(f[2], 16, 64)
		if err1 == nil && err2 == nil {
			return code{file, uintptr(start - offset)}
		}
	}
	return code{}
}
