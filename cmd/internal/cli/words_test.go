package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	several := map[string]bool{"goodput": true, "header": true, "lora-modules": true}
	tests := []struct{ name, in, want string }{
		{"several", "--goodput ttft:200 tpot:50 --seed 3", "--goodput ttft:200 --goodput tpot:50 --seed 3"},
		{"one", "--goodput ttft:200", "--goodput ttft:200"},
		{"at the end", "--seed 3 --header A=b C=d", "--seed 3 --header A=b --header C=d"},
		{"two in a row", "--header A=b C=d --goodput ttft:1 tpot:2", "--header A=b --header C=d --goodput ttft:1 --goodput tpot:2"},
		{"underscore", "--lora_modules a b", "--lora_modules a --lora_modules b"},
		{"with =", "--goodput=ttft:200 --seed 1", "--goodput=ttft:200 --seed 1"},
		{"negative value of another", "--custom-output-len -1 --goodput a b", "--custom-output-len -1 --goodput a --goodput b"},
		{"switch swallows nothing", "--save-result word --goodput a b", "--save-result word --goodput a --goodput b"},
		{"short flag ends it", "--goodput a -q b", "--goodput a -q b"},
		{"none", "--goodput --seed 3", "--goodput= --seed 3"},
		{"none at the end", "--goodput", "--goodput="},
		{"behind --", "--goodput a -- --goodput a b", "--goodput a -- --goodput a b"},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Words(strings.Fields(tt.in), several)
			if diff := cmp.Diff(strings.Fields(tt.want), got); diff != "" {
				t.Errorf("Words(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestDotted(t *testing.T) {
	objects := map[string]bool{"extra-body": true}
	tests := []struct{ name, in, want string }{
		{"a value", "--extra-body.a.b 1 --seed 2", "--extra-body a.b=1 --seed 2"},
		{"with =", "--extra_body.a=x=y", "--extra_body a=x=y"},
		{"negative", "--extra-body.a -1", "--extra-body a=-1"},
		{"plain", "--extra-body {}", "--extra-body {}"},
		{"another's dot", "--label.x 1 --base-url=http://a.b", "--label.x 1 --base-url=http://a.b"},
		{"nothing follows", "--extra-body.a", "--extra-body.a"},
		{"behind --", "-- --extra-body.a 1", "-- --extra-body.a 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Dotted(strings.Fields(tt.in), objects)
			if diff := cmp.Diff(strings.Fields(tt.want), got); diff != "" {
				t.Errorf("Dotted(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}
