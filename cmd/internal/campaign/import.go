package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/record"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
)

type importFlags struct {
	databaseFlags
	origin record.Origin
	price  string
}

// maxImports bounds how many results one command imports, and maxWalk how many files
// it looks at.
const (
	maxImports = 10_000
	maxWalk    = 1_000_000
)

func newImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import PATH…",
		Short: "Import results that lie about: run directories, files of the benchmark script",
		Long: `Import takes results into the database: run directories of assay hammer, and the files
benchmark_checkpoint.json and SESSION_results.json of the benchmark script
(docs/formats/benchmark-checkpoint.md). A directory that is none is searched.

What a result does not say of itself is said by flags: the script's files know
neither GPU nor provider. Importing a result again changes nothing. One that is
refused does not keep the others out.

Exit codes: 0 all are in; 1 used wrongly; 2 nothing was found; 3 something was
refused.`,
		Example: `  assay campaign import runs/20261115-120000 --provider vast --gpu "RTX 4090" --price 0.35/h
  assay campaign import results/ --provider tensordock --gpu "RTX 3090"`,
		Args: cli.Takes(1, cli.Any, "run directories, files or directories"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	f.register(cmd.Flags())
	o := &f.origin
	cmd.Flags().StringVar(&o.Campaign, "campaign", "imported", "`name` that the results are grouped under")
	cmd.Flags().StringVar(&o.GPU, "gpu", "", "the GPU's `name`; by default as a run directory has it")
	cmd.Flags().IntVar(&o.Count, "gpu-count", 0, "GPUs of the machine; by default as a run directory has it, else 1")
	cmd.Flags().StringVar(&o.Provider, "provider", "", "where it was measured")
	cmd.Flags().StringVar(&o.Location, "location", "", "where that is")
	cmd.Flags().StringVar(&o.Engine, "engine", "", "the engine's `name`; by default as the result has it")
	cmd.Flags().StringVar(&o.Notes, "notes", "", "kept with each result")
	cmd.Flags().StringVar(&f.price, "price", "", "what the machine costs an hour in USD, as `0.35/h`")
	return cmd
}

func (f *importFlags) run(ctx context.Context, paths []string, w io.Writer) error {
	if f.origin.Provider == "" {
		return errors.New("--provider is needed: where the results were measured, as vast or static")
	}
	if f.price != "" {
		m, err := assay.ParseMoney(strings.TrimSuffix(f.price, "/h"), "USD")
		if err != nil {
			return fmt.Errorf("--price: %w", err)
		}
		f.origin.Price = &m
	}
	found, err := find(paths)
	if err != nil {
		return err
	}
	db, s, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	var refused []error
	for _, path := range found {
		line, err := f.one(ctx, s, path)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			refused = append(refused, cli.Failed(fmt.Errorf("%s: %s", path, foreign.Clip(err.Error(), 2000))))
			continue
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return errors.Join(refused...)
}

// one imports one result, and says so in a line.
func (f *importFlags) one(ctx context.Context, s *store.Store, path string) (string, error) {
	var r record.Result
	var err error
	if isRun(path) {
		r, err = record.FromRun(path, f.origin)
	} else {
		var file *os.File
		if file, err = os.Open(path); err != nil {
			return "", err
		}
		r, err = record.FromCheckpoint(file, path, f.origin)
		_ = file.Close()
	}
	switch {
	case errors.Is(err, record.ErrNothing):
		if err := s.PutManifest(ctx, r.Manifest); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s\t%s\t%s", path, r.Manifest.Status, record.ErrNothing), nil
	case err != nil:
		return "", err
	}
	if err := s.PutResult(ctx, r.Benchmark, r.Manifest); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\t%s\t%s\t%.4g tokens/s", path, r.Manifest.Status, r.Manifest.ID, *r.Manifest.TokensPerSecond), nil
}

func isRun(path string) bool {
	_, err := os.Stat(filepath.Join(path, journal.RunFile))
	return err == nil
}

// find looks for results: a run directory and a file stand for themselves, other
// directories are searched. Links are not followed.
func find(paths []string) ([]string, error) {
	var out []string
	looked := 0
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() || isRun(path) {
			out = append(out, path)
			continue
		}
		err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if looked++; looked > maxWalk || len(out) > maxImports {
				return fmt.Errorf("%s has more than %d files or %d results: import it in parts", path, maxWalk, maxImports)
			}
			if d.IsDir() && isRun(at) {
				out = append(out, at)
				return fs.SkipDir
			}
			if d.Type().IsRegular() && record.IsCheckpoint(at) {
				out = append(out, at)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, cli.Unknown(errors.New("there are no results there: a run directory has a run.json, and the script's files are benchmark_checkpoint.json and SESSION_results.json"))
	}
	return out, nil
}
