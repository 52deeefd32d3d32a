package score

import (
	"bytes"
	_ "embed" // the catalogue
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/assay-bench/assay"
)

//go:embed baselines.json
var catalogue []byte

// ErrNotABaseline is a run that others must not be compared with. The caller
// should say why and write no file.
var ErrNotABaseline = errors.New("the run cannot be a baseline")

// maxErrors is the error rate above which a run is no baseline: its speed would
// be that of requests which were not served.
const maxErrors = errorsDegraded

// FromRun makes a baseline of a run: the figures of the stage that shows what
// the node can do. A figure that the run does not carry is null.
func FromRun(m assay.Manifest, sum assay.Summary, name string) (assay.Baseline, error) {
	in := inOrder(Input{Manifest: m, Summary: sum})
	s, ok := best(in.Summary.Stages)
	at, hasLoad := loadOf(s.Plan)
	switch {
	case sum.Client.Certificate == assay.Invalid:
		return assay.Baseline{}, fmt.Errorf("%w: the client was the bottleneck", ErrNotABaseline)
	case !ok || s.OK == 0:
		return assay.Baseline{}, fmt.Errorf("%w: no stage has a request that succeeded", ErrNotABaseline)
	case !s.Complete:
		return assay.Baseline{}, fmt.Errorf("%w: stage %s was interrupted", ErrNotABaseline, s.Name)
	case !(s.ErrorRate <= maxErrors):
		return assay.Baseline{}, fmt.Errorf("%w: %s of the requests of stage %s failed, more than %s", ErrNotABaseline, share(s.ErrorRate), s.Name, share(maxErrors))
	case !hasLoad:
		return assay.Baseline{}, fmt.Errorf("%w: stage %s has no single load (%s); use a number of streams or a rate", ErrNotABaseline, s.Name, s.Plan.Kind)
	}
	limited := len(m.Judge.Goodput) > 0
	all := []figures{}
	for _, same := range atLoad(candidates(in.Summary.Stages), &assay.Baseline{Load: s.Plan.Kind, At: at}) {
		all = append(all, figuresOf(same, limited))
	}
	f := middle(all)
	b := assay.Baseline{
		Format: assay.BaselineFormat, Name: name, Source: "run " + sum.RunID,
		Engine: engineName(engineOf(in)), Model: engineOf(in).Model,
		Load: s.Plan.Kind, At: at,
		TTFTp99MS: f.ttft.pointer(), TPOTp50MS: f.tpot.pointer(),
		OutputTokensPerSecond: f.rate.pointer(), TokensPerJoule: f.perJoule.pointer(),
	}
	if cards := cardsOf(in); len(cards) > 0 {
		b.GPUModel, b.GPUCount = cards[0].Name, len(cards)
	}
	if err := check(b); err != nil {
		return assay.Baseline{}, fmt.Errorf("%w: %w", ErrNotABaseline, err)
	}
	return b, nil
}

// ParseBaseline reads a baseline file.
func ParseBaseline(data []byte) (assay.Baseline, error) {
	var b assay.Baseline
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&b); err != nil {
		return assay.Baseline{}, fmt.Errorf("read baseline: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return assay.Baseline{}, errors.New("read baseline: something follows the object")
	}
	if err := check(b); err != nil {
		return assay.Baseline{}, fmt.Errorf("read baseline: %w", err)
	}
	return b, nil
}

func check(b assay.Baseline) error {
	if b.Format != assay.BaselineFormat {
		return fmt.Errorf("format is %q, this version reads %q", clip(b.Format), assay.BaselineFormat)
	}
	if b.Name == "" || b.Source == "" {
		return errors.New("it needs a name and a source")
	}
	has := false
	for _, p := range []struct {
		name string
		v    *float64
	}{{"ttft_p99_ms", b.TTFTp99MS}, {"tpot_p50_ms", b.TPOTp50MS}, {"output_tokens_per_second", b.OutputTokensPerSecond}, {"tokens_per_joule", b.TokensPerJoule}} {
		if p.v == nil {
			continue
		}
		if _, ok := positive(p.v); !ok {
			return fmt.Errorf("%s must be above zero, or null", p.name)
		}
		has = true
	}
	if !has {
		return errors.New("it has no figure at all")
	}
	if b.At < 0 || b.At > 0 && b.Load == "" {
		return errors.New("at needs a load that it is of, and is not negative")
	}
	return nil
}

// Catalogue gives the baselines that are shipped: only figures that were
// measured and published, each with where and how.
func Catalogue() ([]assay.Baseline, error) {
	var list []assay.Baseline
	if err := json.Unmarshal(catalogue, &list); err != nil {
		return nil, fmt.Errorf("read the catalogue of baselines: %w", err)
	}
	for _, b := range list {
		if err := check(b); err != nil {
			return nil, fmt.Errorf("baseline %s of the catalogue: %w", b.Name, err)
		}
	}
	return list, nil
}
