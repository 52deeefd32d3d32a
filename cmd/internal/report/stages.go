package report

import (
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/report/dialect"
	"github.com/assay-bench/assay/summary"
)

// stageFiles writes one document for each stage of a run, for formats that are about
// one load.
func stageFiles(name string, document func(run *journal.Run, stage assay.StageSummary, n int) (any, error)) func(*journal.Run, Save) error {
	return func(run *journal.Run, save Save) error {
		sum, err := summary.Of(run)
		if err != nil {
			return cli.Unknown(err)
		}
		if len(sum.Stages) == 0 {
			return cli.Unknown(errors.New("the run has no stage yet"))
		}
		for i, stage := range sum.Stages {
			doc, err := document(run, stage, i)
			if err != nil {
				return err
			}
			file := stageFile(name, stage.Name, i, len(sum.Stages))
			if err := save(file, func(w io.Writer) error { return cli.WriteJSON(w, doc) }); err != nil {
				return err
			}
		}
		return nil
	}
}

// asFile is a stage's name that a file's may contain: a run directory may be
// somebody else's.
var asFile = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$`)

// stageFile names the document of a stage: by the stage where there are several.
func stageFile(name, stage string, n, of int) string {
	switch {
	case of == 1:
		return name + ".json"
	case asFile.MatchString(stage):
		return fmt.Sprintf("%s-%s.json", name, stage)
	}
	return fmt.Sprintf("%s-%d.json", name, n+1)
}

func aiperf(run *journal.Run, stage assay.StageSummary, _ int) (any, error) {
	return dialect.AIPerf(run.Manifest(), stage, run.Requests())
}

func llmd(run *journal.Run, stage assay.StageSummary, n int) (any, error) {
	return dialect.LLMD(run.Manifest(), stage, n)
}
