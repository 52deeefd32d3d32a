package summary

import (
	"fmt"
	"strings"

	"github.com/assay-bench/assay"
)

// eventWarningsMost bounds the warnings taken from events; the rest are
// counted.
const eventWarningsMost = 100

// Of summarises a run in one pass over each of its files.
func Of(run Source) (assay.Summary, error) {
	o, err := reduce(run)
	if err != nil {
		return assay.Summary{}, err
	}
	return o.summary(run), nil
}

// reduce reads a run.
func reduce(run Source) (*reduction, error) {
	m := run.Manifest()
	o := &reduction{
		manifest: m,
		byName:   map[string]*stage{},
		client:   client{clock: m.Clock, cores: m.Node.Cores},
		first:    m.Created,
		last:     m.Created,
	}
	// Events first: they say when each stage was and what it was meant to do. Then
	// requests, in which the steady windows are found, and then what was read in
	// them.
	for e, err := range run.Events() {
		if err != nil {
			return nil, fmt.Errorf("summarise run %s: %w", m.ID, err)
		}
		o.event(e)
	}
	o.prepare(run)
	for r, err := range run.Requests() {
		if err != nil {
			return nil, fmt.Errorf("summarise run %s: %w", m.ID, err)
		}
		o.request(r)
	}
	o.settle()
	for r, err := range run.Readings() {
		if err != nil {
			return nil, fmt.Errorf("summarise run %s: %w", m.ID, err)
		}
		o.reading(r)
	}
	return o, nil
}

type reduction struct {
	manifest    assay.Manifest
	stages      []*stage
	byName      map[string]*stage
	client      client
	node        *node
	periods     periods
	watched     int // the stage that is looked at for trends; −1: none
	resumed     []int64
	first, last int64
	warnings    []assay.Warning
	more        int                    // warnings of events beyond the bound
	engines     map[string]*engineSide // by stage
	lengths     lengths
}

type stage struct {
	*Collector
	interrupted bool
	begun       int64 // when it was last started
	ours        oursOf
	course      *course // nil: nothing says when it was
	slowed      []assay.Slowed
}

func (o *reduction) stage(name string, plan assay.Stage) *stage {
	if s := o.byName[name]; s != nil {
		return s
	}
	plan.Name = name
	s := &stage{Collector: NewCollector(plan, o.manifest.Judge)}
	o.byName[name] = s
	o.stages = append(o.stages, s)
	return s
}

func (o *reduction) event(e *assay.Event) {
	if e.Kind == assay.EventEngineBefore || e.Kind == assay.EventEngineAfter {
		o.engineEdge(e)
		return
	}
	o.last = max(o.last, e.At)
	o.client.event(e)
	o.lengths.event(e)
	s := o.byName[e.Stage]
	if e.Kind == assay.EventStageStarted {
		plan := assay.Stage{}
		if e.Plan != nil {
			plan = *e.Plan
		}
		if s == nil {
			s = o.stage(e.Stage, plan)
			s.Started(e.At)
			s.begun = e.At
		} else {
			s.begun, s.interrupted = e.At, false
			s.again(e.At)
		}
		return
	}
	if s != nil {
		switch e.Kind {
		case assay.EventStageLoadEnd:
			s.LoadEnd(e.At)
		case assay.EventStageEnded:
			s.Ended(e.At)
		case assay.EventInterrupted:
			s.interrupted = true
		case assay.EventSlowInference:
			if v, ok := slowedBy(e); ok && len(s.slowed) < slowedMost {
				s.slowed = append(s.slowed, v)
			}
		}
	}
	switch e.Kind {
	case assay.EventWarning, assay.EventEngineDown, assay.EventInterrupted, assay.EventLimit:
		o.warn(string(e.Kind), e)
	case assay.EventClockStep:
		o.warn("clock_step", e)
	case assay.EventResumed:
		o.resumed = append(o.resumed, e.At)
		// Nobody measured in the meantime, which belongs to no stage's time.
		for _, s := range o.stages {
			if s.ended == 0 {
				s.down += int64(max(0, e.Data["down_seconds"]) * 1e9)
			}
		}
		o.warn("resumed", e)
	}
}

