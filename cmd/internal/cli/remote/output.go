package remote

import (
	"io"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/report"
)

// Formats of --format.
const (
	formatText = "text"
	formatJSON = "json"
)

// Output are the flags of a command whose answer is for people or for programs.
type Output struct {
	Flags
	Format string
}

// Register adds the flags.
func (o *Output) Register(fs *pflag.FlagSet) {
	o.Flags.Register(fs)
	cli.FormatFlag(fs, &o.Format, "of the answer: text or json", formatText, formatJSON)
}

// Open checks the format and makes a client.
func (o Output) Open() (*Client, error) {
	if o.Format != formatText && o.Format != formatJSON {
		return nil, cli.BadFormat(o.Format)
	}
	return o.Flags.Open()
}

// JSON says whether the answer is for programs.
func (o Output) JSON() bool { return o.Format == formatJSON }

// Print prints an answer: as it is, or its page.
func (o Output) Print(w io.Writer, v any, p report.Page) error {
	if o.JSON() {
		return cli.WriteJSON(w, v)
	}
	return cli.Show(w, p)
}
