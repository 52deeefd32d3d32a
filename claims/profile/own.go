package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxOwn bounds the runtime's profile, unpacked.
const maxOwn = 64 << 20

// readOwn reads the profile that the runtime writes: gzipped, in the form of
// pprof's profile.proto, of which this needs samples, locations, functions and
// strings.
func readOwn(into *Stacks, packed []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpack the runtime's profile: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, maxOwn+1))
	if err != nil {
		return fmt.Errorf("unpack the runtime's profile: %w", err)
	}
	if len(b) > maxOwn {
		return fmt.Errorf("the runtime's profile is over %d bytes", maxOwn)
	}
	p := ownProfile{locations: map[uint64][]uint64{}, functions: map[uint64]uint64{}}
	if err := p.read(b); err != nil {
		return fmt.Errorf("read the runtime's profile: %w", err)
	}
	for _, s := range p.samples {
		stack := []string{"assay"}
		for i := len(s.locations) - 1; i >= 0; i-- { // the innermost comes first
			functions := p.locations[s.locations[i]]
			for k := len(functions) - 1; k >= 0; k-- { // and so do inlined ones
				stack = append(stack, p.text(p.functions[functions[k]]))
			}
		}
		into.Add(stack, s.count)
	}
	return nil
}

type ownSample struct {
	locations []uint64
	count     int64
}

type ownProfile struct {
	samples   []ownSample
	locations map[uint64][]uint64 // to functions, the innermost first
	functions map[uint64]uint64   // to their names' strings
	strings   []string
}

func (p *ownProfile) text(i uint64) string {
	if i < uint64(len(p.strings)) && p.strings[i] != "" {
		return p.strings[i]
	}
	return unknownName
}

func (p *ownProfile) read(b []byte) error {
	return fields(b, func(field protowire.Number, _ uint64, v []byte) error {
		switch field {
		case 2:
			return p.sample(v)
		case 4:
			return p.location(v)
		case 5:
			return p.function(v)
		case 6:
			p.strings = append(p.strings, string(v))
		}
		return nil
	})
}

func (p *ownProfile) sample(b []byte) error {
	var s ownSample
	var values []uint64
	err := fields(b, func(field protowire.Number, n uint64, v []byte) (err error) {
		switch field {
		case 1:
			s.locations, err = numbers(s.locations, n, v)
		case 2:
			values, err = numbers(values, n, v)
		}
		return err
	})
	if len(values) > 0 {
		s.count = int64(values[0]) // the number of samples; the time is the second
	}
	p.samples = append(p.samples, s)
	return err
}

func (p *ownProfile) location(b []byte) error {
	var id uint64
	var functions []uint64
	err := fields(b, func(field protowire.Number, n uint64, v []byte) error {
		switch field {
		case 1:
			id = n
		case 4:
			return fields(v, func(field protowire.Number, n uint64, _ []byte) error {
				if field == 1 {
					functions = append(functions, n)
				}
				return nil
			})
		}
		return nil
	})
	p.locations[id] = functions
	return err
}

func (p *ownProfile) function(b []byte) error {
	var id, name uint64
	err := fields(b, func(field protowire.Number, n uint64, _ []byte) error {
		switch field {
		case 1:
			id = n
		case 2:
			name = n
		}
		return nil
	})
	p.functions[id] = name
	return err
}

var errNoField = errors.New("a field cannot be read")

// fields gives the fields of a message: a number, or bytes.
func fields(b []byte, each func(field protowire.Number, n uint64, v []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errNoField
		}
		b = b[n:]
		var number uint64
		var value []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return errNoField
		}
		b = b[n:]
		if err := each(field, number, value); err != nil {
			return err
		}
	}
	return nil
}

// numbers takes one, or a packed list of them.
func numbers(to []uint64, one uint64, packed []byte) ([]uint64, error) {
	if packed == nil {
		return append(to, one), nil
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return to, errNoField
		}
		to, packed = append(to, v), packed[n:]
	}
	return to, nil
}
