// Swarm plays many agents against a server: each with a key of its own, enrolled,
// logged in, heart-beating, waiting for commands and delivering signed reports with
// their evidence. The protocol is the real one; the measuring is not: all of them
// deliver one recorded run, under their own names.
//
//	swarm -server URL -token-file F [-agents 1000] [-for 3m] [-heartbeat 30s] [-report 30s]
//
// It prints one JSON object: how long each kind of request took, what failed, and
// how many reports were confirmed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.server, "server", "http://127.0.0.1:8700", "`URL` of the server")
	tokenFile := flag.String("token-file", "", "`FILE` with an admin's token, which takes the agents in")
	flag.IntVar(&o.agents, "agents", 1000, "how many")
	flag.DurationVar(&o.length, "for", 3*time.Minute, "how long, from when all are enrolled")
	flag.DurationVar(&o.heartbeat, "heartbeat", 30*time.Second, "between two heart-beats of one agent")
	flag.DurationVar(&o.report, "report", 30*time.Second, "between two reports of one agent; 0: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	token, err := os.ReadFile(*tokenFile)
	if err == nil {
		o.token = strings.TrimSpace(string(token))
		var r result
		if r, err = run(ctx, o); err == nil {
			e := json.NewEncoder(os.Stdout)
			e.SetIndent("", "  ")
			err = e.Encode(r)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "swarm:", err)
		os.Exit(1)
	}
}
