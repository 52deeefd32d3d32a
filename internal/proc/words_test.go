package proc

import "testing"

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Exit{}.String(), "exited with code 0"},
		{Exit{Code: -1, Signal: "SIGSEGV"}.String(), "ended by SIGSEGV"},
		{Exit{Code: -1, Signal: "SIGKILL", MemoryExceeded: true}.String(), "ended for passing its memory limit"},
		{Exit{Code: -1, Signal: "SIGTERM", Stopped: true}.String(), "ended by SIGTERM after being told to stop"},
		{Exit{Code: 1, Left: []int{7}}.String(), "exited with code 1, and processes [7] could not be ended"},
		{Exit{Code: -1, Lost: "why"}.String(), "ended, how is unknown: why"},
		{(&DiedError{Exit{Code: 2, LogTail: "no GPU\n"}}).Error(), "the process exited with code 2; its log ends: no GPU"},
		{Isolation{}.String(), "none"},
		{Isolation{Cgroup: "/x", Subreaper: true, Memory: "cgroup", CPUs: []int{0, 2}}.String(),
			"cgroup v2 of its own, subreaper, memory limit by cgroup, CPUs [0 2]"},
		{Isolation{PIDNamespace: true, UserNamespace: true, Subreaper: true, Memory: "watch", Notes: []string{"a", "b"}}.String(),
			"pid namespace of its own within a user namespace, subreaper, memory limit by watching the tree every 200ms (a; b)"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
