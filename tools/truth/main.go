// Truth holds what hammer measured against what the simulator did: it joins
// requests.jsonl with the simulator's truth file by request id and prints how
// far off each token's arrival was, beside what user time would have said.
//
// It reads the files with the standard library's JSON alone, so that a mistake
// of our own reader or summary cannot hide itself.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

type truthLine struct {
	ID      string  `json:"id"`
	Read    int64   `json:"read_ns"`
	Written []int64 `json:"written_ns"`
}

type requestLine struct {
	ID          string  `json:"id"`
	Warmup      bool    `json:"warmup"`
	Sent        int64   `json:"sent_ns"`
	First       int64   `json:"first_ns"`
	Gaps        []int32 `json:"gaps_us"`
	Error       string  `json:"error"`
	Reads       int     `json:"reads"`
	MergedReads int     `json:"merged_reads"`
	FirstMerged bool    `json:"first_merged"`
	FirstLag    int64   `json:"first_lag_us"`
}

// Errors is a distribution of errors in milliseconds.
type Errors struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Result is what is printed.
type Result struct {
	Requests     int     `json:"requests"`
	Unmatched    int     `json:"unmatched"`
	Failed       int     `json:"failed"`
	Tokens       int     `json:"tokens"`
	First        Errors  `json:"first_token_error_ms"`
	FirstByUser  Errors  `json:"first_token_error_by_user_time_ms"`
	Later        Errors  `json:"later_token_error_ms"`
	All          Errors  `json:"token_error_ms"`
	Unmarked     Errors  `json:"unmarked_token_error_ms"`
	OnTime       Errors  `json:"on_time_token_error_ms"` // of tokens that were written within a millisecond of their due time
	OnTimeFirst  Errors  `json:"on_time_first_token_error_ms"`
	OnTimeShare  float64 `json:"on_time_share"`
	OnTimeTTFT   float64 `json:"on_time_mean_ttft_ms"`
	OnTimeTrue   float64 `json:"on_time_true_mean_ttft_ms"`
	MergedShare  float64 `json:"merged_read_share"`
	MeanTTFT     float64 `json:"mean_ttft_ms"`
	TrueMeanTTFT float64 `json:"true_mean_ttft_ms"`
	TTFTOff      float64 `json:"ttft_off"` // ours ÷ the simulator's − 1
}

func main() {
	run := flag.String("run", "", "run directory")
	truth := flag.String("truth", "", "truth file of the simulator")
	var l law
	flag.DurationVar(&l.ttft, "ttft", 50*time.Millisecond, "the simulator's --ttft")
	flag.DurationVar(&l.itl, "itl", 10*time.Millisecond, "the simulator's --itl")
	flag.Parse()
	r, err := compare(filepath.Join(*run, "requests.jsonl"), *truth, l)
	if err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
}

// law is when the simulator's tokens were due.
type law struct{ ttft, itl time.Duration }

// onTime reports whether token k was written within a millisecond of its due
// time. Where it was not, the machine stood still: what follows is a burst.
func (l law) onTime(t truthLine, k int) bool {
	due := t.Read + int64(l.ttft) + int64(k)*int64(l.itl)
	return t.Written[k]-due <= int64(time.Millisecond)
}

func compare(requests, truth string, law law) (Result, error) {
	known := map[string]truthLine{}
	err := lines(truth, func(b []byte) error {
		var l truthLine
		if err := json.Unmarshal(b, &l); err != nil {
			return err
		}
		known[l.ID] = l
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	var r Result
	var first, user, later, unmarked, onTime, onTimeFirst []float64
	var onTimeTTFT, onTimeTrue float64
	var reads, merged int
	var ours, theirs float64
	err = lines(requests, func(b []byte) error {
		var q requestLine
		if err := json.Unmarshal(b, &q); err != nil {
			return err
		}
		if q.Warmup {
			return nil
		}
		if q.Error != "" {
			r.Failed++
			return nil
		}
		t, ok := known[q.ID]
		if !ok || len(t.Written) == 0 || len(t.Written) != len(q.Gaps)+1 {
			r.Unmatched++
			return nil
		}
		r.Requests++
		r.Tokens += len(t.Written)
		reads += q.Reads
		merged += q.MergedReads
		ours += ms(q.First - q.Sent)
		theirs += ms(t.Written[0] - t.Read)
		e := ms(q.First - t.Written[0])
		first = append(first, e)
		if law.onTime(t, 0) {
			onTime, onTimeFirst = append(onTime, e), append(onTimeFirst, e)
			onTimeTTFT += ms(q.First - q.Sent)
			onTimeTrue += ms(t.Written[0] - t.Read)
		}
		user = append(user, e+float64(q.FirstLag)/1e3)
		if !q.FirstMerged {
			unmarked = append(unmarked, e)
		}
		at := q.First
		for i, g := range q.Gaps {
			us, marked := int64(g), g < 0
			if marked {
				us = -1 - us
			}
			at += us * 1000
			e := ms(at - t.Written[i+1])
			later = append(later, e)
			if law.onTime(t, i) && law.onTime(t, i+1) {
				onTime = append(onTime, e)
			}
			if !marked {
				unmarked = append(unmarked, e)
			}
		}
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	r.First, r.FirstByUser, r.Later, r.Unmarked = errorsOf(first), errorsOf(user), errorsOf(later), errorsOf(unmarked)
	r.All = errorsOf(append(later, first...))
	r.OnTimeShare = float64(len(onTime)) / math.Max(1, float64(r.Tokens))
	n1 := math.Max(1, float64(len(onTimeFirst)))
	r.OnTimeTTFT, r.OnTimeTrue = onTimeTTFT/n1, onTimeTrue/n1
	r.OnTime, r.OnTimeFirst = errorsOf(onTime), errorsOf(onTimeFirst)
	r.MergedShare = float64(merged) / math.Max(1, float64(reads))
	n := math.Max(1, float64(r.Requests))
	r.MeanTTFT, r.TrueMeanTTFT = ours/n, theirs/n
	r.TTFTOff = r.MeanTTFT/r.TrueMeanTTFT - 1
	return r, nil
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

func errorsOf(v []float64) Errors {
	if len(v) == 0 {
		return Errors{}
	}
	slices.Sort(v)
	rank := func(p float64) float64 { return v[max(0, int(math.Ceil(p*float64(len(v))))-1)] }
	var sum float64
	for _, x := range v {
		sum += x
	}
	return Errors{N: len(v), Mean: sum / float64(len(v)), P50: rank(0.5), P99: rank(0.99), Max: v[len(v)-1]}
}

func lines(path string, each func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		b, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil // a torn last line is not a line
		}
		if err != nil {
			return err
		}
		if err := each(b); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
}
