package hammer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/inference"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/load"
	"github.com/assay-bench/assay/summary"
)

// stages runs what the plan asks for until it asks for nothing more. Stages
// that a run before completed are taken from its record.
func (r *run) stages(ctx context.Context, dir string, before *journal.Resumed) error {
	var done []load.Outcome
	var kept map[string]assay.StageSummary
	if before != nil {
		var err error
		if kept, err = completed(dir); err != nil {
			return err
		}
	}
	for {
		stage, more := r.plan.Next(done)
		if !more {
			return nil
		}
		r.mu.Lock()
		r.stageN++
		r.mu.Unlock()
		if s, ok := kept[stage.Name]; ok {
			done = append(done, outcome(stage, &s))
			continue
		}
		r.announce(stage)
		s, err := r.one(ctx, stage, r.bounded(left(stage, before)))
		if err != nil {
			return err
		}
		o := outcome(stage, &s)
		r.tell(o)
		done = append(done, o)
	}
}

// completed gives the stages of a run on record that were completed.
func completed(dir string) (map[string]assay.StageSummary, error) {
	rd, err := journal.Open(dir)
	if err != nil {
		return nil, err
	}
	sum, err := summary.Of(rd)
	if err != nil {
		return nil, err
	}
	m := map[string]assay.StageSummary{}
	for _, s := range sum.Stages {
		if s.Complete {
			m[s.Name] = s
		}
	}
	return m, nil
}

// left is what a stage that was interrupted still has to do.
func left(stage assay.Stage, before *journal.Resumed) assay.Stage {
	if before == nil {
		return stage
	}
	for _, p := range before.Stages {
		if p.Plan.Name != stage.Name {
			continue
		}
		if stage.Requests > 0 {
			// What was interrupted is done again.
			stage.Requests = max(1, stage.Requests-(p.Requests-p.Warmups-p.Cancelled))
		}
		if stage.DurationNS > 0 {
			ran := p.Ran
			if before.Checkpoint != nil && p.Started > 0 {
				ran += max(0, before.Checkpoint.At-p.Started)
			}
			stage.DurationNS = max(int64(time.Second), stage.DurationNS-ran)
		}
	}
	return stage
}

// bounded ends a stage with its dataset, unless that may be repeated.
func (r *run) bounded(stage assay.Stage) assay.Stage {
	set, ok := r.source.(listed)
	if !ok || r.cfg.Data.Oversample {
		return stage
	}
	if n := len(set.all); stage.Requests == 0 || stage.Requests > n {
		r.event(assay.EventWarning, stage.Name, fmt.Sprintf("the dataset has %d prompts, and is not repeated", n), nil)
		stage.Requests = n
	}
	return stage
}

// one runs one stage: asked is what the plan asked, todo what is left of it.
func (r *run) one(ctx context.Context, asked, todo assay.Stage) (assay.StageSummary, error) {
	schedule, err := load.Of(todo, load.Options{Seed: r.stageSeed(asked), VLLM: r.cfg.Load.Normalise, Trace: r.trace, Replay: r.replay(asked.Name)})
	if err != nil {
		return assay.StageSummary{}, err
	}
	r.before(ctx, asked.Name)
	now := r.clock.Now()
	col := summary.NewCollector(asked, r.cfg.Judge)
	col.Started(now)
	r.mu.Lock()
	r.stage, r.col, r.began, r.alive = asked, col, now, now
	r.mu.Unlock()
	r.watchStage(summary.NewWatchdog(todo))
	r.live.Reset()
	r.put(assay.Event{At: now, Kind: assay.EventStageStarted, Stage: asked.Name, Plan: &asked})
	r.gen.OnSteady = func(at int64) {
		r.put(assay.Event{At: at, Kind: assay.EventStageSteady, Stage: asked.Name})
	}
	r.gen.OnLoadEnd = func(at int64) {
		r.collect(func(c *summary.Collector) { c.LoadEnd(at) })
		r.watchStage(nil)
		r.put(assay.Event{At: at, Kind: assay.EventStageLoadEnd, Stage: asked.Name})
	}
	res := r.gen.Run(ctx, todo, schedule)
	if res.Interrupted || ctx.Err() != nil {
		return assay.StageSummary{}, ctx.Err()
	}
	r.put(assay.Event{At: res.Ended, Kind: assay.EventStageEnded, Stage: asked.Name})
	r.after(ctx, asked.Name)
	var sum assay.StageSummary
	r.collect(func(c *summary.Collector) {
		c.Ended(res.Ended)
		sum = c.Summary()
	})
	return sum, nil
}

// collect does something with the stage's collector.
func (r *run) collect(f func(*summary.Collector)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.col)
}

// stageSeed differs from stage to stage and is the same for the same run.
func (r *run) stageSeed(s assay.Stage) uint64 {
	seed := r.cfg.Seed
	for _, c := range s.Name {
		seed = seed*1099511628211 + uint64(c)
	}
	return seed
}

// newRequest gives a request its identity.
func (r *run) newRequest(_ int, a *load.Arrival) *assay.Request {
	n := int(r.next.Add(1)) - 1
	req := &assay.Request{ID: r.cfg.RequestIDs + strconv.Itoa(n), Prompt: n}
	if r.trace != nil {
		req.Prompt = r.lineOf(n, a)
	}
	return req
}

// do sends one request.
func (r *run) do(ctx context.Context, req *assay.Request) {
	r.client.Do(ctx, r.job(req), req)
}

// job makes what is sent for a request.
func (r *run) job(req *assay.Request) *inference.Job {
	p := r.promptOf(req)
	s := r.cfg.Sampling
	job := &inference.Job{Prompt: p.text, MaxTokens: p.output, IgnoreEOS: s.IgnoreEOS && !r.dropped[fieldIgnoreEOS]}
	if b := r.batchOf(); b > 1 {
		p.input = 0
		for i := range b { // b prompts of this request's own
			next := r.source.at(req.Prompt*b + i)
			job.Prompts = append(job.Prompts, next.text)
			p.input += next.input
		}
		p.output *= b // each answer may be as long as the first
		job.Prompt = ""
	}
	job.Extra = r.body
	req.AskedInput, req.AskedOutput = p.input, p.output
	return job
}

// batchOf is the number of prompts that one request carries.
func (r *run) batchOf() int {
	if r.cfg.Load.BatchMode != "request" {
		return 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stage.Batch
}

// record takes a request that is over.
func (r *run) record(req *assay.Request) {
	r.check(r.w.Request(req))
	r.live.Add(req)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if req.Sent != 0 {
		r.sent++
	}
	if req.Error != "" {
		r.errs[req.Error]++
	} else {
		r.answered++
		r.answeredTokens += int64(req.OutputTokens)
	}
	if r.stage.Probe {
		r.col.Add(req)
	}
	r.judgeLife(req)
}

// prepare learns the engine's tokens and starts making prompts.
func (r *run) prepare(ctx context.Context, before *journal.Resumed) error {
	r.cfg.RequestIDs = r.requestIDs()
	ruler, err := r.learn(ctx)
	if err != nil {
		return err
	}
	if err := r.supply(ctx, ruler, before); err != nil {
		return err
	}
	r.gen = &load.Generator{
		Do: r.do, Record: r.record, New: r.newRequest,
		Now:   r.clock.Now,
		Sleep: func(ctx context.Context, until int64) { _ = r.clock.SleepUntil(ctx, until) },
	}
	return nil
}
