package node

import (
	"context"
	"fmt"
	"time"
)

// DeadMan is the script that a machine starts with: it ends the machine when its
// lease was not renewed for so long, whoever is away. It counts the seconds since
// boot, which nobody sets, and begins before anybody has signed in. End is what ends
// the machine; empty: nothing can, and there is no script.
func DeadMan(end string, lease time.Duration) string {
	if end == "" {
		return ""
	}
	seconds := max(1, int(lease.Seconds()))
	return fmt.Sprintf(`#!/bin/sh
umask 077
mkdir -p "$HOME/.assay"
up() { cut -d . -f 1 /proc/uptime; }
[ -s "$HOME/.assay/lease" ] || up >"$HOME/.assay/lease"
(
  while sleep %d; do
    last=$(cat "$HOME/.assay/lease" 2>/dev/null)
    case $last in '' | *[!0-9]*) last=0 ;; esac
    [ $(($(up) - last)) -lt %d ] || { %s
    }
  done
) >/dev/null 2>&1 </dev/null &
`, max(1, min(10, seconds/4)), seconds, end)
}

// Renew tells the machine's dead man that somebody looks after it.
func (n *Node) Renew(ctx context.Context) error {
	_, err := n.ask(ctx, call{command: "lease"})
	return err
}
