package claims

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Requirements are what a machine must have for the file's promises to be about
// it. Zero fields ask for nothing.
type Requirements struct {
	CPUs      int
	Memory    float64 // bytes of the host
	GPUMemory float64 // bytes of one GPU
	Disk      float64 // bytes free where probes write
	Kernel    string  // the oldest, as 6.14
	CUDA      string  // the oldest that the driver supports, as 12 or 12.4
	Modules   []string
	Programs  []string
}

// Prerequisite is a requirement and what the machine has. A missing one decides
// no claim: it says which machine the promises were made for.
type Prerequisite struct {
	What    string        `json:"what"`
	Wanted  string        `json:"wanted"`
	Have    string        `json:"have"`         // or why it is not known
	Verdict assay.Verdict `json:"verdict"`      // pass: it is there; unknown: that could not be read
	Do      string        `json:"do,omitempty"` // to get it; empty: there is no one thing to do
}

// Missing says in words what is not there; empty: it is.
func (p Prerequisite) Missing() string {
	if p.Verdict == assay.Pass {
		return ""
	}
	text := fmt.Sprintf("%s: wanted %s, and there is %s", p.What, p.Wanted, p.Have)
	if p.Verdict == assay.Unknown {
		text = fmt.Sprintf("%s: wanted %s; not known: %s", p.What, p.Wanted, p.Have)
	}
	if p.Do != "" {
		text += " (" + p.Do + ")"
	}
	return text
}

// requireLines is the file's "requires".
type requireLines struct {
	CPUs      int      `yaml:"cpus"`
	Memory    string   `yaml:"memory"`
	GPUMemory string   `yaml:"gpu_memory"`
	Disk      string   `yaml:"disk"`
	Kernel    version  `yaml:"kernel"`
	CUDA      version  `yaml:"cuda"`
	Modules   []string `yaml:"modules"`
	Programs  []string `yaml:"programs"`
}

// version is as it was written: as a number 6.10 would be 6.1.
type version string

// UnmarshalYAML takes the text itself.
func (v *version) UnmarshalYAML(b []byte) error {
	*v = version(strings.Trim(strings.TrimSpace(string(b)), `"'`))
	return nil
}

var (
	versionText = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9}){0,3}$`)
	plainName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$`)
)

// maxRequired bounds each list.
const maxRequired = 100

func (r *reading) requires(in requireLines) {
	out := Requirements{CPUs: in.CPUs, Kernel: string(in.Kernel), CUDA: string(in.CUDA), Modules: in.Modules, Programs: in.Programs}
	if in.CPUs < 0 {
		r.fault("requires.cpus", 0, "a number of CPUs cannot be negative")
	}
	for _, x := range []struct {
		name, text string
		to         *float64
	}{{"memory", in.Memory, &out.Memory}, {"gpu_memory", in.GPUMemory, &out.GPUMemory}, {"disk", in.Disk, &out.Disk}} {
		if x.text == "" {
			continue
		}
		bytes, err := amount(x.text)
		if err != nil {
			r.fault("requires."+x.name, 0, fmt.Sprintf("%s: %v", x.name, err))
		}
		*x.to = bytes
	}
	for _, x := range [][2]string{{"kernel", out.Kernel}, {"cuda", out.CUDA}} {
		if x[1] != "" && !versionText.MatchString(x[1]) {
			r.fault("requires."+x[0], 0, fmt.Sprintf("%s is the oldest version, as 6.14; this is %q", x[0], foreign.Line(x[1], 60)))
		}
	}
	r.names("modules", in.Modules)
	r.names("programs", in.Programs)
	r.suite.Requires = out
}

// names checks a list of what goes by name.
func (r *reading) names(what string, list []string) {
	if len(list) > maxRequired {
		r.fault("requires."+what, 0, fmt.Sprintf("%d %s; %d are the most", len(list), what, maxRequired))
		return
	}
	for i, v := range list {
		if !plainName.MatchString(v) {
			r.fault(fmt.Sprintf("requires.%s[%d]", what, i), 0, fmt.Sprintf("%q cannot be the name of one of the %s", foreign.Line(v, 60), what))
		}
	}
}

// amount reads an amount of memory, as 64 GB.
func amount(text string) (float64, error) {
	trimmed := strings.TrimSpace(text)
	number := targetNumber.FindString(trimmed)
	value, err := strconv.ParseFloat(number, 64)
	if number == "" || err != nil || !(value >= 0) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("%q is no amount, as 64 GB is", foreign.Line(text, 60))
	}
	return convert(value, strings.TrimSpace(trimmed[len(number):]), unitBytes)
}

// AtLeast says whether a dotted version is another or newer; ok is false when one
// of them is none. What follows the numbers of have, as in 6.1.0-13-amd64, is not
// looked at.
func AtLeast(have, want string) (newer, ok bool) {
	numbers := func(s string) (out []int) {
		for part := range strings.SplitSeq(s, ".") {
			digits := len(part) - len(strings.TrimLeft(part, "0123456789"))
			n, err := strconv.Atoi(part[:digits])
			if err != nil {
				break
			}
			out = append(out, n)
			if digits < len(part) {
				break
			}
		}
		return out
	}
	h, w := numbers(have), numbers(want)
	if len(h) == 0 || len(w) == 0 {
		return false, false
	}
	for i := range w {
		if i == len(h) {
			h = append(h, 0)
		}
		if h[i] != w[i] {
			return h[i] > w[i], true
		}
	}
	return true, true
}
