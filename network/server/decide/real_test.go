package decide

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/store"
)

// Words for a decider in a process of its own.
const (
	childDatabase = "DECIDE_TEST_DATABASE"
	childObjects  = "DECIDE_TEST_OBJECTS"
	childSeed     = "DECIDE_TEST_SEED"
	childOffset   = "DECIDE_TEST_OFFSET"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childDatabase); url != "" {
		if err := child(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(9)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child decides until it is killed or told to end.
func child(url string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	seed, err := hex.DecodeString(os.Getenv(childSeed))
	if err != nil {
		return err
	}
	offset, err := time.ParseDuration(os.Getenv(childOffset))
	if err != nil {
		return err
	}
	db, err := database.Open(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close()
	signer := ledger.HeldKey(ed25519.NewKeyFromSeed(seed))
	d, err := New(Options{
		Store: recording(db, signer), Signer: signer, Origin: origin, Evidence: plain(os.Getenv(childObjects)),
		Now: func() time.Time { return time.Now().Add(offset) }, Lease: 300 * time.Millisecond, Every: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	d.Run(ctx)
	return nil
}

// plain is a directory that several processes read.
type plain string

func (p plain) Open(_ context.Context, o evidence.Object) (io.ReadCloser, error) {
	f, err := os.Open(filepath.Join(string(p), o.SHA256))
	if errors.Is(err, os.ErrNotExist) {
		return nil, evidence.ErrAbsent
	}
	return f, err
}

// TestRealNetworkDeciders: three processes on PostgreSQL behind PgBouncer, killed
// and stopped at random, make each decision once.
func TestRealNetworkDeciders(t *testing.T) {
	direct := parttest.Postgres(t)
	through := parttest.PgBouncer(t, direct, 4)
	migrate, err := database.Open(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.New(migrate).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := migrate.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := database.Open(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	seed := make([]byte, ed25519.SeedSize)
	objects := t.TempDir()
	n := newNetworkOn(t, db, func(o *Options) { o.Signer, o.Evidence = ledger.HeldKey(ed25519.NewKeyFromSeed(seed)), plain(objects) })
	n.server, n.plain = ledger.HeldKey(ed25519.NewKeyFromSeed(seed)), objects
	var nodes []*node
	for range 4 {
		nodes = append(nodes, n.approved())
	}
	for range 3 {
		n.clock.pass(time.Minute)
		for i, m := range nodes {
			slow := 1.0
			if i < 2 {
				slow = 10
			}
			m.report(m.run(measurement{slow: slow}), nil)
		}
	}
	env := append(os.Environ(), childDatabase+"="+through, childObjects+"="+objects, childSeed+"="+hex.EncodeToString(seed), childOffset+"="+n.clock.off.String())
	begin := func() *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env, c.Stderr = env, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	children := []*exec.Cmd{begin(), begin(), begin()}
	defer func() {
		for _, c := range children {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	kills, stops := 0, 0
	for end := time.Now().Add(2 * time.Minute); ; {
		left, err := n.store.Unscored(t.Context(), time.Now().Add(-time.Hour), 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 && kills >= 3 && stops >= 3 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d reports are left", len(left))
		}
		time.Sleep(time.Duration(50+rand.IntN(250)) * time.Millisecond)
		i := rand.IntN(len(children))
		if rand.IntN(2) == 0 {
			_ = children[i].Process.Kill()
			_ = children[i].Wait()
			children[i] = begin()
			kills++
			continue
		}
		if err := children[i].Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(800)) * time.Millisecond) // often longer than a lease
		if err := children[i].Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		stops++
	}
	for i, m := range nodes {
		var moves []string
		for _, tr := range n.provable(m.id) {
			if tr.Fact == string(control.FactAdmission) {
				moves = append(moves, tr.To)
			}
		}
		want := []string{"pending", "admitted"}
		if i < 2 {
			want = append(want, "quarantined")
		}
		if !slices.Equal(moves, want) {
			t.Errorf("node %d went %q, not %q", i, moves, want)
		}
	}
	b, err := n.store.Breaker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kills, %d stops; breaker %s", kills, stops, b.Body)
}
