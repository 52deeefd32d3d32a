package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/network/trust/fingerprint"
)

// askTimeout bounds one request to an engine.
const askTimeout = 2 * time.Minute

func newReference() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reference",
		Short: "Record how a model answers, and compare an engine with that",
		Long: `Record how a model answers where it is trusted, and compare an engine elsewhere with
that: log-probabilities of secret prompts, token by token (docs/trust-models.md).
"assay server --reference FILE" does it with the nodes of a network.`,
	}
	cmd.AddCommand(newReferenceMake(), newReferenceCheck())
	return cmd
}

// engineFlags name the engine that is asked.
type engineFlags struct{ url, keyFile string }

func (f *engineFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "url", "", "the engine's `URL`, without /v1")
	fs.StringVar(&f.keyFile, "api-key-file", "", "`file` with the engine's API key")
}

func (f *engineFlags) open(model string) (*fingerprint.Engine, error) {
	u, err := url.Parse(f.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("--url URL is needed: the engine's address, as http://127.0.0.1:8000")
	}
	e := &fingerprint.Engine{Client: &http.Client{Timeout: askTimeout}, URL: f.url, Model: model}
	if f.keyFile != "" {
		if e.Key, err = cli.ReadToken(f.keyFile); err != nil {
			return nil, fmt.Errorf("--api-key-file: %w", err)
		}
	}
	return e, nil
}

type referenceMakeFlags struct {
	engineFlags
	model, name, out, add string
	prompts, runs         int
}

func newReferenceMake() *cobra.Command {
	var f referenceMakeFlags
	cmd := &cobra.Command{
		Use:   "make --url URL --model MODEL --out FILE",
		Short: "Record a model's log-probabilities where it is trusted",
		Long: `Record a model's log-probabilities from an engine that is trusted: several runs over
prompts that are made up anew, with batches of different sizes, so that it is known
how far honest runs are apart. The file is secret: who has it knows the prompts.

A deployment that differs in engine, version, data type or device gives other sums.
Record each one that nodes may have: --add FILE asks another engine for the prompts of
FILE and adds what it says.`,
		Example: `  assay server reference make --url http://127.0.0.1:8000 --model llama --name vllm-bf16-a100 --out llama.reference
  assay server reference make --url http://10.0.0.7:8000 --name vllm-bf16-h100 --add llama.reference`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.StringVar(&f.model, "model", "", "the model's `name`, as the engine and the network's nodes know it")
	fs.StringVar(&f.name, "name", "first", "what this deployment is called in findings")
	fs.StringVar(&f.out, "out", "", "write to this new `file`, which only you can read")
	fs.StringVar(&f.add, "add", "", "add the deployment to the reference in this `file`")
	fs.IntVar(&f.prompts, "prompts", 192, "how many prompts to make up")
	fs.IntVar(&f.runs, "runs", 8, fmt.Sprintf("how often to ask for each; at least %d", fingerprint.MinRuns))
	return cmd
}

func (f *referenceMakeFlags) run(ctx context.Context, w io.Writer) error {
	r, err := f.begin()
	if err != nil {
		return err
	}
	e, err := f.open(r.Model)
	if err != nil {
		return err
	}
	log := cli.Log(ctx)
	if err := r.Record(ctx, e, f.name, f.runs, time.Now(), func(run int) { log.Info("recorded", "run", run, "of", f.runs) }); err != nil {
		return cli.Unknown(fmt.Errorf("record %s: %w", f.url, err))
	}
	save, path := disk.Create, f.out
	if f.add != "" {
		save, path = disk.Replace, f.add
	}
	if err := save(path, 0o600, func(w io.Writer) error { return json.NewEncoder(w).Encode(r) }); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s has %d runs of %s over %d prompts of %s; keep it secret\n", path, f.runs, f.name, len(r.Prompts), r.Model)
	return nil
}

// begin gives the reference that is added to, or a new one.
func (f *referenceMakeFlags) begin() (*fingerprint.Reference, error) {
	switch {
	case (f.out == "") == (f.add == ""):
		return nil, errors.New("give --out FILE for a new reference, or --add FILE for one that is there")
	case f.add != "" && f.model != "":
		return nil, errors.New("--model and --add: the reference has its model already")
	case f.add != "":
		return readReference(f.add)
	case f.model == "":
		return nil, errors.New("--model NAME is needed: as the engine and the network's nodes know it")
	case f.prompts < fingerprint.MinPrompts || f.prompts > fingerprint.MaxPrompts:
		return nil, fmt.Errorf("--prompts %d: from %d to %d", f.prompts, fingerprint.MinPrompts, fingerprint.MaxPrompts)
	}
	if _, err := os.Lstat(f.out); err == nil {
		return nil, fmt.Errorf("--out: %s is there already: name a new file, or give --add", f.out)
	}
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // it never fails
	return fingerprint.New(f.model, fingerprint.Prompts(seed, f.prompts), time.Now()), nil
}

func readReference(path string) (*fingerprint.Reference, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the reference: %w", err)
	}
	defer file.Close()
	r, err := fingerprint.Read(file)
	if err != nil {
		return nil, fmt.Errorf("read the reference %s: %w", path, err)
	}
	return r, nil
}

type referenceCheckFlags struct {
	engineFlags
	model, format string
	prompts       int
}

func newReferenceCheck() *cobra.Command {
	var f referenceCheckFlags
	cmd := &cobra.Command{
		Use:   "check --url URL REFERENCE",
		Short: "Compare an engine with a model's reference",
		Long: `Compare an engine with a model's reference, by prompts that are drawn from it anew.

Exit codes: 0 its answers are those of a deployment that the reference has; 1 used
wrongly; 2 they are not, or there are none: another model, or a deployment that was
not recorded. It is never 3: a difference alone is no proof.`,
		Example: `  assay server reference check --url http://10.0.0.9:8000 llama.reference`,
		Args:    cli.Takes(1, 1, "a reference's file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.StringVar(&f.model, "model", "", "the model's `name` there; by default that of the reference")
	fs.IntVar(&f.prompts, "prompts", fingerprint.DefaultPrompts, "how many prompts to ask for")
	cli.FormatFlag(fs, &f.format, "of the answer: text or json", "text", "json")
	return cmd
}

func (f *referenceCheckFlags) run(ctx context.Context, path string, w io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return cli.BadFormat(f.format)
	}
	r, err := readReference(path)
	if err != nil {
		return err
	}
	if f.model == "" {
		f.model = r.Model
	}
	e, err := f.open(f.model)
	if err != nil {
		return err
	}
	got, err := fingerprint.Check(ctx, r, e, f.prompts, 2)
	if err != nil {
		return cli.Unknown(fmt.Errorf("ask %s: %w", f.url, err))
	}
	if f.format == "json" {
		err = cli.WriteJSON(w, got)
	} else {
		_, err = fmt.Fprintf(w, "%s: %s\n", got.Verdict, got.Text)
	}
	return errors.Join(err, cli.Judged(got.Verdict, errors.New("it is not known to be the model of the reference")))
}
