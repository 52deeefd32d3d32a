package flow

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/foreign"
)

// marked is how a cause is told from the type that Temporal gives to other errors.
const marked = "assay:"

// refuse is a failure whose cause is known, and which the same try does not mend.
func refuse(c campaign.Cause, err error) error {
	return temporal.NewNonRetryableApplicationError(foreign.Line(err.Error(), maxMessage), marked+string(c), nil)
}

// causes are what errors of other packages mean. The first that fits counts.
func causes() []struct {
	err   error
	cause campaign.Cause
	again bool // another call on the same machine may do
} {
	return []struct {
		err   error
		cause campaign.Cause
		again bool
	}{
		{store.ErrLease, campaign.CauseLease, false},
		{store.ErrCap, campaign.CauseBudget, false},
		{provider.ErrNoMoney, campaign.CauseBudget, false},
		{store.ErrHeld, campaign.CauseHeld, false},
		{store.ErrBusy, campaign.CauseCapacity, false},
		{store.ErrClosed, campaign.CauseCancelled, false},
		{provider.ErrKey, campaign.CauseKey, false},
		{provider.ErrNoCapacity, campaign.CauseCapacity, false},
		{rent.ErrLost, campaign.CauseCapacity, false},
		{errStopped, campaign.CauseStopped, false},
		{node.ErrHostKey, campaign.CauseHostKey, false},
		{node.ErrForged, campaign.CauseForged, false},
		{node.ErrHostile, campaign.CauseHostile, false},
		{node.ErrNoGPU, campaign.CauseGPU, false},
		{node.ErrEngine, campaign.CauseEngine, false},
		{node.ErrStuck, campaign.CauseStuck, false},
		{node.ErrAuth, campaign.CauseSSH, false},
		{node.ErrNotReady, campaign.CauseSSH, true},
		{node.ErrLost, campaign.CauseLost, true},
	}
}

// coded gives an error the cause that a workflow decides by.
func coded(err error) error {
	var known *temporal.ApplicationError
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	for _, c := range causes() {
		if errors.Is(err, c.err) {
			if c.again {
				return temporal.NewApplicationError(foreign.Line(err.Error(), maxMessage), marked+string(c.cause))
			}
			return refuse(c.cause, err)
		}
	}
	return err
}
