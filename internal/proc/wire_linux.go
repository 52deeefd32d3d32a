package proc

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// Supervisor and first process of a namespace find these descriptors open. The
// first carries a job and then orders, one JSON value after the other, and its
// end means that the one who gave them is dead; the second carries messages back;
// the others are the program's own.
const (
	fdOrders   = 3
	fdMessages = 4
	fdStdin    = 5
	fdStdout   = 6
	fdStderr   = 7
)

const (
	roleSupervise = "supervise"
	roleInit      = "init"
)

// job is what to run. Everything that the system knows as bytes stays bytes: JSON
// would change file names that are not UTF-8.
type job struct {
	Role        string        `json:"role"`
	Supervisor  [][]byte      `json:"supervisor"`
	Path        []byte        `json:"path"`
	Args        [][]byte      `json:"args"`
	Dir         []byte        `json:"dir"`
	Env         [][]byte      `json:"env"`
	TempDir     []byte        `json:"temp_dir"`
	CPUs        []int         `json:"cpus"`
	MemoryBytes int64         `json:"memory_bytes"`
	Grace       time.Duration `json:"grace"`
	Avoid       Means         `json:"avoid"`
}

func asBytes(ss []string) [][]byte {
	bs := make([][]byte, len(ss))
	for i, s := range ss {
		bs[i] = []byte(s)
	}
	return bs
}

func asStrings(bs [][]byte) []string {
	ss := make([]string, len(bs))
	for i, b := range bs {
		ss[i] = string(b)
	}
	return ss
}

type order string

const (
	orderStop order = "stop" // SIGTERM, and after the grace time the end
	orderKill order = "kill" // the end
)

// message is one of: it runs; it ended; it could not be started.
type message struct {
	Ready *ready `json:"ready,omitempty"`
	Exit  *Exit  `json:"exit,omitempty"`
	// Error is why it was not started.
	Error string `json:"error,omitempty"`
	// Errno is the system's reason in it, 0 for none.
	Errno syscall.Errno `json:"errno,omitempty"`
	// Refused says that the namespace and not the program was at fault.
	Refused bool `json:"refused,omitempty"`
}

type ready struct {
	PID int `json:"pid"`
	// Start tells the process from a later one of the same id.
	Start uint64 `json:"start"`
	// Init is the first process of the pid namespace, 0 where there is none.
	Init      int       `json:"init,omitempty"`
	Isolation Isolation `json:"isolation"`
}

func failure(doing string, err error) message {
	m := message{Error: fmt.Sprintf("%s: %v", doing, err)}
	m.Errno, _ = asErrno(err)
	return m
}

func (m message) err() error {
	if m.Errno != 0 {
		return &startError{text: m.Error, errno: m.Errno}
	}
	return &startError{text: m.Error}
}

// startError carries the reason across the process boundary, so that errors.Is
// with os.ErrPermission and its like works for the caller.
type startError struct {
	text  string
	errno syscall.Errno
}

func (e *startError) Error() string { return e.text }

func (e *startError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// messages writes to a parent that may be dead: that is heard elsewhere, and no
// reason to leave the cleaning undone.
type messages struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func newMessages(w io.Writer) *messages { return &messages{enc: json.NewEncoder(w)} }

func (m *messages) send(msg message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.enc.Encode(msg)
}

// orders gives what comes after the job, and is closed when the giver is gone.
func orders(dec *json.Decoder) <-chan order {
	c := make(chan order)
	go func() {
		defer close(c)
		for {
			var o order
			if dec.Decode(&o) != nil {
				return
			}
			c <- o
		}
	}()
	return c
}

// inherited takes over the descriptors of above, and keeps them from the program.
func inherited() (in, out *os.File, stdio [3]*os.File, err error) {
	for fd := fdOrders; fd <= fdStderr; fd++ {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil || fd <= fdMessages && st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			return nil, nil, stdio, fmt.Errorf("descriptor %d is not what a supervisor is given; this command is for our own use", fd)
		}
		syscall.CloseOnExec(fd)
	}
	for i := range stdio {
		stdio[i] = os.NewFile(uintptr(fdStdin+i), "stdio")
	}
	return os.NewFile(fdOrders, "orders"), os.NewFile(fdMessages, "messages"), stdio, nil
}
