package inference

import (
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// message is the frame of recvmsg with room for one stamp.
type message struct {
	hdr     unix.Msghdr
	iov     unix.Iovec
	control [16]uint64
}

// stampReads asks the kernel to stamp what arrives on the connection.
func stampReads(raw syscall.RawConn) error {
	var serr error
	if err := raw.Control(func(fd uintptr) { serr = stampSocket(int(fd)) }); err != nil {
		return err
	}
	return serr
}

func stampSocket(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING,
		unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE)
}

// stampProbe finds out whether the kernel stamps. The socket that it gives
// keeps stamping switched on in the kernel, which takes a moment when the first
// socket asks for it; nil where there is none.
func stampProbe() *os.File {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	if stampSocket(fd) != nil {
		unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "stamp probe")
}

// recv reads once, without waiting, and gives the stamp of the newest byte.
//
// The system call is a raw one: it cannot block, so the scheduler need not hear
// of it.
func (b *message) recv(fd uintptr, p []byte) (n int, wall int64, errno syscall.Errno) {
	b.iov.Base = &p[0]
	b.iov.SetLen(len(p))
	b.hdr.Iov, b.hdr.Iovlen = &b.iov, 1
	b.hdr.Control = (*byte)(unsafe.Pointer(&b.control))
	b.hdr.SetControllen(len(b.control) * 8)
	b.hdr.Flags = 0
	r, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&b.hdr)), unix.MSG_DONTWAIT)
	b.iov.Base = nil // p may be on its way back to someone else
	if errno != 0 {
		return 0, 0, errno
	}
	return int(r), b.stamp(), 0
}

// stamp finds the software stamp among the control messages: 0 for none.
func (b *message) stamp() int64 {
	left := int(b.hdr.Controllen)
	at := uintptr(0)
	for left >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Add(unsafe.Pointer(&b.control), at))
		size := int(h.Len)
		if size < unix.SizeofCmsghdr || size > left {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPING &&
			size >= unix.CmsgLen(int(unsafe.Sizeof(unix.Timespec{}))) {
			ts := (*unix.Timespec)(unsafe.Add(unsafe.Pointer(h), unix.CmsgLen(0)))
			return ts.Nano()
		}
		step := unix.CmsgSpace(size - unix.CmsgLen(0))
		at += uintptr(step)
		left -= step
	}
	return 0
}

// pump reads a whole reply within one call of RawConn.Read, which calls it each
// time that the poller says that there is more.
//
// The poller is edge-triggered, and RawConn.Read clears its mark only once, at
// the start: what comes after a read that emptied the socket sets it again. So a
// read that did not fill its buffer need not be followed by one that finds
// nothing, which saves a system call an event. The one thing this can miss is an
// end of the connection that came together with the last data, in one edge:
// then nothing more will set the mark. So the time of such a read is left for
// the watchdog, which looks whether a connection that has been quiet for a while
// was closed; and where the end is to be expected, we do read until there is
// nothing.
func (cn *conn) pump(fd uintptr) (over bool) {
	s := cn.s
	buf := buffers.Get().(*buffer)
	over = cn.pumpInto(s, fd, buf)
	buffers.Put(buf)
	return over
}

func (cn *conn) pumpInto(s *stream, fd uintptr, buf *buffer) (over bool) {
	for {
		n, wall, errno := buf.msg.recv(fd, buf.data[:])
		switch {
		case errno == unix.EAGAIN:
			s.watch.quiet.Store(0) // nothing is hidden: the next edge tells
			return false
		case errno == unix.EINTR:
			continue
		case errno != 0:
			s.readErr = os.NewSyscallError("recvmsg", errno)
			return true
		case n == 0:
			s.eof()
			s.readErr = io.EOF
			return true
		}
		now := cn.c.clock.Now()
		cn.seq++
		s.read(cn.seq, now, wall)
		cn.segs.read(n == len(buf.data))
		over := s.feed(buf.data[:n])
		if s.inRead > 1 {
			// What arrives while we parse is counted with this read, so it may
			// look like several segments, and then the sentinel decides; and the
			// next read is not compared.
			s.blame(cn.segs.single(dataSegments(fd)))
		}
		if over {
			return true
		}
		if n < len(buf.data) && s.frame != frameClose && !s.done && s.finished == 0 {
			s.watch.quiet.Store(now)
			return false
		}
		if s.watch.killed.Load() != killedNot {
			// A peer that never pauses would keep us from seeing the deadline.
			s.readErr = os.ErrDeadlineExceeded
			return true
		}
	}
}

// readStamped is one Read with its stamp.
func readStamped(raw syscall.RawConn, p []byte) (n int, wall int64, err error) {
	if len(p) == 0 {
		return 0, 0, nil
	}
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	var errno syscall.Errno
	rerr := raw.Read(func(fd uintptr) bool {
		for {
			n, wall, errno = buf.msg.recv(fd, p)
			if errno != unix.EINTR {
				return errno != unix.EAGAIN
			}
		}
	})
	switch {
	case rerr != nil:
		return 0, 0, rerr
	case errno != 0:
		return 0, 0, os.NewSyscallError("recvmsg", errno)
	case n == 0:
		return 0, 0, io.EOF
	}
	return n, wall, nil
}
