// Package campaign has the commands that measure rented machines and give them back.
package campaign

import "github.com/spf13/cobra"

// New is the command "campaign".
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "campaign",
		Short: "Measure a matrix of rented GPUs, and always give them back",
		Long: `Measure models on GPUs of several providers: which serves a model cheapest, and how
fast is it. A matrix (docs/formats/matrix.md) says what is to be measured and what
may be spent; plan says what that comes to before anything is rented.

Exit codes: 0 done and good; 1 used wrongly; 2 something could not be found out;
3 it was, and it is bad.`,
	}
	cmd.AddCommand(newPlan(), newCheck(), newRun(), newStatus(), newResume(), newCancel(), newImport(), newReport(), newBest(), newSandbox(), newReap(), newMachine())
	return cmd
}
