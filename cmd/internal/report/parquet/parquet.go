// Package parquet is the format of the command report that needs a library too
// heavy for a node.
package parquet

import (
	"errors"
	"io"

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

func write(run *journal.Run, save report.Save) error {
	return errors.Join(
		save("requests.parquet", func(w io.Writer) error { return parquet.WriteRequests(w, run.Requests()) }),
		save("telemetry.parquet", func(w io.Writer) error { return parquet.WriteReadings(w, run.Readings()) }),
	)
}
