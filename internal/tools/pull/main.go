//go:build linux

// Pull is package inference and nothing else: n streams in a closed loop, whose
// requests are thrown away. Beside drain it says what the client itself costs
// and how true it is, without schedule, journal and summary.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/inference"
)

type config struct {
	n, tokens int
	url       string
	seconds   float64
	stagger   time.Duration
	user      bool
	profile   string
}

func main() {
	var c config
	flag.IntVar(&c.n, "n", 1000, "streams")
	flag.IntVar(&c.tokens, "tokens", 128, "output tokens of each request")
	flag.StringVar(&c.url, "url", "http://127.0.0.1:8000", "base address")
	flag.Float64Var(&c.seconds, "seconds", 10, "how long to measure, after the start")
	flag.DurationVar(&c.stagger, "stagger", time.Second, "spread the first requests over this time")
	flag.BoolVar(&c.user, "user", false, "arrivals by our own clock")
	flag.StringVar(&c.profile, "profile", "", "write a CPU profile here")
	flag.Parse()
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "pull:", err)
		os.Exit(1)
	}
}

// totals are sums over requests.
type totals struct {
	sync.Mutex
	requests, tokens, failed, reads, merged int
	ttft                                    []float64
}

func run(c config) error {
	client, err := inference.New(inference.Config{URL: c.url, Model: "sim", UserClock: c.user})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var sum totals
	var on atomic.Bool
	var wg sync.WaitGroup
	for i := range c.n {
		wg.Go(func() {
			time.Sleep(c.stagger * time.Duration(i) / time.Duration(c.n))
			job := &inference.Job{Prompt: "count to a thousand", MaxTokens: c.tokens}
			for k := 0; ctx.Err() == nil; k++ {
				r := assay.Request{ID: "p" + strconv.Itoa(i) + "-" + strconv.Itoa(k)}
				client.Do(ctx, job, &r)
				if on.Load() {
					sum.add(&r)
				}
			}
		})
	}
	time.Sleep(c.stagger + time.Second)
	if c.profile != "" {
		f, err := os.Create(c.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
	}
	client.TakeLag(nil)
	on.Store(true)
	cpu, began := ownCPU(), time.Now()
	time.Sleep(time.Duration(c.seconds * float64(time.Second)))
	used, took := ownCPU()-cpu, time.Since(began).Seconds()
	on.Store(false)
	lags := client.TakeLag(nil)
	pprof.StopCPUProfile()
	cancel()
	wg.Wait()
	sum.Lock()
	defer sum.Unlock()
	slices.Sort(sum.ttft)
	at := func(p float64) float64 {
		if len(sum.ttft) == 0 {
			return 0
		}
		return sum.ttft[int(p*float64(len(sum.ttft)-1))]
	}
	var mean float64
	for _, v := range sum.ttft {
		mean += v / float64(len(sum.ttft))
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"streams": c.n, "seconds": took, "clock": client.Source(), "requests": sum.requests, "failed": sum.failed,
		"cpu_s_per_million": used / float64(sum.tokens) * 1e6, "cores": used / took, "tokens_per_second": float64(sum.tokens) / took,
		"ttft_ms_mean": mean, "ttft_ms_p50": at(.5), "ttft_ms_p99": at(.99),
		"merged_share": float64(sum.merged) / float64(max(1, sum.reads)),
		"lag_us_p50":   quantile(lags, .5), "lag_us_p99": quantile(lags, .99),
	})
}

func (t *totals) add(r *assay.Request) {
	t.Lock()
	defer t.Unlock()
	t.requests++
	t.tokens += r.OutputTokens
	t.reads += r.Reads
	t.merged += r.MergedReads
	if !r.OK() {
		t.failed++
		return
	}
	if ns, ok := r.TTFT(); ok {
		t.ttft = append(t.ttft, float64(ns)/1e6)
	}
}

func quantile(pairs []int64, q float64) int64 {
	var all, so int64
	for i := 1; i < len(pairs); i += 2 {
		all += pairs[i]
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if so += pairs[i+1]; float64(so) >= q*float64(all) {
			return pairs[i]
		}
	}
	return 0
}

func ownCPU() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
