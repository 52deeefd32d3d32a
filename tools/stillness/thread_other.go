//go:build !linux

package stillness

import "time"

func realtime() bool { return false }

func nap(d time.Duration) { time.Sleep(d) }
