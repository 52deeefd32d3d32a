//go:build !linux

package telemetry

import "time"

func threadTime() (time.Duration, bool)     { return 0, false }
func processTime(int) (time.Duration, bool) { return 0, false }
