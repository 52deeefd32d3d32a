package command

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
)

// Release is the version of this source tree.
const Release = "0.1.0-dev"

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

func newVersion(name string) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := Version()
			switch format {
			case "text":
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s %s/%s\n", name, v.Assay, v.Go, runtime.GOOS, runtime.GOARCH)
				return nil
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
					assay.Version
					RunFormat string `json:"run_format"`
				}{v, assay.RunFormat})
			}
			return badFormat(format)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	return cmd
}

func badFormat(format string) error {
	return fmt.Errorf("unknown format %q; known are text, json", format)
}
