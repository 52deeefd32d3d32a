package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/report"
)

// reproduceDir holds what repeating the experiment needs besides experiment.json.
const reproduceDir = "reproduce"

// reproduceConfig is the configuration as resolved. It is JSON, which is YAML.
const reproduceConfig = "config.json"

// requirementsFile is the list of an engine's Python packages, as pip reads it.
func requirementsFile(fileName string) string { return fileName + "-requirements.txt" }

// writeReproduce writes the files that the report's instructions name.
func writeReproduce(dir string, e Experiment) error {
	dir, err := directory(dir, reproduceDir)
	if err != nil {
		return err
	}
	if repeatable(e) {
		var b bytes.Buffer
		if err := json.Indent(&b, e.Config, "", "  "); err != nil {
			return fmt.Errorf("the configuration of the experiment: %w", err)
		}
		if err := replace(filepath.Join(dir, reproduceConfig), append(bytes.TrimSpace(b.Bytes()), '\n')); err != nil {
			return err
		}
	}
	for i, name := range fileNames(e.Engines) {
		if p := e.Engines[i].Packages; len(p) > 0 {
			if err := replace(filepath.Join(dir, requirementsFile(name)), requirements(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// What pip may be given: a name and a version. A package says itself what it is
// called, and results come from elsewhere too: an option for pip, such as another
// index, is neither.
var (
	packagePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*$`)
	versionPattern = regexp.MustCompile(`^[0-9][0-9A-Za-z.+]*$`)
)

// requirements is the list as pip reads it. What is no package stands in it as a
// comment.
func requirements(packages []string) []byte {
	var b bytes.Buffer
	for _, p := range packages {
		if !packagePattern.MatchString(p) {
			p = "# left out, as it is no NAME==VERSION: " + foreign.Line(p, maxPackageName)
		}
		b.WriteString(p + "\n")
	}
	return b.Bytes()
}

// maxPackageName bounds what is shown of one.
const maxPackageName = 200

// repeatable reports whether there is a configuration to run again: an experiment
// of runs that were made elsewhere has none.
func repeatable(e Experiment) bool { return len(e.Config) > 0 && e.ConfigSHA256 != "" }

// reproduction is how to do the experiment again: the commands, and everything
// that must be the same.
func reproduction(e Experiment) []report.Block {
	out := []report.Block{report.Heading{Text: "How to repeat this"}}
	out = append(out, report.List{Head: "Commands", Items: reproduceSteps(e)})
	t := report.Table{Title: "What must be the same", Columns: []report.Column{{Name: "of"}, {Name: "what", Words: true}, {Name: "is", Words: true}}}
	put := func(of, what, is string) {
		if is != "" && is != "0" {
			t.Rows = append(t.Rows, []string{of, what, is})
		}
	}
	put("assay", "version", e.Version.Assay)
	put("assay", "built with", e.Version.Go)
	put("assay", "binary_sha256", e.Version.BinarySHA256)
	put("experiment", "id", e.ID)
	put("experiment", "config_sha256", e.ConfigSHA256)
	put("experiment", "seed", strconv.FormatUint(e.Plan.Seed, 10))
	put("experiment", "rounds", strconv.Itoa(e.Plan.Rounds))
	if e.Created > 0 {
		put("experiment", "began", time.Unix(0, e.Created).UTC().Format(time.RFC3339))
	}
	for _, x := range e.Engines {
		for _, k := range slices.Sorted(maps.Keys(x.Lock)) {
			put(x.Name, k, x.Lock[k])
		}
		put(x.Name, "python_packages", strconv.Itoa(len(x.Packages)))
		put(x.Name, "isolation", x.Isolation)
	}
	t.Note = "RESULTS is the directory of this report; the machine is above. --locked refuses an engine of which one of these rows differs, isolation apart. Names of variables without a value were passed on from the environment, and their values are not recorded."
	return append(out, t)
}

// reproduceSteps are the commands, in the order to give them in.
func reproduceSteps(e Experiment) []string {
	var out []string
	if len(e.Command) > 0 {
		out = append(out, "It was begun with: "+foreign.Shell(e.Command...))
	}
	for i, name := range fileNames(e.Engines) {
		if len(e.Engines[i].Packages) > 0 {
			python := "Python"
			if v := e.Engines[i].Lock["python"]; versionPattern.MatchString(v) {
				python += " " + v
			}
			out = append(out, fmt.Sprintf("For %s, in a new environment of %s: pip install --no-deps -r RESULTS/%s/%s", e.Engines[i].Name, python, reproduceDir, requirementsFile(name)))
		}
	}
	if repeatable(e) {
		out = append(out, fmt.Sprintf("Measure again, where relative paths lead to the same files: assay compare RESULTS/%s/%s --locked RESULTS --output AGAIN", reproduceDir, reproduceConfig))
	} else {
		out = append(out, "Nothing was started for it: its runs were made elsewhere, and each has its own configuration in its run.json")
	}
	return append(out, "Only analyse again: assay compare --analyze-only --results RESULTS")
}
