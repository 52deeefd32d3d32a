package inference

import (
	"context"
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watchSelf runs the sentinel until ctx ends: a kernel timer that is read
// through the runtime's poller, as the connections are.
func (c *Client) watchSelf(ctx context.Context) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		c.tickSelf(ctx)
		return
	}
	timer := os.NewFile(uintptr(fd), "sentinel")
	defer timer.Close()
	every := unix.NsecToTimespec(sentinelEvery)
	defer context.AfterFunc(ctx, func() { _ = timer.SetReadDeadline(time.Unix(1, 0)) })() // fails only when it is closed
	due := int64(0)
	for {
		rested, ok := c.sentinel.rest(ctx)
		if !ok {
			return
		}
		if rested || due == 0 {
			if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
				c.tickSelf(ctx)
				return
			}
			due = c.clock.Now() + sentinelEvery
		}
		var b [8]byte
		if _, err := timer.Read(b[:]); err != nil {
			return
		}
		now := c.clock.Now()
		c.sentinel.woke(now, now-due)
		due += int64(binary.NativeEndian.Uint64(b[:])) * sentinelEvery
		if due < now-2*sentinelEvery || due > now+2*sentinelEvery {
			due = now + sentinelEvery // the clocks have drifted apart
		}
	}
}

// dataSegments is the number of segments with data that the connection has
// received.
func dataSegments(fd uintptr) (uint32, bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	return info.Data_segs_in, true
}
