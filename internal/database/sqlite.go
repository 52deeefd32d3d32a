package database

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/assay-bench/assay/internal/disk"
)

// maxReaders is how many connections read an SQLite file at once.
const maxReaders = 8

// openSQLite opens a file twice: with one connection that writes, whose
// transactions take the lock when they begin (a read that turns into a write may
// fail at once, whatever the timeout), and with several that read.
func openSQLite(path string) (*DB, error) {
	if path == "" {
		return nil, fmt.Errorf("%w (the file's name is missing)", ErrURL)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if err := makeFile(path); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	// synchronous=FULL: what was acknowledged survives the machine's end.
	pragmas := []string{"busy_timeout(10000)", "foreign_keys(1)", "synchronous(FULL)"}
	file := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()}).String()
	write := url.Values{"_txlock": {"immediate"}, "_pragma": append(slices.Clone(pragmas), "journal_mode(WAL)")} // which lasts in the file
	read := url.Values{"_pragma": append(slices.Clone(pragmas), "query_only(1)")}
	w, err := sql.Open("sqlite", file+"?"+write.Encode())
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	w.SetMaxOpenConns(1)
	r, err := sql.Open("sqlite", file+"?"+read.Encode())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), w.Close())
	}
	r.SetMaxOpenConns(maxReaders)
	r.SetMaxIdleConns(maxReaders)
	return &DB{dialect: SQLite, write: w, read: r, where: path, path: path}, nil
}

// makeFile makes the database's file, so that nobody else can read it from its
// first byte on; what SQLite puts beside it gets the same mode. A file that is
// there keeps its own.
func makeFile(path string) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := disk.Open(root, filepath.Base(path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// busy reports whether an error is SQLite's word for another one's lock.
func busy(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff // without what extends it
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// sqliteTaken reports whether an error is that of a unique value that is there.
func sqliteTaken(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// List is the argument for Any: one value that holds many.
func (d *DB) List(values []string) any {
	if d.dialect == Postgres {
		if values == nil {
			return []string{}
		}
		return values
	}
	b, err := json.Marshal(values)
	if err != nil || values == nil {
		return "[]" // strings always can be written
	}
	return string(b)
}