// engineEdge takes what the engine's page said at an edge of a stage.
func (o *reduction) engineEdge(e *assay.Event) {
	if o.engines == nil {
		o.engines = map[string]*engineSide{}
	}
	if o.engines[e.Stage] == nil {
		o.engines[e.Stage] = &engineSide{}
	}
	o.engines[e.Stage].event(e)
}

func (o *reduction) warn(kind string, e *assay.Event) {
	if len(o.warnings) >= eventWarningsMost {
		o.more++
		return
	}
	text := e.Text
	if kind == "clock_step" && text == "" {
		text = fmt.Sprintf("the wall clock was stepped by %g s", e.Data["seconds"])
	}
	o.warnings = append(o.warnings, assay.Warning{Kind: kind, Stage: e.Stage, Text: text})
}

func (o *reduction) reading(r *assay.Reading) {
	switch {
	case strings.HasPrefix(r.Name, "client_"):
		o.client.reading(r)
		if v, ok := value(r); ok && r.Name == readingInFlight {
			for _, s := range o.stages {
				s.inFlight(r.At, v)
			}
		}
	case r.Name == readingSampling:
		if v, ok := value(r); ok {
			o.node.cpu.add(r.At, v)
		}
	default:
		o.node.reading(r)
	}
}

func (o *reduction) request(r *assay.Request) {
	o.last = max(o.last, r.End, r.Last)
	o.client.request(r)
	o.lengths.request(r)
	// A stage whose event was lost still has its requests.
	s := o.stage(r.Stage, assay.Stage{})
	s.Add(r)
	s.ours.add(r)
	if s.course != nil {
		s.course.add(r)
	}
}

func (o *reduction) summary(run Source) assay.Summary {
	out := assay.Summary{
		Format: assay.SummaryFormat, RunID: o.manifest.ID, Status: assay.StatusPartial,
		Engine: o.manifest.Engine, Started: o.first, Ended: o.last,
		Stages: []assay.StageSummary{}, Warnings: []assay.Warning{},
	}
	if e, ok := run.(Ending); ok {
		torn := e.Torn()
		c, err := e.Checkpoint()
		if err == nil && c.Status == assay.StatusComplete && len(torn) == 0 {
			out.Status = assay.StatusComplete
		}
		for _, t := range torn {
			out.Warnings = append(out.Warnings, assay.Warning{Kind: "torn_line", Text: t})
		}
	}
	out.Client = o.client.certify(levelsOf(o.manifest.Judge))
	out.Warnings = append(out.Warnings, o.warnings...)
	if o.more > 0 {
		out.Warnings = append(out.Warnings, assay.Warning{Kind: "more_events", Text: fmt.Sprintf("%d more events are in events.jsonl", o.more)})
	}
	for _, s := range o.stages {
		s.complete = s.complete && !s.interrupted
		out.Stages = append(out.Stages, s.Summary())
	}
	o.fit(out.Stages)
	for i, s := range o.stages {
		sum := &out.Stages[i]
		sum.Slowed = s.slowed
		if s.course != nil {
			out.Windows = append(out.Windows, s.course.windows(sum.Name)...)
			o.vary(i, s.course, sum)
		}
		sum.EngineCheck = checkEngine(&s.ours, o.engines[sum.Name], float64(sum.Ended-sum.Started-s.down))
		out.Warnings = append(out.Warnings, s.Collector.warnings(sum)...)
		out.Warnings = append(out.Warnings, engineWarnings(sum)...)
	}
	o.lengths.fill(&out)
	o.node.fill(&out)
	out.Trends = o.trends(out.Stages)
	out.Scaling = scalingOf(out.Stages)
	out.FindMax = findMaxOf(o.manifest.Judge.Search, out.Stages)
	out.Runs = variationsOf(out.Stages)
	return out
}
