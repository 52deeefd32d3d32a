package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
)

const (
	pageSize  = 4096 // alignment of O_DIRECT and unit of the files; mappings use the kernel's own
	diskChunk = 16 << 20
	diskSpare = 64 << 20 // bytes of the disk that stay free
)

// readSmall reads a file of procfs or sysfs, which are bounded by what they are,
// and which a fixture may replace.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(b), err
}

// scratchFile makes a file on the disk that holds dir, past the page cache where
// direct is asked for. It has no name when we get it, so that nothing of it can
// stay behind.
func scratchFile(dir string, size int, direct bool) (*os.File, error) {
	if dir == "" {
		return nil, claims.Unavailablef("no directory was given to write to")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil, claims.Unavailablef("look at the file system of %s: %w", dir, err)
	}
	switch fs.Type {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		return nil, claims.Unavailablef("%s is held in memory, not on a disk", dir)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < uint64(size)+diskSpare {
		return nil, claims.Unavailablef("%s has %d MiB left, and %d are needed", dir, free>>20, (size+diskSpare)>>20)
	}
	f, err := os.CreateTemp(dir, ".assay-probe-*")
	if err != nil {
		return nil, claims.Unavailablef("write to the directory: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if direct {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_DIRECT); err != nil {
			return nil, errors.Join(claims.Unavailablef("the file system of %s has no O_DIRECT: %w", dir, err), f.Close())
		}
	}
	return f, nil
}

// anonymous gives memory outside of Go's heap, aligned to pages, of small pages
// only, filled from the seed so that no disk can make it smaller.
func anonymous(ctx context.Context, env claims.Env, size int, filled bool) ([]byte, error) {
	free, err := freeMemory(env)
	if err != nil {
		return nil, claims.Unavailablef("read how much memory is free: %w", err)
	}
	if free < 2*uint64(size) {
		return nil, claims.Unavailablef("%d MiB of memory are free, and twice %d are asked for", free>>20, size>>20)
	}
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, claims.Unavailablef("map %d MiB of memory: %w", size>>20, err)
	}
	// A kernel without huge pages refuses the advice, which is then not needed.
	_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE)
	if filled {
		if err := fill(ctx, m, env.Seed); err != nil {
			return nil, errors.Join(err, unix.Munmap(m))
		}
	}
	return m, nil
}

// fill writes a megabyte from the seed again and again, and the place of each
// page into it: no block is like another, and none can be made smaller.
func fill(ctx context.Context, m []byte, seed uint64) error {
	block := m[:min(len(m), 1<<20)]
	r := rand.NewPCG(seed, uint64(len(m)))
	for i := 0; i+8 <= len(block); i += 8 {
		binary.LittleEndian.PutUint64(block[i:], r.Uint64())
	}
	for at := len(block); at < len(m); at += len(block) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		copy(m[at:], block)
	}
	for at := 0; at+8 <= len(m); at += pageSize {
		binary.LittleEndian.PutUint64(m[at:], uint64(at)^seed)
	}
	return nil
}

// diskTier moves memory to a file and asks for one page of it back.
type diskTier struct {
	f     *os.File
	m     []byte
	page  []byte // aligned, for reading back
	rand  *rand.Rand
	stamp uint64
	clock float64
}

func startDisk(ctx context.Context, env claims.Env, size int) (claims.Runner, error) {
	f, err := scratchFile(env.Dir, size, true)
	if err != nil {
		return nil, err
	}
	m, err := anonymous(ctx, env, size, true)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	page, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(m), f.Close())
	}
	d := &diskTier{f: f, m: m, page: page, rand: rand.New(rand.NewPCG(env.Seed, 1)), clock: clockCost()}
	// The blocks are taken here: a tier's file is there before something moves to it.
	if _, err := d.sample(ctx); err != nil {
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSPC) {
			err = claims.Unavailablef("%w", err)
		}
		return nil, errors.Join(err, d.close())
	}
	return hostRunner{sample: d.sample, close: d.close}, nil
}

func (d *diskTier) sample(ctx context.Context) (claims.Measurement, error) {
	d.stamp++
	at := d.rand.IntN(len(d.m)/pageSize) * pageSize
	binary.LittleEndian.PutUint64(d.m[at:], d.stamp)

	start := time.Now()
	for off := 0; off < len(d.m); off += diskChunk {
		if _, err := d.f.WriteAt(d.m[off:min(off+diskChunk, len(d.m))], int64(off)); err != nil {
			return claims.Measurement{}, fmt.Errorf("write past the page cache: %w", err)
		}
		if err := context.Cause(ctx); err != nil {
			return claims.Measurement{}, err
		}
	}
	written := time.Since(start)
	if err := d.f.Sync(); err != nil {
		return claims.Measurement{}, err
	}
	took := time.Since(start)

	if err := d.check(at); err != nil {
		return claims.Measurement{}, err
	}
	return claims.Measurement{Value: took.Seconds(), Extra: map[string]float64{
		"bytes": float64(len(d.m)), "write_s": written.Seconds(), "fsync_s": (took - written).Seconds(),
		"bytes_per_s": float64(len(d.m)) / took.Seconds(), "clock_s": d.clock,
	}}, nil
}

// check reads a page back from the disk.
func (d *diskTier) check(at int) error {
	if _, err := d.f.ReadAt(d.page, int64(at)); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if !bytes.Equal(d.page, d.m[at:at+pageSize]) {
		return fmt.Errorf("%w: the page at %d is not what was written", claims.ErrWrong, at)
	}
	return nil
}

func (d *diskTier) close() error {
	return errors.Join(unix.Munmap(d.m), unix.Munmap(d.page), d.f.Close())
}
