package telemetry

import "strings"

// maxFile is more than any file has that is read whole.
const maxFile = 64 << 10

// fileText gives the first 64 KiB of a file, and nothing of one that cannot be
// read.
func fileText(name string) string {
	if name == "" {
		return ""
	}
	var small [512]byte // most have one number
	return string(readFile(name, small[:0]))
}

// fileNumber gives the number that is all there is in a file.
func fileNumber(name string) (float64, bool) {
	if name == "" {
		return 0, false
	}
	return decimal(strings.TrimSpace(fileText(name)))
}

// keyed gives the value of a line KEY=value.
func keyed(text, key string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, key+"="); ok {
			return word(v)
		}
	}
	return ""
}
