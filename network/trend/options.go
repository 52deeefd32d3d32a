package trend

import "time"

// Options say what is worth an alarm, and how rarely an alarm may be false.
type Options struct {
	// FalseAlarms is how many changes a year may be found in a series that has none.
	// What is found and is less than MinLoss is no alarm, so that there are fewer.
	FalseAlarms float64
	// MinLoss is the least loss that is worth an alarm, as a share.
	MinLoss float64
	// MinPoints and MinSpan are how long a series has to be before it is looked at.
	MinPoints int
	MinSpan   time.Duration

	// MinPeers is how many others a node is compared with at least, and PeerScore
	// and PeerLoss how far from them it has to be: in robust standard deviations,
	// and as a share.
	MinPeers  int
	PeerScore float64
	PeerLoss  float64
	// Recent is how many of the node's last reports are taken together for that.
	Recent int

	// MinGroup is how many nodes a batch has at least, and GroupLevel the chance of
	// naming one where there is none, over all groups of a look together.
	MinGroup   int
	GroupLevel float64

	// A node flaps when it went down Flaps times within FlapSpan and came back.
	Flaps    int
	FlapSpan time.Duration
}

// Default is what the server looks for.
func Default() Options {
	return Options{
		FalseAlarms: 0.1, MinLoss: 0.02, MinPoints: 24, MinSpan: 5 * day,
		MinPeers: 8, PeerScore: 4, PeerLoss: 0.05, Recent: 5,
		MinGroup: 3, GroupLevel: 1e-4,
		Flaps: 3, FlapSpan: 14 * day,
	}
}

const (
	day  = 24 * time.Hour
	year = 365 * day
)
