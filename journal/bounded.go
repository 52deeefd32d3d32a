package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/assay-bench/assay"
)

// ErrBloated marks JSON whose lists would take far more memory than the file has
// bytes: "{},{},…" for a list of large things. Nothing that Assay writes is so.
var ErrBloated = errors.New("its lists would take many times its size in memory; Assay did not write it")

// Bounds of what JSON may become: a small value may have some room, and a large
// one no more than a few times its own length. What the decoder takes on the way
// (a list that grows is there twice) comes on top.
const (
	bloatFree   = 64 << 10
	bloatTimes  = 2
	bloatLooked = 4 << 10 // shorter ones are not worth a look
	maxDepth    = 1000
)

// DecodeManifest reads what run.json holds, which may be a stranger's. What it
// takes stays within ten times its length.
func DecodeManifest(b []byte) (m assay.Manifest, err error) {
	err = decode(b, &m)
	return m, err
}

// decode is json.Unmarshal for what a stranger may have written.
func decode(b []byte, into any) error {
	if len(b) > bloatLooked {
		c := cost{d: json.NewDecoder(bytes.NewReader(b)), left: bloatFree + bloatTimes*len(b)}
		if err := c.value(reflect.TypeOf(into).Elem()); err != nil {
			return err
		}
	}
	return json.Unmarshal(b, into)
}

// cost adds up what lists and maps will take before they are made.
type cost struct {
	d     *json.Decoder
	left  int
	depth int
}

func (c *cost) take(n int) error {
	if c.left -= n; c.left < 0 {
		return ErrBloated
	}
	return nil
}

// rawMessage is kept as it is.
var rawMessage = reflect.TypeFor[json.RawMessage]()

// value walks over one value. A nil type is something that is passed over.
func (c *cost) value(t reflect.Type) error {
	tok, err := c.d.Token()
	if err != nil {
		return err
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
		if err := c.take(int(t.Size())); err != nil {
			return err
		}
	}
	if t == rawMessage {
		t = nil
	}
	if c.depth++; c.depth > maxDepth {
		return errors.New("its lists and objects are nested too deeply")
	}
	switch tok {
	case json.Delim('{'):
		err = c.object(t)
	case json.Delim('['):
		err = c.list(t)
	}
	c.depth--
	return err
}

func (c *cost) list(t reflect.Type) error {
	var elem reflect.Type
	size := 0
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		elem = t.Elem()
		size = int(elem.Size())
	}
	for c.d.More() {
		if err := c.take(size); err != nil {
			return err
		}
		if err := c.value(elem); err != nil {
			return err
		}
	}
	_, err := c.d.Token()
	return err
}

func (c *cost) object(t reflect.Type) error {
	for c.d.More() {
		tok, err := c.d.Token()
		if err != nil {
			return err
		}
		name, ok := tok.(string)
		if !ok {
			return fmt.Errorf("a member has no name: %v", tok)
		}
		var member reflect.Type
		switch {
		case t == nil:
		case t.Kind() == reflect.Map:
			member = t.Elem()
			err = c.take(3 * int(t.Key().Size()+member.Size())) // with the room that a map keeps free
		case t.Kind() == reflect.Struct:
			member = memberOf(t, name)
		}
		if err == nil {
			err = c.value(member)
		}
		if err != nil {
			return err
		}
	}
	_, err := c.d.Token()
	return err
}

// memberOf finds a field by its name in JSON, as encoding/json does: in any case,
// and in what is embedded. Nil: it has none.
func memberOf(t reflect.Type, name string) reflect.Type {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" {
			tag = f.Name
		}
		if f.IsExported() && strings.EqualFold(tag, name) {
			return f.Type
		}
	}
	return nil
}
