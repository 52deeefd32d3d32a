// Package parquet is the format of the command report that needs a library too
// heavy for a node.
package parquet

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/report"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/report/parquet"
)

// Format makes a run's requests and readings into files of their own.
func Format() report.Format {
	return report.Format{
		Name: "parquet", Help: "requests.parquet and telemetry.parquet, in the run directory or in --output", Files: write,
	}
}

func write(dir string, run *journal.Run) error {
	return errors.Join(
		cli.SaveFile(filepath.Join(dir, "requests.parquet"), func(w io.Writer) error { return parquet.WriteRequests(w, run.Requests()) }),
		cli.SaveFile(filepath.Join(dir, "telemetry.parquet"), func(w io.Writer) error { return parquet.WriteReadings(w, run.Readings()) }),
	)
}
