package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// vllmCommand stands for vLLM's own on the machine: it takes the arguments of "serve"
// and passes on what comes to its port.
const vllmCommand = `#!/usr/bin/env python3
import socket, sys, threading
a = sys.argv
assert a[1] == "serve" and a[2] == "tiny", a
here = (a[a.index("--host") + 1], int(a[a.index("--port") + 1]))
def pump(x, y):
    try:
        while data := x.recv(65536):
            y.sendall(data)
        y.shutdown(socket.SHUT_WR)
    except OSError:
        pass
s = socket.create_server(here)
while True:
    c, _ = s.accept()
    e = socket.create_connection(("%s", %d))
    for x, y in ((c, e), (e, c)):
        threading.Thread(target=pump, args=(x, y), daemon=True).start()
`

// vllmStart is a vLLM on the machine itself, which takes a minute or two to begin.
const vllmStart = `#!/bin/sh
shift 2
exec env HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX512_CORE \
  '%[1]s/bin/python' -m vllm.entrypoints.openai.api_server "$@" --model '%[1]s/model' --served-model-name tiny --dtype float32 --max-model-len 4096 --enforce-eager
`

// A real vLLM is the engine of a rented machine, from its health check to the examined
// run: it serves outside, and its port is the machine's; in the long form it is
// started there.
func TestRealVLLMRentedMachine(t *testing.T) {
	served := os.Getenv("ASSAY_VLLM_URL")
	if served == "" {
		parttest.Need(t, "no vLLM is served: ASSAY_VLLM_URL")
	}
	m, o := rented(t)
	if !m.Isolated {
		t.Skip("the engine's port is this machine's own: no namespaces are permitted here")
	}
	if dir := os.Getenv("ASSAY_VLLM"); os.Getenv("ASSAY_LONG") == "1" && dir != "" {
		m.Program("vllm", fmt.Sprintf(vllmStart, dir))
	} else {
		gateway := outside(t, m.Address, served)
		m.Program("vllm", fmt.Sprintf(vllmCommand, gateway.Addr(), gateway.Port()))
	}
	binary, err := parttest.NodeBinary()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	n := connect(t, o)
	if err := n.Install(ctx, binary); err != nil {
		t.Fatal(err)
	}
	eo := EngineOptions{Model: "tiny", ReadyWithin: 10 * time.Minute, Every: 200 * time.Millisecond}
	if err := n.StartEngine(ctx, VLLM, eo); err != nil {
		t.Fatal(err)
	}
	if loaded, err := n.LoadModel(ctx, VLLM, eo); err != nil || loaded.First <= 0 {
		t.Fatalf("%+v, %v", loaded, err)
	}
	b := Bench{Run: "run-1", Engine: VLLM, Model: "tiny", Duration: 8 * time.Second, Streams: 1}
	if err := n.StartBench(ctx, b); err != nil {
		t.Fatal(err)
	}
	exit, err := Watch(ctx, b, WatchOptions{
		Dial:  func(ctx context.Context) (*Node, error) { return Await(ctx, o, Patience{Within: 20 * time.Second}) },
		Every: time.Second,
	})
	if err != nil || exit != 0 {
		logs, _ := n.Logs(ctx, b.Run)
		t.Fatalf("exit %d, %v\n%s", exit, err, logs)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := n.Collect(ctx, b.Run, dir, Limits{}); err != nil {
		t.Fatal(err)
	}
	run, sum, err := Examine(dir, Want{Model: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	if run.Status() != "complete" || len(sum.Stages) == 0 || !(sum.Stages[0].OutputTokensPerSecond > 0) {
		t.Errorf("status %s, stages %+v", run.Status(), sum.Stages)
	}
}

// outside lets a machine reach an address of this one, at its gateway.
func outside(t *testing.T, machine, served string) netip.AddrPort {
	t.Helper()
	own, err := netip.ParseAddrPort(machine)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(served)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(own.Addr().Prev().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				e, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target.Host)
				if err != nil {
					return
				}
				defer e.Close()
				go func() { _, _ = io.Copy(e, c); _ = e.(*net.TCPConn).CloseWrite() }()
				_, _ = io.Copy(c, e)
			}()
		}
	}()
	return netip.MustParseAddrPort(ln.Addr().String())
}
