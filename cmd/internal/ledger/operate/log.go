package operate

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/tlog"
)

// logFlags say which log is meant, and who is to be believed about it.
type logFlags struct{ log, policy string }

func (f *logFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.log, "log", "", "the log: a `directory or URL` (needed)")
	registerPolicy(fs, &f.policy)
}

func registerPolicy(fs *pflag.FlagSet, policy *string) {
	fs.StringVar(policy, "policy", "", "`file` that says which log and witnesses are trusted (needed)")
}

func (f *logFlags) open() (tlog.Log, ledger.Policy, error) {
	if f.log == "" {
		return nil, ledger.Policy{}, errors.New("--log: name the log's directory or URL")
	}
	p, err := readPolicy(f.policy)
	if err != nil {
		return nil, p, err
	}
	src, err := tlog.Open(f.log, tlog.OpenOptions{})
	if err != nil {
		return nil, p, cli.Unknown(err)
	}
	return src, p, nil
}
