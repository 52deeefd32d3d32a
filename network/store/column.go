package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// args are a statement's arguments, numbered as they come.
type args []any

// add adds an argument and gives its place in the statement.
func (a *args) add(v any) string {
	*a = append(*a, v)
	return "$" + strconv.Itoa(len(*a))
}

// micros is a time as it is stored: NULL for none.
func micros(t time.Time) any { return database.Time(t) }

// at reads a stored time.
func at(t *time.Time) sql.Scanner { return database.At(t) }

// document is a value as it is stored in a column of JSON. What cannot be written
// is a mistake of ours: our types are plain.
func document(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("store: %T has no JSON: %v", v, err))
	}
	return string(b)
}

// parsed reads a column of JSON.
func parsed(to any) sql.Scanner { return parsedColumn{to} }

type parsedColumn struct{ to any }

func (p parsedColumn) Scan(from any) error {
	var text string
	switch v := from.(type) {
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		return fmt.Errorf("a column of JSON has a %T", from)
	}
	return json.Unmarshal([]byte(text), p.to)
}

// raw is JSON that others made, as it is stored; an empty one is the empty object.
func raw(b json.RawMessage) string {
	if len(b) == 0 {
		return "{}"
	}
	return string(b)
}

// list stores a list of strings, which is never null.
func list(v []string) string {
	if v == nil {
		return "[]"
	}
	return document(v)
}

// row is what has columns to scan.
type row = database.Row

// all collects the rows of a query.
func all[T any](ctx context.Context, q database.Query, scan func(row) (T, error), query string, a ...any) ([]T, error) {
	return database.All(ctx, q, scan, query, a...)
}

// Page is a part of a list. The zero Page is its beginning.
type Page struct {
	After string // ids after it, for lists by id
	// Before are ids before it, for lists that begin with the newest.
	Before string
	Limit  int // 0: 100; at most 1000
}

func (p Page) limit() int {
	if p.Limit <= 0 {
		return 100
	}
	return min(p.Limit, 1000)
}

// newest is the condition and the order of a list that begins with the newest.
func (p Page) newest(column string, a *args) string {
	cond := ""
	if p.Before != "" {
		cond = " AND " + column + " < " + a.add(p.Before)
	}
	return cond + " ORDER BY " + column + " DESC LIMIT " + a.add(p.limit())
}
