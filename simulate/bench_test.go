package simulate

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
)

// What one token's write costs in net/http and here, each to a reader that
// throws away. The difference is why connections are taken over.
func BenchmarkWrite(b *testing.B) {
	event := make([]byte, 240)
	b.Run("ResponseWriter", func(b *testing.B) {
		done := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			f := w.(http.Flusher)
			w.Write(event)
			f.Flush()
			b.ResetTimer()
			for range b.N {
				w.Write(event)
				f.Flush()
			}
			b.StopTimer()
			close(done)
		}))
		defer s.Close()
		nc, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		io.Copy(io.Discard, nc)
		nc.Close()
		<-done
	})
	b.Run("conn", func(b *testing.B) {
		e, err := New(Config{})
		if err != nil {
			b.Fatal(err)
		}
		defer e.Close()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer ln.Close()
		out, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		in, err := ln.Accept()
		if err != nil {
			b.Fatal(err)
		}
		read := make(chan struct{})
		go func() { io.Copy(io.Discard, in); in.Close(); close(read) }()
		c := newConn(e, out, nil)
		for b.Loop() {
			c.write(event)
			for c.busy() { // count what is sent, not what is kept
				runtime.Gosched()
			}
		}
		out.Close()
		<-read
	})
}

func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flying
}

// What the pacer itself costs for a token, without a connection.
func BenchmarkFixedLaw(b *testing.B) {
	l := newFixed(Config{ITL: 10 * time.Millisecond, TokensPerChunk: 1}, new(gauges))
	for i := range 10000 {
		l.admit(ask1(1<<30, int64(i)*1000))
	}
	n := 0
	give := func(*sequence, int, int64) bool { n++; return true }
	for n < b.N {
		l.advance(l.next(), give)
	}
}
