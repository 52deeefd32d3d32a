package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/server/oidc"
	"github.com/assay-bench/assay/network/store"
)

// signInFlags say by whom people are known.
type signInFlags struct{ issuer, clientID, secretFile, rules, url string }

func (f *signInFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.issuer, "oidc-issuer", "", "people sign in by this OpenID provider: its issuer's `URL`")
	fs.StringVar(&f.clientID, "oidc-client-id", "", "the server's client `ID` at the provider")
	fs.StringVar(&f.secretFile, "oidc-client-secret-file", "", "`file` with the client's secret, for its owner only; without one it is a public client")
	fs.StringVar(&f.rules, "oidc-map", "", "`file` that says which claims give which role and owners (docs/formats/people.md)")
	fs.StringVar(&f.url, "oidc-url", "", "`URL` at which browsers reach this server, when it is not that of --listen")
}

// add lets people sign in, where a provider was named. own is the URL of the
// listener.
func (f *signInFlags) add(o *server.Options, st *store.Store, log *slog.Logger, own string) error {
	if f.issuer == "" {
		if *f != (signInFlags{}) {
			return errors.New("--oidc-issuer URL is missing: the other flags of people's sign-in say nothing without it")
		}
		return nil
	}
	if f.clientID == "" || f.rules == "" {
		return errors.New("--oidc-issuer needs --oidc-client-id ID and --oidc-map FILE: without rules nobody gets a role")
	}
	b, err := keys.ReadSmall(f.rules, oidc.MaxRules)
	if err != nil {
		return fmt.Errorf("--oidc-map: %w", err)
	}
	rules, err := oidc.ReadRules(b, f.rules)
	if err != nil {
		return fmt.Errorf("--oidc-map: %w", err)
	}
	secret := ""
	if f.secretFile != "" {
		if secret, err = cli.ReadToken(f.secretFile); err != nil {
			return fmt.Errorf("--oidc-client-secret-file: %w", err)
		}
	}
	if f.url != "" {
		own = f.url
	}
	s, err := oidc.New(oidc.Options{Issuer: f.issuer, ClientID: f.clientID, ClientSecret: secret, Rules: rules, URL: own, Store: st, Log: log})
	if err != nil {
		return fmt.Errorf("--oidc-issuer: %w", err)
	}
	o.Authenticators = append(o.Authenticators, s)
	o.SignIn = oidc.LoginPath
	if o.Mounts == nil {
		o.Mounts = map[string]http.Handler{}
	}
	o.Mounts["/auth/"] = s
	return nil
}
