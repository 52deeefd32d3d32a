// Licenses gathers the licence of everything that our programs link, and writes
// it beside each main, compressed, for `assay version --licenses`.
//
//	go run ./tools/licenses ./cmd/assay ./cmd/assay-node
//
// What a program links differs from system to system; the text is for all of
// them. Its test fails while a committed text is not the current one, and a
// module without a licence is an error.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// File is what is written into a main's directory.
const File = "licenses.txt.gz"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(mains []string) error {
	if len(mains) == 0 {
		return errors.New("name the directories of the programs, such as ./cmd/assay")
	}
	for _, dir := range mains {
		text, err := Text(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		packed, err := pack(text)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, File)
		if err := os.WriteFile(path, packed, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes, %d compressed\n", path, len(text), len(packed))
	}
	return nil
}

// pack compresses; the same text gives the same bytes.
func pack(text []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(text)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
