package acceptance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capture keeps the packets of one local port with the kernel's own stamps: a
// truth about arrivals that shares nothing with the client's.
type capture struct {
	fd   int
	port uint16
	wg   sync.WaitGroup
	mu   sync.Mutex
	data map[uint16]*captured // by the client's port
}

// captured is what crossed one connection, in order.
type captured struct {
	next  map[bool]uint32 // sequence number that comes next, by direction
	parts []part
}

type part struct {
	toClient bool
	at       int64 // wall clock
	data     []byte
}

// startCapture listens on loopback until the test ends or stop is called.
func startCapture(t *testing.T, port uint16) *capture {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IP)))
	if err != nil {
		t.Skipf("no packet capture here: %v", err)
	}
	c := &capture{fd: fd, port: port, data: map[uint16]*captured{}}
	lo, err := loopback()
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_IP), Ifindex: lo})
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20)
	}
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	}
	if err != nil {
		unix.Close(fd)
		t.Skipf("no packet capture here: %v", err)
	}
	done := make(chan struct{})
	c.wg.Add(1)
	go c.read(done)
	t.Cleanup(func() {
		close(done)
		c.wg.Wait()
		unix.Close(fd)
	})
	return c
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func loopback() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
		return 0, err
	}
	return int(ifr.Uint32()), nil
}

func (c *capture) read(done chan struct{}) {
	defer c.wg.Done()
	buf, oob := make([]byte, 1<<17), make([]byte, 256)
	for {
		select {
		case <-done:
			return
		default:
		}
		n, oobn, _, from, err := unix.Recvmsg(c.fd, buf, oob, 0)
		if err != nil {
			continue // the timeout, so that done is looked at
		}
		// Loopback shows each packet twice: going out, and coming in.
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		c.packet(buf[:n], stampOf(oob[:oobn]))
	}
}

func stampOf(oob []byte) int64 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			ts := (*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			return ts.Nano()
		}
	}
	return 0
}

// packet takes an IPv4 packet.
func (c *capture) packet(b []byte, at int64) {
	if len(b) < 20 || b[0]>>4 != 4 || b[9] != unix.IPPROTO_TCP {
		return
	}
	if total := int(binary.BigEndian.Uint16(b[2:])); total > 0 && total <= len(b) {
		b = b[:total]
	}
	ip := int(b[0]&15) * 4
	if len(b) < ip+20 {
		return
	}
	tcp := b[ip:]
	from, to := binary.BigEndian.Uint16(tcp), binary.BigEndian.Uint16(tcp[2:])
	head := int(tcp[12]>>4) * 4
	if len(tcp) <= head || from != c.port && to != c.port {
		return
	}
	toClient, client := from == c.port, to
	if !toClient {
		client = from
	}
	seq, data := binary.BigEndian.Uint32(tcp[4:]), tcp[head:]
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.data[client]
	if conn == nil {
		conn = &captured{next: map[bool]uint32{}}
		c.data[client] = conn
	}
	if next, known := conn.next[toClient]; known && int32(next-seq) > 0 {
		return // sent again
	}
	conn.next[toClient] = seq + uint32(len(data))
	conn.parts = append(conn.parts, part{toClient, at, bytes.Clone(data)})
}

var (
	requestID = regexp.MustCompile(`X-Request-Id: (\S+)\r\n`)
	tokens    = regexp.MustCompile(`"completion_tokens":(\d+)`)
)

// onWire is what the capture knows of a request: when its head was there, and
// when each event that brought tokens had arrived whole.
type onWire struct {
	sent   int64
	tokens []int64
}

// arrivals gives the requests by their ids. The engine must count in each event.
func (c *capture) arrivals() (map[string]*onWire, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]*onWire{}
	for port, conn := range c.data {
		id, count := "", 0
		var pending []byte
		for _, p := range conn.parts {
			if !p.toClient {
				if m := requestID.FindSubmatch(p.data); m != nil {
					id, count, pending = string(m[1]), 0, nil
					out[id] = &onWire{sent: p.at}
				}
				continue
			}
			pending = append(pending, p.data...)
			for {
				end := bytes.Index(pending, []byte("\n\n"))
				if end < 0 {
					break
				}
				event := pending[:end]
				pending = pending[end+2:]
				m := tokens.FindSubmatch(event)
				if m == nil || id == "" {
					continue
				}
				n, err := strconv.Atoi(string(m[1]))
				if err != nil {
					return nil, fmt.Errorf("port %d: %w", port, err)
				}
				if n > count {
					count = n
					out[id].tokens = append(out[id].tokens, p.at)
				}
			}
		}
	}
	return out, nil
}
