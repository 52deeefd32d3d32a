// Package verify is the command verify.
package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/cmd/internal/cli/publish"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/verify"
)

type verifyFlags struct {
	out, format, backend, baseURL, model, prompt string
	device                                       int
	memory, skipCompute, reload, quiet, verbose  bool
	deadline                                     time.Duration
	challenge                                    uint64
	publish                                      publish.Flags
}

// New is the command verify. Its events go to the outlet; nil: nowhere.
func New(outlet publish.Outlet) *cobra.Command {
	f := verifyFlags{publish: publish.Flags{Outlet: outlet}}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove that a GPU is what it says it is, and computes right",
		Long: `Verify compares what several sources say of each GPU with each other and
with a catalogue of models, has it multiply two matrices whose product is
known bit for bit on every vendor's hardware, and compares its speed with the
CPU's and with its model's peak. With --base-url it also looks whether an
engine's model runs on the GPU, with --prompt while it answers words of your own,
and with --memory it checks nearly all of the free memory: only on a node that
serves nobody.

Nothing runs on the CPU in place of the GPU. Each check that passed says what it
proves, each other what it would have proved, and both what they do not.

Exit codes: 0 every check passed that could be made; 1 used wrongly; 2 no GPU,
or the driver did not answer; 3 a check failed, or the only device is a CPU.`,
		Example: `  assay verify
  assay verify --format json --out proof
  assay verify --base-url http://127.0.0.1:11434 --reload-model
  assay verify --base-url http://127.0.0.1:8000 --prompt "Why is the sky blue?"`,
		Args: cli.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.ownPrompt(cmd.Flags().Changed("prompt")); err != nil {
				return err
			}
			f.baseURL = cli.WithScheme(f.baseURL)
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&f.device, "device", -1, "verify only the GPU of this number; by default all")
	fs.StringVar(&f.backend, "backend", "", "opencl or cuda; by default what there is")
	fs.Uint64Var(&f.challenge, "challenge", 0, "the verifier's `seed` for the product; by default drawn at random")
	fs.BoolVar(&f.skipCompute, "skip-compute", false, "identity only")
	fs.BoolVar(&f.memory, "memory", false, "also check 95 % of the free memory; only on a drained node")
	fs.StringVar(&f.baseURL, "base-url", "", "also check that the engine at this `URL` runs its model on the GPU")
	fs.StringVar(&f.model, "model", "", "the engine's model; by default the first that it lists")
	fs.StringVar(&f.prompt, "prompt", "", "`words` of your own that the model answers; they and the answer are recorded, and with --kafka published")
	fs.BoolVar(&f.reload, "reload-model", false, "have Ollama unload and load the model, to see memory rise")
	cli.SecondsVar(fs, &f.deadline, "deadline", time.Minute, "how long the driver may take (10m with --memory)")
	fs.StringVar(&f.out, "out", "", "write checks.jsonl and operations.jsonl to this new `directory`, which assay ledger sign takes")
	f.publish.Register(fs)
	cli.FormatFlag(fs, &f.format, "text or json", "text", "json")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print the result only")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "where there is no GPU: which libraries were tried, and what they said")
	return cmd
}

// verified is what --format json prints.
type verified struct {
	Format     string              `json:"format"`
	Verdict    assay.Verdict       `json:"verdict"`
	Because    string              `json:"because"`
	Devices    []verify.DeviceInfo `json:"devices"`
	Checks     []assay.Check       `json:"checks"`
	Operations []assay.Operation   `json:"operations"`
	Notes      []string            `json:"notes"`
}

// verifyFormat names the format of `assay verify --format json`.
const verifyFormat = "assay/verify/v1"

