package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// things is a schema of this many versions, each of which adds a row.
func things(versions int) Schema {
	files := func(head string) fs.FS {
		m := fstest.MapFS{}
		for v := 1; v <= versions; v++ {
			sql := fmt.Sprintf("-- +goose Up\nINSERT INTO things (id, n) VALUES ('v%d', 0);\n", v)
			if v == 1 {
				sql = strings.Replace(sql, "Up\n", "Up\n"+head, 1)
			}
			m[fmt.Sprintf("%05d_thing.sql", v)] = &fstest.MapFile{Data: []byte(sql)}
		}
		return m
	}
	return Schema{"things", files("CREATE TABLE things (id TEXT PRIMARY KEY, n INTEGER NOT NULL);\n"),
		files("CREATE TABLE things (id TEXT PRIMARY KEY, n BIGINT NOT NULL);\n")}
}

// suite is what both databases do alike. open opens the same database again.
func suite(t *testing.T, open func(t *testing.T) *DB) {
	ctx := t.Context()
	db := open(t)
	t.Run("migrations", func(t *testing.T) {
		if err := db.Check(ctx, things(1)); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "init") {
			t.Errorf("check of an empty database: %v", err)
		}
		migrateAtOnce(t, open, things(2))
		if from, to, err := db.Migrate(ctx, things(2)); from != 2 || to != 2 || err != nil {
			t.Errorf("migrate again: from %d to %d, %v", from, to, err)
		}
		if from, to, err := db.Migrate(ctx, things(1)); from != 2 || to != 2 || err != nil {
			t.Errorf("migrate with an older program: from %d to %d, %v", from, to, err)
		}
		for made, want := range map[int]string{1: "", 2: "", 3: "server migrate"} {
			if err := db.Check(ctx, things(made)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("a program of version %d on schema 2: %v", made, err)
			}
		}
		if _, _, err := db.Migrate(ctx, things(3)); err != nil {
			t.Fatal(err)
		}
		if err := db.Check(ctx, things(1)); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "newer program") {
			t.Errorf("a program of version 1 on schema 3: %v", err)
		}
	})
	t.Run("a migration that fails leaves nothing", func(t *testing.T) {
		s := things(4)
		for _, files := range []fs.FS{s.SQLite, s.Postgres} {
			files.(fstest.MapFS)["00004_thing.sql"].Data = []byte("-- +goose Up\nINSERT INTO things (id, n) VALUES ('half', 0);\nINSERT INTO nowhere VALUES (1);\n")
		}
		if _, _, err := db.Migrate(ctx, s); err == nil {
			t.Error("a broken migration went through")
		}
		if v, err := db.Version(ctx, s); v != 3 || err != nil {
			t.Errorf("version %d, %v after a broken migration", v, err)
		}
		if n := count(t, db, "half"); n != 0 {
			t.Errorf("%d rows of a broken migration", n)
		}
	})
	t.Run("an error rolls back and is returned once", func(t *testing.T) {
		mine, runs := errors.New("mine"), 0
		err := db.Tx(ctx, func(q Query) error {
			runs++
			if _, err := q.ExecContext(ctx, "INSERT INTO things (id, n) VALUES ('gone', 0)"); err != nil {
				return err
			}
			return mine
		})
		if !errors.Is(err, mine) || runs != 1 || count(t, db, "gone") != 0 {
			t.Errorf("%v after %d runs, %d rows", err, runs, count(t, db, "gone"))
		}
	})
	t.Run("a unique value is told", func(t *testing.T) {
		err := db.Tx(ctx, func(q Query) error {
			_, err := q.ExecContext(ctx, "INSERT INTO things (id, n) VALUES ('v1', 0)")
			return err
		})
		if !Taken(err) {
			t.Errorf("a second v1: %v", err)
		}
	})
	t.Run("counting at once", func(t *testing.T) { countAtOnce(t, db, open(t)) })
	t.Run("lists", func(t *testing.T) {
		for _, c := range []struct {
			list []string
			want int
		}{{nil, 0}, {[]string{"v1", "v2", `"`, "nobody"}, 2}} {
			n := 0
			if err := db.View(ctx, func(q Query) error {
				return q.QueryRowContext(ctx, "SELECT count(*) FROM things WHERE "+db.Any("id", 1), db.List(c.list)).Scan(&n)
			}); err != nil || n != c.want {
				t.Errorf("%q: %d, %v", c.list, n, err)
			}
		}
	})
}

