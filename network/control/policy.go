package control

import (
	"time"

	"github.com/assay-bench/assay"
)

// PolicyFormat names the format of the policy file.
const PolicyFormat = "assay/policy/v1"

// Policy is the policy file: every number that a decision depends on.
// docs/formats/policy.md says what each means and why the default is what it is.
type Policy struct {
	Format string `json:"format" yaml:"format"`
	Name   string `json:"name" yaml:"name"`
	// Version is given when the policy is applied; it is not in the file.
	Version int64 `json:"version,omitempty" yaml:"-"`

	GPU          GPUNeed  `json:"gpu" yaml:"gpu"`
	Checks       Checks   `json:"checks" yaml:"checks"`
	HardFailures []string `json:"hard_failures" yaml:"hard_failures"`
	Resets       []string `json:"resets" yaml:"resets"`

	Score        Score        `json:"score" yaml:"score"`
	Newcomer     Newcomer     `json:"newcomer" yaml:"newcomer"`
	Results      Results      `json:"results" yaml:"results"`
	Flaps        Flaps        `json:"flaps" yaml:"flaps"`
	Breaker      BreakerRule  `json:"breaker" yaml:"breaker"`
	Verification Verify       `json:"verification" yaml:"verification"`
	Quarantine   Retry        `json:"quarantine" yaml:"quarantine"`
	Readmission  Readmission  `json:"readmission" yaml:"readmission"`
	Override     OverrideRule `json:"override" yaml:"override"`
	Drain        Drain        `json:"drain" yaml:"drain"`
	Silence      SilenceRule  `json:"silence" yaml:"silence"`
	// Trust may be left out, as it was before it was there: then it is that of Default.
	Trust Trust `json:"trust" yaml:"trust,omitempty"`

	// Anomalies are what each kind of anomaly triggers; "default" is for all that
	// are not named.
	Anomalies map[string][]Action `json:"anomalies" yaml:"anomalies"`
}

// GPUNeed says whether nodes have to have a GPU.
type GPUNeed string

// The needs.
const (
	GPURequired GPUNeed = "required"
	GPUNone     GPUNeed = "none" // checks of engine and host only
)

// Checks are the names of the checks that have to pass.
type Checks struct {
	GPU    []string `json:"gpu" yaml:"gpu"` // each of every GPU
	Engine []string `json:"engine" yaml:"engine"`
	Host   []string `json:"host" yaml:"host"`
}

// Score has thresholds on the lower bound of the overall score.
type Score struct {
	Admit      float64 `json:"admit" yaml:"admit"`           // to come, and to return
	Degrade    float64 `json:"degrade" yaml:"degrade"`       // to stay admitted
	Quarantine float64 `json:"quarantine" yaml:"quarantine"` // to stay in rotation
	Starting   float64 `json:"starting" yaml:"starting"`     // of a starting score, to come without approval
}

// Newcomer is for nodes without a baseline of their own.
type Newcomer struct {
	MinPeers int `json:"min_peers" yaml:"min_peers"`
}

// Results are how many reports in a row move a node.
type Results struct {
	Bad     int `json:"bad" yaml:"bad"`
	Good    int `json:"good" yaml:"good"`
	Unknown int `json:"unknown" yaml:"unknown"`
}

// Flaps bound how often a node may go down and come back by itself.
type Flaps struct {
	Window assay.Duration `json:"window" yaml:"window"`
	Limit  int            `json:"limit" yaml:"limit"`
}

// BreakerRule bounds what is quarantined without a person.
type BreakerRule struct {
	Share float64 `json:"share" yaml:"share"`
}

// Verify is about verifications.
type Verify struct {
	Timeout     assay.Duration `json:"timeout" yaml:"timeout"`
	Retry       assay.Duration `json:"retry" yaml:"retry"`
	MaxAge      assay.Duration `json:"max_age" yaml:"max_age"`
	MinInterval assay.Duration `json:"min_interval" yaml:"min_interval"`
}

// Retry says when a soft quarantine is tried again.
type Retry struct {
	Retry    assay.Duration `json:"retry" yaml:"retry"`
	MaxRetry assay.Duration `json:"max_retry" yaml:"max_retry"`
}

// Readmission is the way back to full weight.
type Readmission struct {
	Steps int            `json:"steps" yaml:"steps"`
	Every assay.Duration `json:"every" yaml:"every"`
}

// OverrideRule bounds overrides.
type OverrideRule struct {
	Max assay.Duration `json:"max" yaml:"max"`
}

