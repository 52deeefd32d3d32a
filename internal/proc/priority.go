package proc

// Level is how this process competes for processors with the others of the
// machine.
type Level string

// The levels.
const (
	LevelNormal   Level = "normal"   // as it was started
	LevelHigh     Level = "high"     // nice −10
	LevelRealtime Level = "realtime" // SCHED_RR, bounded by RLIMIT_RTTIME
)

// Standing is what a process got.
type Standing struct {
	Level Level
	Nice  int
	// Session is the nice value of the process's session, by which a kernel with
	// sched_autogroup shares processors before it looks at that of a thread.
	// Zero: it was not raised.
	Session int
	Why     string // it got less than was asked; empty: it did not
}
