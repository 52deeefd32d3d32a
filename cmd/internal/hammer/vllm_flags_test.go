package hammer

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// TestVLLMFlagsAreAll holds the table against the list of names that was taken
// from vLLM's own documentation.
func TestVLLMFlagsAreAll(t *testing.T) {
	b, err := os.ReadFile("testdata/hammer_vllm_names.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range vllmFlags {
		got = append(got, f.name)
	}
	if diff := cmp.Diff(strings.Fields(string(b)), got); diff != "" {
		t.Errorf("flags (-vLLM's +table):\n%s", diff)
	}
}

// TestVLLMFlagsAct holds that each flag does what its row says, and that rows
// agree with the registered flags about taking a value.
func TestVLLMFlagsAct(t *testing.T) {
	for _, f := range vllmFlags {
		t.Run(f.name, func(t *testing.T) {
			set := pflag.NewFlagSet("hammer", pflag.ContinueOnError)
			var h hammerFlags
			h.register(set)
			fl := set.Lookup(f.name)
			if fl == nil {
				t.Fatal("not registered")
			}
			if f.why == "" || !strings.HasSuffix(f.why, ".") {
				t.Errorf("%q is not a sentence", f.why)
			}
			if f.name == "profile" {
				return // ours; TestHammerErrors has vLLM's use of it
			}
			if isSwitch := fl.NoOptDefVal != ""; isSwitch != (f.takes == "") {
				t.Errorf("takes %q, but registered as switch: %v", f.takes, isSwitch)
			}
			value := "1"
			if f.takes == "" {
				value = "true"
			}
			if err := set.Set(f.name, value); err != nil && f.disposition != honoured {
				t.Fatal(err)
			}
			if got := len(h.notes) == 1; got != (f.disposition == noted) {
				t.Errorf("left a note: %v, but is %s", got, f.disposition)
			}
			if got := len(h.refusals) == 1; got != (f.disposition == refused) {
				t.Errorf("left a refusal: %v, but is %s", got, f.disposition)
			}
		})
	}
}

const tableStart, tableEnd = "<!-- table: made from the code; go test ./cmd/internal/hammer -update-hammer -->\n", "<!-- end of table -->\n"

func TestVLLMPage(t *testing.T) {
	const path = "../../../docs/vllm.md"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(b), tableStart)
	table, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has lost the marks of its table", path)
	}
	if *updateHammer {
		if err := os.WriteFile(path, []byte(head+tableStart+"\n"+vllmTable()+"\n"+tableEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff("\n"+vllmTable()+"\n", table); diff != "" {
		t.Errorf("%s is behind the code; run with -update-hammer (-want +got):\n%s", path, diff)
	}
}

func TestHammerUsage(t *testing.T) {
	set := pflag.NewFlagSet("hammer", pflag.ContinueOnError)
	var h hammerFlags
	h.register(set)
	set.Bool("help", false, "help for hammer")
	hammerGolden(t, "hammer_usage.golden", []byte(hammerUsage(set)))
	hammerGolden(t, "hammer_usage_basic.golden", []byte(basicUsage(set)))
}

func TestWords(t *testing.T) {
	tests := []struct{ in, want string }{
		{"hammer --goodput a b", "hammer --goodput a --goodput b"},
		{"--x hammer --goodput a b", "--x hammer --goodput a --goodput b"},
		{"simulate --goodput a b", "simulate --goodput a b"},
		{"simulate hammer --goodput a b", "simulate hammer --goodput a b"},
		{"", ""},
	}
	for _, tt := range tests {
		got := Words(strings.Fields(tt.in))
		if diff := cmp.Diff(strings.Fields(tt.want), got); diff != "" {
			t.Errorf("Words(%q) (-want +got):\n%s", tt.in, diff)
		}
	}
}

// vllmTable is the table of docs/vllm.md.
func vllmTable() string {
	var b strings.Builder
	counts := map[disposition]int{}
	for _, f := range vllmFlags {
		counts[f.disposition]++
	}
	fmt.Fprintf(&b, "%d flags: %d honoured, %d accepted with a note that they have no effect here, %d refused by name with the reason.\n\n",
		len(vllmFlags), counts[honoured], counts[noted], counts[refused])
	b.WriteString("| flag | here | |\n| --- | --- | --- |\n")
	for _, f := range vllmFlags {
		fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", f.name, f.disposition, strings.ReplaceAll(f.why, "|", `\|`))
	}
	return b.String()
}