func (f *verifyFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return cli.BadFormat(f.format)
	}
	if f.backend != "" && f.backend != "opencl" && f.backend != "cuda" {
		return fmt.Errorf("--backend is opencl or cuda, not %q", f.backend)
	}
	if assay.MaskURLs(f.baseURL) != f.baseURL {
		return errors.New("--base-url holds a user or a password, which would be printed and recorded; leave it out, and set OPENAI_API_KEY")
	}
	if f.reload && f.baseURL == "" {
		return errors.New("--reload-model goes with --base-url")
	}
	if f.out != "" {
		if err := os.Mkdir(f.out, 0o755); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("--out: %s is there already, and records are not mixed; name a directory that is not", f.out)
		} else if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	p := cli.NewProgress(stderr, f.quiet)
	pub, err := f.publish.Open()
	if err != nil {
		return err
	}
	v := verified{Format: verifyFormat, Devices: []verify.DeviceInfo{}, Checks: []assay.Check{}, Operations: []assay.Operation{}, Notes: []string{}}
	o := verify.Options{Backend: f.backend, Challenge: f.challenge, SkipCompute: f.skipCompute, Memory: f.memory}
	if f.deadline > 0 && !f.memory {
		o.Deadline = f.deadline
	}
	if f.device >= 0 {
		o.Devices = []int{f.device}
	}
	p.Say("verifying; the product alone takes two seconds a GPU")
	err = v.gpus(ctx, o)
	if f.baseURL != "" && ctx.Err() == nil {
		err = errors.Join(err, v.engine(ctx, f, p))
	}
	p.Clear()
	v.judge(err)
	pub.Verified(ctx, v.Operations, v.Checks)
	pub.Event(ctx, "gpu_verified", "verify", v.Because, map[string]any{"verdict": v.Verdict})
	perr := pub.Close(ctx, p)
	if f.out != "" {
		if werr := v.write(f.out); werr != nil {
			return werr
		}
	}
	if f.format == "json" {
		if werr := cli.WriteJSON(stdout, v); werr != nil {
			return werr
		}
	} else if werr := cli.Show(stdout, v.page(err, f.verbose)); werr != nil {
		return werr
	}
	return errors.Join(v.outcome(err), perr)
}

// gpus verifies the GPUs of this machine.
func (v *verified) gpus(ctx context.Context, o verify.Options) error {
	found, err := native.Verify(ctx, o)
	v.Notes = append(v.Notes, found.Notes...)
	v.Devices = append(v.Devices, found.Devices...)
	v.Checks = append(v.Checks, found.Checks...)
	v.Operations = append(v.Operations, found.Operations...)
	return err
}

// judge gives the whole its verdict: the worst of what was decided.
func (v *verified) judge(err error) {
	decided := 0
	v.Verdict = assay.Unknown
	for _, c := range v.Checks {
		if c.Verdict == assay.Unknown {
			continue
		}
		decided++
		if c.Verdict > v.Verdict {
			v.Verdict, v.Because = c.Verdict, c.Name+": "+c.Evidence
		}
	}
	switch {
	case v.Verdict == assay.Fail:
	case errors.Is(err, verify.ErrNoDevice):
		v.Verdict, v.Because = assay.Unknown, noGPU(os.DirFS("/"))
	case err != nil:
		v.Verdict, v.Because = assay.Unknown, err.Error()
	case decided == 0:
		v.Because = "no check could be decided"
	case v.Verdict == assay.Pass:
		v.Because = fmt.Sprintf("%d of %d checks were decided, and all of them passed", decided, len(v.Checks))
	}
}

// page is the answer for a person. Where there is no GPU that is one sentence: what
// each library said is for who asks for it.
func (v *verified) page(err error, verbose bool) report.Page {
	if errors.Is(err, verify.ErrNoDevice) && v.Verdict == assay.Unknown && !verbose {
		return report.Verified(v.Verdict, v.Because, nil, nil)
	}
	return report.Verified(v.Verdict, v.Because, v.Checks, v.Notes)
}

// outcome is the exit code.
func (v *verified) outcome(err error) error {
	switch {
	case errors.Is(err, verify.ErrCPUDevice):
		return cli.Failed(err)
	case v.Verdict != assay.Fail && errors.Is(err, verify.ErrNoDevice):
		return cli.Unknown(verify.ErrNoDevice) // the page has said why
	case v.Verdict != assay.Fail && err != nil:
		return cli.Unknown(err)
	case v.Verdict == assay.Degraded:
		return nil // it works, and what is wrong with it is printed
	}
	return cli.Judged(v.Verdict, errors.New(v.Because))
}

// write keeps the checks, and the operations in the shape that the GPU logger
// asks for.
func (v *verified) write(dir string) error {
	return errors.Join(
		cli.SaveFile(filepath.Join(dir, journal.ChecksFile), func(w io.Writer) error { return writeLines(w, v.Checks) }),
		cli.SaveFile(filepath.Join(dir, ledger.OperationsFile), func(w io.Writer) error { return writeLines(w, v.Operations) }),
	)
}

func writeLines[T any](w io.Writer, all []T) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, x := range all {
		if err := e.Encode(x); err != nil {
			return err
		}
	}
	return nil
}
