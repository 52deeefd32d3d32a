//go:build !linux

package proc

// Raise does nothing here: only Linux gives threads a priority and takes it from
// their children.
func Raise(asked Level, _ func(Standing)) (got Standing, lower func()) {
	got.Level = LevelNormal
	if asked != LevelNormal {
		got.Why = "priorities are set on Linux only"
	}
	return got, func() {}
}

// Unbound does nothing here: Raise sets no limit.
func Unbound(int) {}

// Lower does nothing here.
func Lower(int) error { return nil }
