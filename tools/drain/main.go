//go:build linux

// Drain is the cheapest possible reader of token streams: it holds n streams
// open in a closed loop over raw sockets, reads with epoll and throws away.
// What it costs is the floor under any client's cost on the same machine.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type config struct {
	n, tokens int
	url       string
	seconds   float64
	stagger   time.Duration
	model     string
}

func main() {
	var c config
	flag.IntVar(&c.n, "n", 1000, "streams")
	flag.IntVar(&c.tokens, "tokens", 128, "output tokens of each request")
	flag.StringVar(&c.url, "url", "http://127.0.0.1:8000", "base address")
	flag.Float64Var(&c.seconds, "seconds", 10, "how long to measure, after the start")
	flag.DurationVar(&c.stagger, "stagger", time.Second, "spread the first requests over this time")
	flag.StringVar(&c.model, "model", "sim", "model to ask for")
	flag.Parse()
	if err := run(c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "drain:", err)
		os.Exit(1)
	}
}

// stream is one connection and the end of what it has read.
type stream struct {
	tail [7]byte
	size int
}

var ending = []byte("\r\n0\r\n\r\n")

// read takes in data and says whether a chunked body ended with it.
func (s *stream) read(b []byte) bool {
	if len(b) >= len(s.tail) {
		s.size = copy(s.tail[:], b[len(b)-len(s.tail):])
	} else {
		keep := min(s.size, len(s.tail)-len(b))
		copy(s.tail[:], s.tail[s.size-keep:s.size])
		copy(s.tail[keep:], b)
		s.size = keep + len(b)
	}
	return bytes.Equal(s.tail[:s.size], ending)
}

func run(c config, out io.Writer) error {
	u, err := url.Parse(c.url)
	if err != nil {
		return err
	}
	host, err := net.ResolveTCPAddr("tcp4", u.Host)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: host.Port}
	copy(to.Addr[:], host.IP.To4())
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"count to a thousand"}],"max_tokens":%d,"stream":true}`, c.model, c.tokens)
	request := []byte(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", u.Host, len(body), body))

	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(ep)
	streams := map[int]*stream{}
	defer func() {
		for fd := range streams {
			unix.Close(fd)
		}
	}()
	events := make([]unix.EpollEvent, 512)
	buf := make([]byte, 64<<10)
	var reads, size, done int64
	// serve reads for at most wait milliseconds, then returns.
	serve := func(wait int) error {
		n, err := unix.EpollWait(ep, events, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, ev := range events[:max(0, n)] {
			fd := int(ev.Fd)
			k, err := unix.Read(fd, buf)
			if err != nil || k == 0 {
				return fmt.Errorf("stream ended by the server: %w", errors.Join(err, io.EOF))
			}
			reads++
			size += int64(k)
			if streams[fd].read(buf[:k]) {
				done++
				if _, err := unix.Write(fd, request); err != nil {
					return err
				}
			}
		}
		return nil
	}
	// Random starts, exact to some microseconds: in even steps of a millisecond
	// all streams would be in phase and their tokens come in bursts.
	starts := make([]time.Duration, c.n)
	for i := range starts {
		starts[i] = time.Duration(rand.Float64() * float64(c.stagger))
	}
	slices.Sort(starts)
	start := time.Now()
	for _, at := range starts {
		for wait := at - time.Since(start); wait > 0; wait = at - time.Since(start) {
			ts := unix.NsecToTimespec(int64(wait))
			_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(ep), Events: unix.POLLIN}}, &ts, nil) // early is no harm
			if err := serve(0); err != nil {
				return err
			}
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		streams[fd] = &stream{}
		if err := unix.Connect(fd, to); err != nil {
			return err
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
		if _, err := unix.Write(fd, request); err != nil {
			return err
		}
	}
	before, err := measure(c.url)
	if err != nil {
		return err
	}
	reads, size, done = 0, 0, 0
	cpu, began := ownCPU(), time.Now()
	for time.Since(began).Seconds() < c.seconds {
		if err := serve(10); err != nil {
			return err
		}
	}
	took, mine := time.Since(began).Seconds(), ownCPU()-cpu
	after, err := measure(c.url)
	if err != nil {
		return err
	}
	tokens := after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"]
	engine := after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
	return json.NewEncoder(out).Encode(map[string]any{
		"streams": c.n, "seconds": took, "requests": done, "reads": reads, "bytes": size,
		"tokens_per_second":         tokens / took,
		"reader_cpu_s_per_million":  mine / tokens * 1e6,
		"engine_cpu_s_per_million":  engine / tokens * 1e6,
		"reader_cores":              mine / took,
		"engine_cores":              engine / took,
		"engine_late_us_p50":        1e6 * lateness(before, after, .5),
		"engine_late_us_p99":        1e6 * lateness(before, after, .99),
		"engine_late_us_p999":       1e6 * lateness(before, after, .999),
		"engine_resident_megabytes": after["process_resident_memory_bytes"] / 1e6,
	})
}

// ownCPU is this process's CPU time in seconds.
func ownCPU() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// lateness is the upper edge of the bucket that holds the share p of what the
// engine wrote between two readings.
func lateness(before, after map[string]float64, p float64) float64 {
	const prefix = "assay_simulate_lateness_seconds_bucket "
	edges := map[float64]float64{}
	var total float64
	for name, n := range after {
		if edge, ok := strings.CutPrefix(name, prefix); ok {
			v, err := strconv.ParseFloat(edge, 64)
			if err != nil {
				continue
			}
			edges[v] = n - before[name]
			total = max(total, edges[v])
		}
	}
	for _, edge := range slices.Sorted(maps.Keys(edges)) {
		if edges[edge] >= p*total {
			return edge
		}
	}
	return 0
}

// measure reads the engine's metrics by name; of labels it keeps a bucket's edge.
func measure(base string) (map[string]float64, error) {
	res, err := http.Get(base + "/metrics")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	m := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		name, v, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name[0] == '#' {
			continue
		}
		name, labels, _ := strings.Cut(name, "{")
		if _, edge, ok := strings.Cut(labels, `le="`); ok {
			name += " " + strings.TrimRight(edge, `"}`)
		}
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			m[name] = f
		}
	}
	return m, nil
}
