package gpu

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The vector of SipHash's authors for key 00…0f and message 00…0f.
func TestSipHashVector(t *testing.T) {
	if got := sipHash([2]uint64{0x0706050403020100, 0x0f0e0d0c0b0a0908}, 0x0706050403020100, 0x0f0e0d0c0b0a0908); got != 0x3f2acc7f57c29bdb {
		t.Errorf("%#x", got)
	}
}

// The ballots are what they are said to be: every kind of malice is there, and the
// honest decide.
func TestBallots(t *testing.T) {
	b := newBallot(gpuRandom(1, 0))
	var open, closed bool
	for n := range uint64(200) {
		r := gpuRandom(1, n+1)
		out := b.tally(byzantineVotes(b, r, 9), 9)
		count := map[uint32]int{}
		for _, v := range out[proposals+1:] {
			count[v]++
		}
		if count[voteAccepted] != voters-malicious || count[voteForged] != 12 || count[voteStale] != 11 || count[voteTwofaced] != 10 || out[proposals] == undecided {
			t.Fatalf("ballot %d: %v, decided %d", n, count, out[proposals])
		}
		out = b.tally(honestVotes(b, r, 9), 9)
		for i, v := range out[proposals+1:] {
			if v != voteAccepted {
				t.Fatalf("honest vote %d is %d", i, v)
			}
		}
		if out[proposals] == undecided {
			open = true
		} else {
			closed = true
		}
	}
	if !open || !closed {
		t.Errorf("rounds without a decision %v, with one %v", open, closed)
	}
	stray := b.sign(3, 9, 12345)
	twice := b.sign(5, 9, b.proposals[1])
	alien := twice
	alien.voter = voters
	out := b.tally([]gpuVote{stray, twice, twice, alien}, 9)
	if want := []uint32{0, 1, 0, 0, undecided, voteSenseless, voteAccepted, voteRepeated, voteStranger}; fmt.Sprint(out) != fmt.Sprint(want) {
		t.Errorf("tally %v, want %v", out, want)
	}
}

// The reference of matching agrees with the standard library's regular expressions.
func TestMatchReference(t *testing.T) {
	patterns, text := newPatterns(3, 5000), newText(3, 0)
	letters := func(s []byte) string {
		var b strings.Builder
		for _, c := range s {
			b.WriteByte('a' + c)
		}
		return b.String()
	}
	out, operations := matchReference(patterns, text)
	subject, fitted := letters(text), 0
	for i, p := range patterns {
		var s []byte
		for k := range p.length() {
			s = append(s, p.symbol(k))
		}
		re := regexp.MustCompile("^" + strings.ReplaceAll(letters(s), "a", "."))
		first, fits := uint32(noFirstPosition), uint32(0)
		for at := range textPositions {
			if re.MatchString(subject[at:]) {
				fits++
				first = min(first, uint32(at))
			}
		}
		if out[i] != first<<16|fits {
			t.Fatalf("pattern %d: %#x, want first %d of %d", i, out[i], first, fits)
		}
		fitted += int(fits)
	}
	if fitted == 0 || operations < 5000*textPositions {
		t.Errorf("%d fits, %d operations", fitted, operations)
	}
}

// Rewriting changes no tree's meaning, and leaves none of what it promises to remove.
func TestRewriteKeepsMeaning(t *testing.T) {
	forest := newForest(gpuRandom(5, 1))
	names := []uint32{7, 1 << 20, 12345, 99}
	shorter := 0
	for i := range 3000 {
		tree := make([]uint32, treeNodes)
		for n := range tree {
			tree[n] = forest[n*forestTrees+i]
		}
		before := evaluate(tree, 0, names, func(n int) (int, int) { return 2*n + 1, 2*n + 2 })
		out, steps := rewriteTree(tree)
		after := evaluate(out, 0, names, func(n int) (int, int) { return int(out[n] >> 8 & 0xFF), int(out[n] & 0xFF) })
		if before != after {
			t.Fatalf("tree %d was %d and is %d", i, before, after)
		}
		if steps > 0 {
			shorter++
		}
		if out[0]>>28 == nodeAdd && out[out[0]&0xFF]>>28 == nodeConstant {
			t.Fatalf("tree %d keeps a constant on the right", i)
		}
	}
	if shorter < 2500 {
		t.Errorf("only %d of 3000 trees were rewritten", shorter)
	}
}

func evaluate(tree []uint32, n int, names []uint32, children func(int) (int, int)) uint32 {
	kind, value := tree[n]>>28, tree[n]&payload
	switch kind {
	case nodeConstant:
		return value
	case nodeName:
		return names[value]
	case nodeSame:
		return evaluate(tree, int(value), names, children)
	}
	l, r := children(n)
	a, b := evaluate(tree, l, names, children), evaluate(tree, r, names, children)
	switch kind {
	case nodeAdd:
		return (a + b) & payload
	case nodeSubtract:
		return (a - b) & payload
	}
	return a * b & payload
}

func TestServeGPURefusesNonsense(t *testing.T) {
	native := Native{OpenCL: []string{"libabsent.so"}}
	for in, says := range map[string]string{
		"nonsense\n":                                "read a request",
		`{"id":1,"what":2}` + "\n":                  "unknown field",
		strings.Repeat("x", maxGPURequest+1) + "\n": "too long",
	} {
		if err := Serve(strings.NewReader(in), io.Discard, native); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v", in, err)
		}
	}
	var out bytes.Buffer
	if err := Serve(strings.NewReader(`{"id":1,"sample":1}`+"\n"+`{"id":2,"probe":"no/such"}`+"\n"+`{"id":3,"probe":"consensus/batch_100"}`+"\n"), &out, native); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"no probe was prepared", "knows no probe no/such", "libabsent.so"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is not in %s", says, out.String())
		}
	}
}

// A child whose parent has died ends by itself, even if the driver hangs.
func TestServeGPUEndsThoughTheDriverHangs(t *testing.T) {
	command := gpuStub(t, "HANG").command(t)
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, `{"id":1,"probe":"consensus/batch_100"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	time.Sleep(300 * time.Millisecond) // into the driver
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "exit status 1" {
		t.Errorf("it ended with %v", err)
	}
}

func TestServeGPUEndsWithItsInput(t *testing.T) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(r, io.Discard, Native{}) }()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it is still there")
	}
}
