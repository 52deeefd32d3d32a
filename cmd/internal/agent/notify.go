package agent

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// notifier tells the service manager how the agent is (sd_notify(3)): one
// datagram a word, to the socket that it named in the environment. Without one
// nobody is told.
func notifier() (tell func(string), watchdog time.Duration, err error) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil, 0, nil
	}
	if path[0] == '@' {
		path = "\x00" + path[1:] // the abstract namespace
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, 0, fmt.Errorf("tell the service manager: %w", err)
	}
	return func(word string) { _, _ = conn.Write([]byte(word)) }, watchdogInterval(), nil // it is the manager's to miss it
}

// watchdogInterval is how often the manager must hear of us; 0: never, or it
// waits for another process.
func watchdogInterval() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
