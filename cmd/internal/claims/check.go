package claims

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/claims/engine"
	"github.com/assay-bench/assay/claims/gpu"
	"github.com/assay-bench/assay/claims/host"
	"github.com/assay-bench/assay/claims/profile"
	"github.com/assay-bench/assay/claims/show"
	"github.com/assay-bench/assay/cmd/internal/cli"
)

// maxFile is more than any claims file is; claims.Read says so of what is longer.
const maxFile = 2 << 20

// readFile reads a claims file once: what is measured and what is proposed is of
// the same bytes.
func readFile(path string) ([]byte, claims.Suite, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, claims.Suite{}, err
	}
	defer file.Close()
	var text textKept
	suite, err := claims.Read(io.TeeReader(io.LimitReader(file, maxFile), &text), path, catalog())
	return text, suite, err
}

// textKept keeps what is written to it.
type textKept []byte

func (t *textKept) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	return len(b), nil
}

// beside is what goes on while probes are measured.
func (f *claimsFlags) beside(ctx context.Context, s claims.Suite, env claims.Env) []claims.Beside {
	out := []claims.Beside{&gpu.Log{Child: env.NVML}}
	if !f.profileCPU {
		return out
	}
	r := &profile.Recorder{EngineURL: env.EngineURL}
	for _, p := range s.Probes {
		if p.Family() == engine.Family && r.EngineURL == "" {
			// Its probes say what is wrong where none is found.
			r.EngineURL, _ = engine.Find(ctx)
			break
		}
	}
	return append(out, r)
}

func newClaimsCheck() *cobra.Command {
	var dir, format string
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Check what a file requires of this machine, and measure nothing",
		Long: `Check compares this machine with what the file requires: processors, memory,
disk, kernel, CUDA, modules, programs. It says what is missing and what to do.
Run does the same first.

Exit codes: 0 everything is there; 1 used wrongly; 2 something is missing or
not known.`,
		Args: cli.Takes(1, 1, "a file of claims"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, suite, err := readFile(args[0])
			if err != nil {
				return err
			}
			if dir == "" {
				dir = os.TempDir()
			}
			all := host.ReadMachine(cmd.Context(), host.MachineOptions{}).Check(suite.Requires, dir)
			switch format {
			case "text":
				err = cli.Show(cmd.OutOrStdout(), show.Prerequisites(suite.Name, all))
			case "json":
				err = cli.WriteJSON(cmd.OutOrStdout(), append([]claims.Prerequisite{}, all...))
			default:
				err = fmt.Errorf("unknown format %q; known are text, json", format)
			}
			if err != nil {
				return err
			}
			for _, p := range all {
				if p.Verdict != assay.Pass {
					return cli.Judged(assay.Unknown, errors.New("prerequisites are missing"))
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "scratch", "", "`directory` in which probes would write; by default the system's for temporary files")
	cli.FormatFlag(cmd.Flags(), &format, "text or json", "text", "json")
	return cmd
}
