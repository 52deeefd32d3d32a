package hammer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/hammer"
)

// data resolves what the requests ask. Lengths come, the later over the
// earlier, from the defaults, from the profile, and from the length flags.
func (r *resolver) data() {
	d := &r.c.Data
	profile := r.profileName()
	switch r.datasetName {
	case "random", "timed_trace":
		r.randomData(profile)
	case "sharegpt", "custom":
		*d = hammer.Data{Kind: r.datasetName, Path: r.datasetPath, OutputTokens: r.sharegptOutput}
		if r.datasetName == "custom" {
			d.OutputTokens = max(0, r.customOutput) // -1: the row's own
			if r.customOutput == 0 || r.customOutput < -1 {
				r.bad("--custom-output-len must be at least 1, or -1 for that of each row, not %d", r.customOutput)
			}
		}
		if r.given("output-len") {
			d.OutputTokens = r.outputLen
		}
		if d.OutputTokens < 0 {
			r.bad("the output length must be at least 1, not %d", d.OutputTokens)
		}
		if profile != "" {
			r.bad("--profile %s sets lengths, and %s data has its own; leave one out", profile, r.datasetName)
		}
		if extra := r.givenOf("input-len", "random-input-len", "random-output-len", "random-range-ratio", "random-prefix-len"); len(extra) > 0 {
			r.note("%s has no effect with %s data", strings.Join(extra, " "), r.datasetName)
		}
	default:
		if why, ok := datasetRefusals[r.datasetName]; ok {
			r.bad("--dataset-name %s is not supported: %s", r.datasetName, why)
		} else {
			r.bad("unknown dataset %q; known are random, sharegpt, custom, timed_trace", r.datasetName)
		}
	}
	d.Shuffle, d.Oversample = !r.disableShuffle, !r.noOversample
}

// profileName is the profile that was asked for by flag or by file.
func (r *resolver) profileName() string {
	switch {
	case r.profile != "":
		return r.profile
	case r.file.Profile != "":
		return r.file.Profile
	case len(r.file.Profiles) == 1:
		return r.file.Profiles[0].Name
	}
	return ""
}

func (r *resolver) randomData(profile string) {
	d := &r.c.Data
	if r.vllmLoad() {
		d.InputTokens, d.OutputTokens = 1024, 128
	}
	if profile != "" {
		p, err := r.file.pickProfile(profile)
		r.check(err)
		if err == nil {
			r.c.SetProfile(p)
		}
	}
	lengths := []struct {
		flag  string
		value int
		to    *int
	}{
		{"random-input-len", r.randomInput, &d.InputTokens},
		{"random-output-len", r.randomOutput, &d.OutputTokens},
		{"input-len", r.inputLen, &d.InputTokens},
		{"output-len", r.outputLen, &d.OutputTokens},
	}
	for _, l := range lengths {
		if !r.given(l.flag) {
			continue
		}
		if l.value < 1 {
			r.bad("--%s must be at least 1, not %d", l.flag, l.value)
		}
		*l.to = l.value
	}
	if r.c.Load.Mode == hammer.ModeReplay {
		if extra := r.givenOf("input-len", "output-len", "random-input-len", "random-output-len", "random-range-ratio"); len(extra) > 0 {
			r.note("%s has no effect: the trace says how long", strings.Join(extra, " "))
		}
	}
	if r.prefixLen < 0 {
		r.bad("--random-prefix-len must not be negative: %d", r.prefixLen)
	}
	d.PrefixTokens = r.prefixLen
	var err error
	if d.InputSpread, d.OutputSpread, err = rangeRatio(r.rangeRatio); err != nil {
		r.check(err)
	}
	if r.datasetName == "random" {
		d.Path = r.datasetPath // Validate says that it does not belong
	}
}

// rangeRatio reads a number for both, or an object with input and output.
func rangeRatio(text string) (input, output float64, err error) {
	const form = `--random-range-ratio %s: write a number in [0,1), or {"input": 0.1, "output": 0.2}`
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v, v, nil
	}
	var both struct{ Input, Output *float64 }
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&both); err != nil || both.Input == nil || both.Output == nil {
		return 0, 0, fmt.Errorf(form, text)
	}
	return *both.Input, *both.Output, nil
}

func (r *resolver) sampling() {
	s := &r.c.Sampling
	floats := []struct {
		flag  string
		value *float64
		to    **float64
	}{
		{"temperature", &r.temperature, &s.Temperature},
		{"top-p", &r.topP, &s.TopP},
		{"min-p", &r.minP, &s.MinP},
		{"frequency-penalty", &r.frequency, &s.FrequencyPenalty},
		{"presence-penalty", &r.presence, &s.PresencePenalty},
		{"repetition-penalty", &r.repetition, &s.RepetitionPenalty},
	}
	for _, f := range floats {
		if r.given(f.flag) {
			if v := *f.value; v != v || v > 1e300 || v < -1e300 {
				r.bad("--%s must be a number, not %g", f.flag, v)
				continue
			}
			v := *f.value
			*f.to = &v
		}
	}
	if r.given("top-k") {
		v := r.topK
		s.TopK = &v
	}
	if r.given("logprobs") {
		v := r.logprobs
		s.Logprobs = &v
		if r.c.Backend != "" && r.c.Backend != "openai" {
			r.note("--logprobs is sent by --backend openai only")
		}
	}
	s.IgnoreEOS = r.c.Data.Kind == "random"
	if r.given("ignore-eos") {
		s.IgnoreEOS = r.ignoreEOS
	}
	extra, err := mergeExtra(r.extraBody)
	r.check(err)
	r.c.Extra = extra
}
