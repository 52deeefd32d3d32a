package report

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/report"
)

// runsDir is where hammer puts runs for which nobody named a directory.
const runsDir = "runs"

// runsFormat is the format of what runs prints as JSON.
const runsFormat = "assay/runs/v1"

// listedRun is one run in the list.
type listedRun struct {
	Dir         string            `json:"dir"`
	Created     time.Time         `json:"created"`
	Status      assay.Status      `json:"status"`
	Model       string            `json:"model"`
	URL         string            `json:"url"`
	Backend     string            `json:"backend"`
	Certificate assay.Certificate `json:"certificate,omitempty"`
	Verdict     *assay.Verdict    `json:"verdict"`                  // of the node; null: not judged
	Stage       string            `json:"stage,omitempty"`          // the one with the most tokens
	Tokens      *float64          `json:"output_tokens_per_second"` // its; null: no summary
	OK          int               `json:"ok"`
	Failed      int               `json:"failed"`
}

// Runs is the command runs.
func Runs() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "runs [DIR]",
		Short: "List the runs of a directory, the newest first",
		Long: `Runs lists the run directories under DIR, by default runs: when each began, what
was measured, the stage with the most tokens a second, and what was said of it.
Assay report latest shows the newest.`,
		Args: cli.Takes(0, 1, "at most one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := runsDir
			if len(args) > 0 {
				dir = args[0]
			}
			if format != "text" && format != "json" {
				return cli.BadFormat(format)
			}
			runs, broken, err := journal.List(dir)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no directory %s: assay hammer makes the first run; or name another, %s", dir, cmd.UseLine())
			} else if err != nil {
				return err
			}
			list := make([]listedRun, 0, len(runs))
			for _, r := range runs {
				list = append(list, listed(r))
			}
			if format == "json" {
				return cli.WriteJSON(cmd.OutOrStdout(), struct {
					Format string      `json:"format"`
					Runs   []listedRun `json:"runs"`
				}{runsFormat, list})
			}
			for _, name := range slices.Sorted(maps.Keys(broken)) {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %v\n", broken[name])
			}
			return cli.Show(cmd.OutOrStdout(), runsPage(dir, list))
		},
	}
	cli.FormatFlag(cmd.Flags(), &format, "text or json", "text", "json")
	return cmd
}

// listed is what a list says of a run. A summary that is missing or cannot be read
// leaves its figures unknown.
func listed(r *journal.Run) listedRun {
	m := r.Manifest()
	out := listedRun{
		Dir: r.Dir(), Created: time.Unix(0, m.Created).UTC(), Status: r.Status(),
		Model: m.Engine.Model, URL: m.Engine.URL, Backend: m.Engine.Backend,
	}
	if h, err := r.Health(); err == nil {
		out.Verdict = &h.Verdict
	}
	s, err := r.Summary()
	if err != nil {
		return out
	}
	out.Certificate = s.Client.Certificate
	for _, st := range s.Stages {
		out.OK += st.OK
		out.Failed += st.Failed
		if v := st.OutputTokensPerSecond; st.OK > 0 && (out.Tokens == nil || v > *out.Tokens) {
			out.Tokens, out.Stage = &v, st.Name
		}
	}
	return out
}

func runsPage(dir string, list []listedRun) report.Page {
	t := report.Table{Columns: []report.Column{
		{Name: "directory"}, {Name: "began", Words: true, Drop: 2}, {Name: "model", Words: true}, {Name: "status", Words: true, Drop: 1}, {Name: "ok", Drop: 4}, {Name: "failed", Drop: 3},
		{Name: "stage", Words: true, Drop: 5}, {Name: "tokens/s"}, {Name: "client", Words: true}, {Name: "node", Words: true},
	}}
	for _, r := range list {
		tokens, verdict := "–", "–"
		if r.Tokens != nil {
			tokens = report.Number(*r.Tokens)
		}
		if r.Verdict != nil {
			verdict = r.Verdict.String()
		}
		t.Rows = append(t.Rows, []string{
			r.Dir, r.Created.Local().Format("2006-01-02 15:04"), r.Model, string(r.Status), strconv.Itoa(r.OK), strconv.Itoa(r.Failed),
			r.Stage, tokens, string(r.Certificate), verdict,
		})
	}
	p := report.Page{Title: "Runs in " + dir + ": " + strconv.Itoa(len(list))}
	if len(list) > 0 {
		p.Blocks = append(p.Blocks, t)
	}
	return p
}

// latest is the word for the newest run under runs.
const latest = "latest"

// completeRun names runs for a shell: the newest, and those where hammer puts them.
// What is none of these is completed as a file.
func completeRun(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	known, _ := filepath.Glob(filepath.Join(runsDir, "*", journal.RunFile)) // the pattern is good
	words := []string{latest}
	for _, file := range known {
		words = append(words, filepath.Dir(file))
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, begun) })
	return words, cobra.ShellCompDirectiveDefault
}

// runDir is the directory that a word names: a directory of that name, or for
// "latest" the newest run.
func runDir(word string) (string, error) {
	if word != latest {
		return word, nil
	}
	if _, err := os.Stat(word); err == nil {
		return word, nil
	}
	runs, _, err := journal.List(runsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", cli.Unknown(fmt.Errorf("no latest run: %w", err))
	}
	if len(runs) == 0 {
		return "", cli.Unknown(fmt.Errorf("no latest run: there is none in %s, below this directory; assay hammer makes one", runsDir))
	}
	return runs[0].Dir(), nil
}