func count(t *testing.T, db *DB, id string) (n int) {
	t.Helper()
	if err := db.View(t.Context(), func(q Query) error {
		return q.QueryRowContext(t.Context(), "SELECT count(*) FROM things WHERE id = $1", id).Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// migrateAtOnce migrates by several who each have the database open themselves.
func migrateAtOnce(t *testing.T, open func(*testing.T) *DB, s Schema) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	worked := 0
	for range 4 {
		db := open(t)
		wg.Go(func() {
			from, to, err := db.Migrate(t.Context(), s)
			if err != nil || to != 2 {
				t.Errorf("migrate at once: to %d, %v", to, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if from == 0 {
				worked++
			}
		})
	}
	wg.Wait()
	if worked != 1 {
		t.Errorf("%d migrators did the work", worked)
	}
}

// countAtOnce reads and writes one row in many transactions: none is lost.
func countAtOnce(t *testing.T, dbs ...*DB) {
	ctx := t.Context()
	var wg sync.WaitGroup
	const each = 20
	for _, db := range dbs {
		for range 2 {
			wg.Go(func() {
				for range each {
					if err := db.Tx(ctx, func(q Query) error {
						var n int
						if err := q.QueryRowContext(ctx, "SELECT n FROM things WHERE id = 'v1'"+db.ForUpdate()).Scan(&n); err != nil {
							return err
						}
						_, err := q.ExecContext(ctx, "UPDATE things SET n = $1 WHERE id = 'v1'", n+1)
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	n := 0
	if err := dbs[0].View(ctx, func(q Query) error {
		return q.QueryRowContext(ctx, "SELECT n FROM things WHERE id = 'v1'").Scan(&n)
	}); err != nil || n != each*2*len(dbs) {
		t.Errorf("counted %d, %v; %d transactions were carried out", n, err, each*2*len(dbs))
	}
}

func opened(t *testing.T, address string) *DB {
	t.Helper()
	db, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a ?b#%41.db") // what URLs would take for something else
	suite(t, func(t *testing.T) *DB { return opened(t, "sqlite:"+file) })
	for _, name := range []string{file, file + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func TestSQLiteReadersOnlyRead(t *testing.T) {
	db := opened(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	if err := db.View(t.Context(), func(q Query) error {
		_, err := q.ExecContext(t.Context(), "CREATE TABLE sneaked (id TEXT)")
		return err
	}); err == nil {
		t.Error("View made a table")
	}
	var mode string
	if err := db.View(t.Context(), func(q Query) error {
		return q.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode)
	}); err != nil || mode != "wal" {
		t.Errorf("journal_mode %s, %v", mode, err)
	}
	if err := db.Tx(t.Context(), func(q Query) error {
		return q.QueryRowContext(t.Context(), "PRAGMA foreign_keys").Scan(&mode)
	}); err != nil || mode != "1" {
		t.Errorf("foreign_keys %s, %v", mode, err)
	}
}

// No error of an address repeats its password, however the address is broken.
func TestPasswordsStayOutOfErrors(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, address := range []string{
		"", "hunter2", "mysql://u:hunter2@h/d", "sqlite:",
		"postgres://u:hunter2@[::1/d", "postgres://u:hunter2%zz@h/d", "postgres://u:hunter2@h:port/d",
		"postgres://u:hunter2 @h/d", "postgres://u:hunter2@h/d?sslmode=hunter2", "postgres://h/d?password=hunter2&sslmode=x",
		"postgres://u:hunter2@127.0.0.1:1/d?connect_timeout=1", "postgres://127.0.0.1:1/d?user=u&password=hunter2",
	} {
		db, err := Open(ctx, address)
		if err == nil {
			t.Errorf("%q was opened as %s", address, db)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
