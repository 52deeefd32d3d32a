package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
)

// lines gives the whole lines of a file's first size bytes, with their numbers
// from 1. A line is valid until the next one. A file that is not there has none.
func lines(path, name string, size int64) iter.Seq2[int, lineOrError] {
	return func(yield func(int, lineOrError) bool) {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(0, lineOrError{err: err})
			return
		}
		defer f.Close()
		in := bufio.NewReaderSize(io.LimitReader(f, size), int(min(size, 256<<10)))
		var long []byte
		for n := 1; ; n++ {
			line, err := in.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				long = append(long[:0], line...)
				for errors.Is(err, bufio.ErrBufferFull) {
					if len(long) > MaxLine {
						yield(n, lineOrError{err: &LineError{name, n, errTooLong}})
						return
					}
					line, err = in.ReadSlice('\n')
					long = append(long, line...)
				}
				line = long
			}
			if errors.Is(err, io.EOF) {
				return // what is left has no newline: size ends at one, so this is nothing
			}
			if err != nil {
				yield(n, lineOrError{err: fmt.Errorf("read %s: %w", name, err)})
				return
			}
			line = line[:len(line)-1]
			if len(line) > MaxLine {
				yield(n, lineOrError{err: &LineError{name, n, errTooLong}})
				return
			}
			if !yield(n, lineOrError{line: line}) {
				return
			}
		}
	}
}

type lineOrError struct {
	line []byte
	err  error
}

var errTooLong = fmt.Errorf("longer than %d bytes", MaxLine)

// each decodes every line with encoding/json.
func each[T any](path, name string, size int64) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for n, l := range lines(path, name, size) {
			if l.err != nil {
				yield(nil, l.err)
				return
			}
			v := new(T)
			if err := decode(l.line, v); err != nil {
				yield(nil, &LineError{name, n, err})
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// wholeLines is the length of a file without its torn last line, and the
// file's length. A file that is not there has neither.
func wholeLines(path string) (whole, size int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	size = info.Size()
	buf := make([]byte, min(size, 64<<10))
	for end := size; end > 0; {
		start := max(0, end-int64(len(buf)))
		part := buf[:end-start]
		if _, err := f.ReadAt(part, start); err != nil {
			return 0, 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, size, nil
		}
		end = start
	}
	return 0, size, nil
}
