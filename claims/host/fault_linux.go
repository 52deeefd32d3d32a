package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
)

// faults are the page faults of this thread so far; the goroutine must be locked
// to it.
func faults() (minor, major int64, err error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0, 0, fmt.Errorf("count page faults: %w", err)
	}
	return u.Minflt, u.Majflt, nil
}

// minorFault touches one fresh page after the other.
type minorFault struct {
	m     []byte
	page  int
	next  int
	extra map[string]float64 // of a sample with one fault: there are a hundred thousand a second
}

func startMinorFault(ctx context.Context, env claims.Env) (claims.Runner, error) {
	m, err := anonymous(ctx, env, 16<<20, false)
	if err != nil {
		return nil, err
	}
	f := &minorFault{m: m, page: os.Getpagesize(), extra: map[string]float64{"minor_faults": 1, "clock_s": clockCost()}}
	return hostRunner{sample: f.sample, close: func() error { return unix.Munmap(m) }}, nil
}

func (f *minorFault) sample(context.Context) (claims.Measurement, error) {
	if f.next+f.page > len(f.m) {
		if err := unix.Madvise(f.m, unix.MADV_DONTNEED); err != nil {
			return claims.Measurement{}, fmt.Errorf("give the pages back: %w", err)
		}
		f.next = 0
	}
	at := f.next
	f.next += f.page

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, _, err := faults()
	if err != nil {
		return claims.Measurement{}, err
	}
	start := time.Now()
	f.m[at] = 1
	took := time.Since(start)
	after, _, err := faults()
	if err != nil {
		return claims.Measurement{}, err
	}
	if after == before {
		return claims.Measurement{}, claims.Unavailablef("the kernel mapped more than the page that was touched: no fault was counted")
	}
	extra := f.extra
	if after != before+1 {
		extra = map[string]float64{"minor_faults": float64(after - before), "clock_s": f.extra["clock_s"]}
	}
	return claims.Measurement{Value: took.Seconds(), Extra: extra}, nil
}

// majorFault touches pages of a file that are not in the page cache.
type majorFault struct {
	f     *os.File
	m     []byte
	page  int
	rand  *rand.Rand
	clock float64
}

// majorFile is far larger than what a disk reads ahead, and small enough to be
// written in a moment.
const majorFile = 64 << 20

func startMajorFault(ctx context.Context, env claims.Env) (claims.Runner, error) {
	f, err := scratchFile(env.Dir, majorFile, false)
	if err != nil {
		return nil, err
	}
	p := &majorFault{f: f, page: os.Getpagesize(), rand: rand.New(rand.NewPCG(env.Seed, 2)), clock: clockCost()}
	if err := p.write(ctx, env.Seed); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			err = claims.Unavailablef("%w", err)
		}
		return nil, errors.Join(err, f.Close())
	}
	p.m, err = unix.Mmap(int(f.Fd()), 0, majorFile, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(claims.Unavailablef("map a file: %w", err), f.Close())
	}
	// Without this the kernel reads and maps the neighbours as well.
	if err := unix.Madvise(p.m, unix.MADV_RANDOM); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return hostRunner{sample: p.sample, close: p.close}, nil
}

// write fills the file: each page begins with its own number, mixed with the seed.
func (p *majorFault) write(ctx context.Context, seed uint64) error {
	chunk := make([]byte, 1<<20)
	if err := fill(ctx, chunk, seed); err != nil {
		return err
	}
	for off := 0; off < majorFile; off += len(chunk) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for i := 0; i < len(chunk); i += p.page {
			binary.LittleEndian.PutUint64(chunk[i:], uint64(off+i)+1)
		}
		if _, err := p.f.WriteAt(chunk, int64(off)); err != nil {
			return fmt.Errorf("write the file to be mapped: %w", err)
		}
	}
	return p.f.Sync() // a page that is still to be written is not dropped
}

// drop takes the file out of our mapping and out of the page cache.
func (p *majorFault) drop() error {
	if err := unix.Madvise(p.m, unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("give the mapping up: %w", err)
	}
	if err := unix.Fadvise(int(p.f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop the file from the page cache: %w", err)
	}
	return nil
}

func (p *majorFault) sample(ctx context.Context) (claims.Measurement, error) {
	// The advice is advice: a page that something else holds stays. Another one
	// may do, and if none does, then it cannot be measured here.
	const tries = 100
	for range tries {
		if err := context.Cause(ctx); err != nil {
			return claims.Measurement{}, err
		}
		if err := p.drop(); err != nil {
			return claims.Measurement{}, err
		}
		m, major, err := p.touch(p.rand.IntN(majorFile/p.page) * p.page)
		if err != nil || major {
			return m, err
		}
	}
	return claims.Measurement{}, claims.Unavailablef("none of %d touches was a major fault: the page cache of this file system cannot be dropped", tries)
}

func (p *majorFault) touch(at int) (m claims.Measurement, major bool, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, before, err := faults()
	if err != nil {
		return m, false, err
	}
	start := time.Now()
	got := binary.LittleEndian.Uint64(p.m[at:])
	took := time.Since(start)
	_, after, err := faults()
	if err != nil {
		return m, false, err
	}
	if got != uint64(at)+1 {
		return m, false, fmt.Errorf("%w: the page at %d is not what was written", claims.ErrWrong, at)
	}
	return claims.Measurement{Value: took.Seconds(), Extra: map[string]float64{"major_faults": float64(after - before), "clock_s": p.clock}}, after > before, nil
}

func (p *majorFault) close() error {
	return errors.Join(unix.Munmap(p.m), p.f.Close())
}
