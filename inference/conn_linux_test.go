package inference

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// A peer that sends faster than we read never lets us wait, so the deadline
// alone would not end the request.
func TestPumpSeesItsEnd(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := offline(t, OpenAI)
	tcp, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	io.WriteString(peer, "HTTP/1.1 200 OK\r\n\r\n")
	block := make([]byte, 256<<10)
	for i := range block {
		block[i] = '\n'
	}
	if _, err := peer.Write(block); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	raw, err := tcp.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	cn := &conn{c: c, tcp: tcp, raw: raw}
	cn.pumpFn = cn.pump
	s := newStream(c, 0)
	s.reset(new(assay.Request), &Job{})
	s.watch.attach(cn, phaseFirst, 1<<62, 1<<62)
	s.watch.killed.Store(killedTotal)
	cn.s = s
	buf := new(buffer)
	var over bool
	if err := raw.Read(func(fd uintptr) bool { over = cn.pumpInto(s, fd, buf); return true }); err != nil {
		t.Fatal(err)
	}
	if !over || !errors.Is(s.readErr, os.ErrDeadlineExceeded) {
		t.Fatalf("over %v, %v", over, s.readErr)
	}
}
