package yamltext

import "github.com/goccy/go-yaml"

// Scalar is a number as it is written: money must not become a float on the way.
type Scalar string

// UnmarshalYAML takes the text of a number.
func (v *Scalar) UnmarshalYAML(b []byte) error {
	var s string
	if err := yaml.Unmarshal(b, &s); err != nil {
		return err
	}
	*v = Scalar(s)
	return nil
}
