package simulate

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxPending bounds what is kept for a client that does not read. Beyond it
// the connection is reset.
const maxPending = 8 << 20

// conn is one client connection, read by its own goroutine and written by
// whoever has the reply in hand: first that goroutine, then the pacer.
type conn struct {
	e    *Engine
	nc   net.Conn
	in   *bounded
	br   *bufio.Reader
	body []byte
	done chan struct{} // one for each reply that the pacer has finished

	// The direct path: a write that cannot block, without a goroutine switch.
	raw syscall.RawConn // nil: always through the buffer (TLS)
	out []byte
	n   int
	err error
	fn  func(uintptr) bool

	// The other path, for what the socket did not take.
	mu      sync.Mutex
	pending []byte
	flying  bool // a goroutine is writing pending
	shut    bool // close when pending is empty
	broken  bool
}

// bounded limits how much one request may make us read.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

var errTooLarge = errors.New("request larger than 32 MB")

func newConn(e *Engine, nc net.Conn, early io.Reader) *conn {
	c := &conn{e: e, nc: nc, done: make(chan struct{}, 1)}
	var r io.Reader = nc
	if early != nil {
		r = io.MultiReader(early, nc)
	}
	c.in = &bounded{r: r}
	c.br = bufio.NewReader(c.in)
	if tcp, ok := nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			c.raw = raw
		}
		c.fn = func(fd uintptr) bool {
			c.n, c.err = writeNow(fd, c.out)
			return true
		}
	}
	return c
}

// serve answers requests until the connection ends.
func (c *conn) serve() {
	for {
		c.in.left = maxHeader
		req, err := http.ReadRequest(c.br)
		if err != nil {
			if errors.Is(err, errTooLarge) {
				c.refuse(http.StatusRequestHeaderFieldsTooLarge, "request header too large")
			} else if !errors.Is(err, io.EOF) && !isNetError(err) {
				c.refuse(http.StatusBadRequest, "malformed HTTP request")
			}
			return
		}
		c.in.left = maxBody + 64<<10
		if !c.answer(req) {
			return
		}
	}
}

func isNetError(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF)
}

// refuse answers what is not even a request, and gives up the connection.
func (c *conn) refuse(status int, message string) {
	c.write(response(nil, status, "application/json", "", openAIError(status, message), true))
	c.finish(true)
}

// answer reads the body and answers one request; false ends the connection.
func (c *conn) answer(req *http.Request) bool {
	if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	}
	body, err := c.readBody(req)
	if err != nil {
		if errors.Is(err, errTooLarge) {
			c.refuse(http.StatusRequestEntityTooLarge, errTooLarge.Error())
		}
		return false
	}
	return c.respond(req, body)
}

func (c *conn) readBody(req *http.Request) ([]byte, error) {
	if req.ContentLength > maxBody {
		return nil, errTooLarge
	}
	buf := c.body[:0]
	if n := int(req.ContentLength); n > cap(buf) {
		buf = make([]byte, 0, n+1)
	}
	for {
		if len(buf) == cap(buf) {
			if len(buf) > maxBody {
				return nil, errTooLarge
			}
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := req.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if len(buf) > maxBody {
		return nil, errTooLarge
	}
	if cap(buf) <= 64<<10 {
		c.body = buf
	}
	return buf, nil
}

// respond routes a request that has been read. A generation goes to the
// pacer, while this goroutine waits for the client's next byte: its next
// request, or the end of the connection, which cancels the generation.
func (c *conn) respond(req *http.Request, body []byte) bool {
	last := req.Close || !req.ProtoAtLeast(1, 1)
	r, plain := c.e.route(req, body)
	if r == nil {
		c.write(response(nil, plain.status, plain.contentType, plain.header, plain.body, last))
		c.finish(last)
		return !last && !c.isBroken()
	}
	r.conn, r.last, r.chunked = c, last, req.ProtoAtLeast(1, 1)
	c.e.begin(r)
	c.in.left = maxHeader
	if _, err := c.br.Peek(1); err != nil {
		c.e.pacer.submit(order{r, true}, 0)
		return false
	}
	select {
	case <-c.done:
		return !last && !c.isBroken()
	case <-c.e.quit:
		return false
	}
}

// write sends b without ever blocking. What the socket does not take is kept
// and sent by a goroutine of its own, so that one slow reader delays nobody.
func (c *conn) write(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return
	}
	if !c.flying && c.raw != nil {
		c.out = b
		if err := c.raw.Write(c.fn); err != nil {
			c.err = err
		}
		c.out = nil
		if c.err != nil {
			c.broken = true
			return
		}
		if c.n == len(b) {
			return
		}
		b = b[c.n:]
	}
	if len(c.pending)+len(b) > maxPending {
		c.broken = true
		c.reset()
		return
	}
	c.pending = append(c.pending, b...)
	if !c.flying {
		c.flying = true
		c.e.work.Go(c.drain)
	}
}

// drain writes what is pending, waiting as long as the client makes it.
func (c *conn) drain() {
	for {
		c.mu.Lock()
		b := c.pending
		c.pending = nil
		if len(b) == 0 || c.broken {
			c.flying = false
			if c.shut {
				c.closeSoftly()
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		if _, err := c.nc.Write(b); err != nil {
			c.mu.Lock()
			c.broken = true
			c.mu.Unlock()
		}
	}
}

func (c *conn) isBroken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// finish ends a reply: the connection closes once everything is written, or
// waits for its next request.
func (c *conn) finish(last bool) {
	if !last {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut = true
	if !c.flying {
		c.closeSoftly()
	}
}

// leave closes the connection. After a last answer it first lets the client
// read that, for at most the second that closeSoftly allows.
func (c *conn) leave() {
	c.mu.Lock()
	shut := c.shut && !c.broken
	c.mu.Unlock()
	if shut {
		_, _ = io.Copy(io.Discard, c.nc)
	}
	c.nc.Close()
}

// closeSoftly ends our side and leaves the rest to the client: closing with
// unread input would turn into a reset that can overtake the answer.
func (c *conn) closeSoftly() {
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
		_ = tcp.SetReadDeadline(time.Now().Add(time.Second))
		return
	}
	c.nc.Close()
}

// reset closes the connection with a TCP reset.
func (c *conn) reset() {
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.nc.Close()
}
