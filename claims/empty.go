package claims

import (
	"context"
	"time"

	"github.com/assay-bench/assay"
)

// EmptyProbe times nothing, one by one, as other probes time something: what it
// gives is what timing itself takes. It is reported and subtracted nowhere: the
// difference of two noisy figures is a third, noisier one.
func EmptyProbe() Probe {
	return Probe{
		Name: "empty/nothing", Help: "Reads the clock twice with nothing in between: what measuring itself takes.",
		Unit: unitSeconds, Better: assay.Lower,
		Start: func(context.Context, Env) (Runner, error) { return emptyRunner{}, nil },
	}
}

type emptyRunner struct{}

func (emptyRunner) Sample(context.Context) (Measurement, error) {
	start := time.Now()
	return Measurement{Value: time.Since(start).Seconds()}, nil
}

func (emptyRunner) Close() error { return nil }
