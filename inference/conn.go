package inference

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is one connection to the engine. It serves one request at a time.
type conn struct {
	c   *Client
	tcp net.Conn
	tls *tls.Conn       // nil without TLS
	raw syscall.RawConn // nil where reads are not stamped by the kernel

	s    *stream // the request that it serves
	sent int64   // when that request's first byte was about to be written
	seq  uint64  // number of the last read
	segs segments
	now  int64 // when our code had it
	wall int64 // the kernel's stamp of it, 0 for none

	pumpFn func(fd uintptr) bool
	shut   atomic.Bool

	idleSince, maxIdle int64
	address            string // of the peer
}

// dial makes a connection that is ready for a request. It leaves the process
// some descriptors for other uses.
func (c *Client) dial(ctx context.Context) (cn *conn, err error) {
	if n := c.open.Add(1); c.room > 0 && n > c.room {
		c.open.Add(-1)
		return nil, fmt.Errorf("%d connections are open, and more are not allowed to this process (ulimit -n): %w", n-1, syscall.EMFILE)
	}
	defer func() {
		if err != nil {
			c.open.Add(-1)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, c.timeouts.Connect)
	defer cancel()
	tcp, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	cn = &conn{c: c, tcp: tcp, address: tcp.RemoteAddr().String(), segs: segments{known: true}}
	if c.stamps {
		if raw, err := tcp.(*net.TCPConn).SyscallConn(); err == nil && stampReads(raw) == nil {
			cn.raw = raw
			cn.pumpFn = cn.pump
		}
	}
	if c.tlsConfig != nil {
		cn.tls = tls.Client(&stamped{Conn: tcp, cn: cn}, c.tlsConfig)
		if err := cn.tls.HandshakeContext(ctx); err != nil {
			tcp.Close()
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
	}
	return cn, nil
}

func (cn *conn) close() {
	if cn.shut.CompareAndSwap(false, true) {
		cn.tcp.Close()
		cn.c.open.Add(-1)
	}
}

// write sends the whole request, and notes when it began to.
func (cn *conn) write(b []byte) error {
	cn.sent = 0
	if cn.tls != nil {
		_, err := cn.tls.Write(b)
		return err
	}
	cn.sent = cn.c.clock.Now()
	_, err := cn.tcp.Write(b)
	return err
}

// receive reads the reply into s until the request is over. Its error is that
// of the connection; the stream's own is in s.
func (cn *conn) receive(s *stream) error {
	cn.s = s
	defer func() { cn.s = nil }()
	if cn.tls != nil || cn.raw == nil {
		return cn.receivePlain(s)
	}
	for {
		err := cn.raw.Read(cn.pumpFn)
		if errors.Is(err, os.ErrDeadlineExceeded) && s.watch.killed.Load() == killedNot {
			// The watchdog woke us to find what the poller tells only once.
			if err := cn.tcp.SetReadDeadline(time.Time{}); err != nil {
				return err
			}
			if s.watch.killed.Load() != killedNot {
				return os.ErrDeadlineExceeded // its deadline may be the one we took away
			}
			continue
		}
		if err == nil {
			err = s.readErr
		}
		return err
	}
}

// receivePlain reads by Read, the portable way, and TLS.
func (cn *conn) receivePlain(s *stream) error {
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	var rd io.Reader = cn.tcp
	if cn.tls != nil {
		rd = cn.tls
	}
	for {
		n, err := rd.Read(buf.data[:])
		if n > 0 {
			if cn.tls == nil {
				cn.seq++
				cn.now, cn.wall = cn.c.clock.Now(), 0
			}
			s.read(cn.seq, cn.now, cn.wall)
			over := s.feed(buf.data[:n])
			if s.inRead > 1 {
				s.blame(false)
			}
			if over {
				return nil
			}
		}
		if err == io.EOF {
			s.eof()
		}
		if err != nil {
			return err
		}
	}
}

// stamped is the connection under TLS. It notes when ciphertext came and when
// the request's first byte went.
type stamped struct {
	net.Conn
	cn *conn
}

func (t *stamped) Write(p []byte) (int, error) {
	if t.cn.sent == 0 {
		t.cn.sent = t.cn.c.clock.Now()
	}
	return t.Conn.Write(p)
}

func (t *stamped) Read(p []byte) (n int, err error) {
	t.cn.wall = 0
	if t.cn.raw != nil {
		n, t.cn.wall, err = readStamped(t.cn.raw, p)
	} else {
		n, err = t.Conn.Read(p)
	}
	t.cn.seq++
	t.cn.now = t.cn.c.clock.Now()
	return n, err
}

// buffer is what one read needs. It is taken for as long as a piece is being
// parsed and not for as long as a request waits, so that thousands of streams
// share a few that stay in the processor's cache.
type buffer struct {
	msg  message
	data [32 << 10]byte
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// idle is a stack of connections that wait for a request: the last one used is
// the one whose peer has had least time to close it.
type idle struct {
	mu     sync.Mutex
	conns  []*conn
	closed bool
}

// last gives the connection that was used last, alive or not; nil: there is none.
func (p *idle) last() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns)
	if n == 0 {
		return nil
	}
	cn := p.conns[n-1]
	p.conns[n-1] = nil
	p.conns = p.conns[:n-1]
	return cn
}

// take gives a connection that is alive as far as can be seen without waiting.
func (p *idle) take(now int64) *conn {
	for {
		cn := p.last()
		if cn == nil || now-cn.idleSince <= cn.maxIdle && cn.alive() {
			return cn
		}
		cn.close()
	}
}

func (p *idle) put(cn *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		cn.close()
		return
	}
	p.conns = append(p.conns, cn)
}

// prune closes connections that lay idle for too long.
func (p *idle) prune(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.conns[:0]
	for _, cn := range p.conns {
		if now-cn.idleSince <= cn.maxIdle {
			kept = append(kept, cn)
		} else {
			cn.close()
		}
	}
	clear(p.conns[len(kept):])
	p.conns = kept
}

func (p *idle) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, cn := range p.conns {
		cn.close()
	}
	p.conns = nil
}

// alive reports whether the connection is open and has nothing to say: an idle
// connection that says something is not in step with us.
func (cn *conn) alive() bool {
	raw := cn.raw
	if raw == nil {
		sc, ok := cn.tcp.(syscall.Conn)
		if !ok {
			return true
		}
		var err error
		if raw, err = sc.SyscallConn(); err != nil {
			return false
		}
	}
	return silent(raw) && (cn.tls == nil || cn.tlsSilent())
}

// tlsSilent reports whether TLS holds nothing that was read and not asked for.
func (cn *conn) tlsSilent() bool {
	if cn.tcp.SetReadDeadline(past) != nil {
		return false
	}
	var b [1]byte
	n, err := cn.tls.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && cn.tcp.SetReadDeadline(time.Time{}) == nil
}
