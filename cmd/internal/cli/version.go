package cli

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
)

// Release is the version of this source tree. tools/release puts the version of the
// commit that it builds in its place.
var Release = "0.1.0-dev"

// Version is what run.json says of us.
func Version() assay.Version {
	v := assay.Version{Assay: Release, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v.Assay += "+" + s.Value[:12]
			}
		}
	}
	return v
}

// MeasuringVersion is Version with the hash of the program's own file, which a
// signature covers. What cannot be read is left out.
func MeasuringVersion() assay.Version {
	v := Version()
	path := "/proc/self/exe" // also when the file was replaced since
	f, err := os.Open(path)
	if err != nil {
		if path, err = os.Executable(); err != nil {
			return v
		}
		if f, err = os.Open(path); err != nil {
			return v
		}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err == nil {
		v.BinarySHA256 = hex.EncodeToString(h.Sum(nil))
	}
	return v
}

// versionLine is what version and --version print.
func versionLine(name string) string {
	v := Version()
	return fmt.Sprintf("%s %s %s %s/%s\n", name, v.Assay, v.Go, runtime.GOOS, runtime.GOARCH)
}

func newVersion(name string, licenses []byte) *cobra.Command {
	var format string
	var all bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				return writeLicenses(cmd.OutOrStdout(), licenses)
			}
			v := Version()
			switch format {
			case "text":
				_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine(name))
				return err
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
					assay.Version
					RunFormat string `json:"run_format"`
				}{v, assay.RunFormat})
			}
			return BadFormat(format)
		},
	}
	FormatFlag(cmd.Flags(), &format, "text or json", "text", "json")
	cmd.Flags().BoolVar(&all, "licenses", false, "print the licences of everything that this program contains")
	cmd.MarkFlagsMutuallyExclusive("format", "licenses")
	return cmd
}

// writeLicenses writes a text that tools/licenses has gathered and compressed.
func writeLicenses(w io.Writer, packed []byte) error {
	text, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("the licences in this program cannot be read: %w", err)
	}
	if _, err := io.Copy(w, text); err != nil { //nolint:gosec // it is our own text, embedded
		return fmt.Errorf("print the licences: %w", err)
	}
	return nil
}
