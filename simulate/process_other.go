//go:build !unix

package simulate

import "time"

func usageOfProcess() (cpu time.Duration, rss int64) { return 0, 0 }
