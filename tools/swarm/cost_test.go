package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// cost is what a number of agents took of the machine, from the server's start to
// a moment while they were all at work.
type cost struct {
	server, postgres time.Duration // of a core
	memory           int64         // resident bytes of the server
	reports          int           // that the database has
}

// cost looks at a server that runs.
func (s *served) cost() cost {
	s.t.Helper()
	c := cost{server: ticks(s.t, s.cmd.Process.Pid, false), postgres: postgresTime(s.t, s.database), memory: s.resident()}
	one(s.t, s.database, "SELECT count(*) FROM reports", &c.reports)
	return c
}

// postgresTime is the processor time of a PostgreSQL: of its main process with
// those that have ended, and of all that run.
func postgresTime(t *testing.T, url string) time.Duration {
	t.Helper()
	var checkpointer int // one that stays: the process that answers is gone with the answer
	one(t, url, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'", &checkpointer)
	main := parent(t, checkpointer)
	if main <= 1 {
		t.Fatalf("PostgreSQL's process %d has the parent %d", checkpointer, main)
	}
	took := ticks(t, main, true)
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && parent(t, pid) == main {
			took += ticks(t, pid, false)
		}
	}
	return took
}

// stat gives the fields of a process behind its name, which may have blanks; nil:
// it is gone.
func stat(pid int) [][]byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	f := stat(pid)
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.Atoi(string(f[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ticks is the processor time of a process, and of the children it has waited for.
func ticks(t *testing.T, pid int, children bool) time.Duration {
	t.Helper()
	f := stat(pid)
	if len(f) < 15 {
		return 0
	}
	last := 12 // utime and stime stand at 11 and 12, those of children behind them
	if children {
		last = 14
	}
	sum := 0
	for _, field := range f[11 : last+1] {
		n, err := strconv.Atoi(string(field))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / 100
}

// one reads one row.
func one(t *testing.T, url, query string, into ...any) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), query).Scan(into...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// rows prints how many rows and bytes the database has for each node and report.
func rows(t *testing.T, url string, r result) {
	t.Helper()
	var bytes int64
	one(t, url, "SELECT pg_database_size(current_database())", &bytes)
	line := fmt.Sprintf("database: %d MB, %.1f KB for each report; rows", bytes>>20, float64(bytes)/1024/float64(max(r.Reports, 1)))
	for _, table := range []string{"nodes", "beats", "outbox", "reports", "evidence", "transitions", "audit"} {
		var n int
		one(t, url, "SELECT count(*) FROM "+table, &n)
		line += fmt.Sprintf(", %s %d", table, n)
	}
	parttest.Figure(t, "%s", line)
}