// Drain bounds drains.
type Drain struct {
	Deadline assay.Duration `json:"deadline" yaml:"deadline"`
	Max      assay.Duration `json:"max" yaml:"max"`
}

// SilenceRule says who is silent.
type SilenceRule struct {
	Heartbeat   assay.Duration `json:"heartbeat" yaml:"heartbeat"`
	Missed      int            `json:"missed" yaml:"missed"`
	Share       float64        `json:"share" yaml:"share"`
	VerifyAfter assay.Duration `json:"verify_after" yaml:"verify_after"`
}

// Action is what an anomaly triggers.
type Action string

// The actions.
const (
	ActionNote       Action = "note"
	ActionReverify   Action = "re-verify"
	ActionDegrade    Action = "degrade"
	ActionQuarantine Action = "quarantine"
	ActionPage       Action = "page"
	ActionHold       Action = "hold" // until a person decides
)

// anyAnomaly is the kind that stands for all that are not named.
const anyAnomaly = "default"

// actions are what an anomaly triggers.
func (p Policy) actions(kind string) []Action {
	if a, ok := p.Anomalies[kind]; ok {
		return a
	}
	if bystander(kind) {
		return []Action{ActionNote}
	}
	return p.Anomalies[anyAnomaly]
}

// Default is the policy of a network that has none: default-policy.yaml.
func Default() Policy {
	h := func(n float64) assay.Duration { return assay.Duration(n * float64(time.Hour)) }
	m := func(n float64) assay.Duration { return h(n / 60) }
	return Policy{
		Format: PolicyFormat, Name: "default",
		GPU: GPURequired,
		Checks: Checks{
			GPU:    []string{"identity.sources", "compute.golden", "compute.challenge"},
			Engine: []string{CheckEngineMeasured},
			Host:   []string{CheckHostClient},
		},
		HardFailures: []string{"lost", "ecc_uncorrected", "row_remap_failed", "peer_unreachable"},
		Resets:       []string{"lost", "recovery_action", "row_remap_pending"},
		Score:        Score{Admit: 0.8, Degrade: 0.7, Quarantine: 0.5, Starting: 0.3},
		Newcomer:     Newcomer{MinPeers: 3},
		Results:      Results{Bad: 2, Good: 3, Unknown: 3},
		Flaps:        Flaps{Window: h(24), Limit: 4},
		Breaker:      BreakerRule{Share: 0.1},
		Verification: Verify{Timeout: m(30), Retry: m(15), MaxAge: h(24), MinInterval: m(10)},
		Quarantine:   Retry{Retry: h(1), MaxRetry: h(24)},
		Readmission:  Readmission{Steps: 4, Every: m(30)},
		Override:     OverrideRule{Max: h(72)},
		Drain:        Drain{Deadline: m(10), Max: h(24)},
		Silence:      SilenceRule{Heartbeat: m(0.5), Missed: 3, Share: 0.3, VerifyAfter: h(1)},
		Trust:        Trust{Require: []string{}, Every: h(6), MaxAge: h(24), Slower: 0.25},
		Anomalies: map[string][]Action{
			anyAnomaly:             {ActionNote, ActionReverify},
			"address_false":        {ActionQuarantine, ActionPage},
			"clock_skew":           {ActionDegrade},
			"engine_restart":       {ActionReverify},
			FindChanged:            {ActionQuarantine, ActionPage},
			FindShared:             {ActionHold, ActionPage},
			FindClaimed:            {ActionNote},
			FindTainted:            {ActionHold},
			FindOwner:              {ActionNote},
			FindAltered:            {ActionHold, ActionPage},
			FindMounted:            {ActionHold, ActionPage},
			FindMismatch:           {ActionHold, ActionPage},
			FindPhysics:            {ActionHold, ActionPage},
			FindReplayed:           {ActionHold, ActionPage},
			"model_changed":        {ActionReverify},
			"model_differs":        {ActionNote, ActionPage},
			"model_unproven":       {ActionNote},
			"driver_changed":       {ActionReverify},
			"slow_inference":       {ActionReverify},
			"slower_outside":       {ActionNote, ActionReverify},
			"bad_batch":            {ActionPage},
			"peer_outlier":         {ActionNote, ActionReverify},
			"performance_drift":    {ActionNote, ActionReverify},
			"performance_drop":     {ActionNote, ActionReverify},
			"performance_flapping": {ActionNote, ActionDegrade},
			"statement_forged":     {ActionQuarantine, ActionPage},
			"unreachable":          {ActionNote},
		},
	}
}
