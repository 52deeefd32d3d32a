package store

import (
	"context"
	"slices"

	"github.com/assay-bench/assay/internal/database"
)

// Why a session ends that somebody wanted to end: it has not failed.
const (
	WhyDone    = "its user is done"
	WhyDeleted = "its user destroyed it"
)

// Session is an intent together with what it was for.
type Session struct {
	Intent
	GPU   string
	Model string
	// Result says that it measured something, whole or in part.
	Result bool
	// Failure is what became of its cell, if this was the cell's last try and it
	// failed.
	Failure Progress
}

// Failed reports whether it has ended and gave nothing, and nobody wanted that.
func (s Session) Failed() bool {
	return s.State == Ended && !s.Result && s.Why != WhyDone && s.Why != WhyDeleted
}

// SessionQuery narrows sessions. Its zero value asks for none: Limit must be given.
type SessionQuery struct {
	Label    string  // only this one
	Provider string  // empty: all
	States   []State // none: all
	Failed   *bool   // nil: whether it failed does not matter
	Before   string  // a label: only older ones
	Limit    int
}

// failedSession is [Session.Failed] in SQL; $5 and $6 are the two reasons.
const failedSession = `(state = 'ended' AND why <> $5 AND why <> $6
	AND NOT EXISTS (SELECT 1 FROM benchmark_manifest m WHERE m.session_id = intents.label AND m.status IN ('success', 'partial')))`

// Sessions lists intents, the newest first.
func (s *Store) Sessions(ctx context.Context, w SessionQuery) (list []Session, err error) {
	where := `($1 = '' OR label = $1) AND ($2 = '' OR provider = $2)
		AND ($3 = '' OR EXISTS (SELECT 1 FROM intents b WHERE b.label = $3 AND (intents.made_at < b.made_at OR intents.made_at = b.made_at AND intents.label < b.label)))`
	args := []any{w.Label, w.Provider, w.Before, w.Limit}
	if w.Failed != nil {
		args = append(args, WhyDone, WhyDeleted)
		not := ""
		if !*w.Failed {
			not = "NOT "
		}
		where += " AND " + not + failedSession
	}
	if len(w.States) > 0 {
		names := make([]string, 0, len(w.States))
		for _, t := range w.States {
			names = append(names, string(t))
		}
		args = append(args, s.db.List(names))
		where += " AND " + s.db.Any("state", len(args))
	}
	err = s.view(ctx, "list sessions", func(q database.Query) error {
		intents, err := s.intents(ctx, q, where+" ORDER BY made_at DESC, label DESC LIMIT $4", args...)
		if err != nil || len(intents) == 0 {
			return err
		}
		list = make([]Session, len(intents))
		for k, i := range intents {
			list[k].Intent = i
		}
		return s.explain(ctx, q, list)
	})
	return list, err
}

// explain adds what sessions were for and what they gave.
func (s *Store) explain(ctx context.Context, q database.Query, list []Session) error {
	labels, ids := make([]string, len(list)), []string{}
	for k, one := range list {
		if labels[k] = one.Label; !slices.Contains(ids, one.Cell) {
			ids = append(ids, one.Cell)
		}
	}
	results, err := s.strings(ctx, q, "SELECT session_id FROM benchmark_manifest WHERE status IN ('success', 'partial') AND "+s.db.Any("session_id", 1), labels)
	if err != nil {
		return err
	}
	last, err := s.strings(ctx, q, "SELECT label FROM intents WHERE "+s.db.Any("cell", 1)+
		" AND NOT EXISTS (SELECT 1 FROM intents l WHERE l.cell = intents.cell AND (l.made_at > intents.made_at OR l.made_at = intents.made_at AND l.label > intents.label))", ids)
	if err != nil {
		return err
	}
	rows, err := database.All(ctx, q, scanCell, "SELECT "+cellColumns+" WHERE "+s.db.Any("id", 1), s.db.List(ids))
	if err != nil {
		return err
	}
	cells := map[string]Cell{}
	for _, c := range rows {
		cells[c.ID] = c
	}
	for k := range list {
		one := &list[k]
		c := cells[one.Cell]
		one.GPU, one.Model = c.GPU, c.Model
		if one.Result = results[one.Label]; last[one.Label] && c.Status == "failed" {
			one.Failure = c.Progress
		}
	}
	return nil
}

// strings asks for a column of strings about a list of them.
func (s *Store) strings(ctx context.Context, q database.Query, query string, about []string) (map[string]bool, error) {
	rows, err := database.All(ctx, q, func(r database.Row) (v string, err error) { return v, r.Scan(&v) }, query, s.db.List(about))
	set := make(map[string]bool, len(rows))
	for _, v := range rows {
		set[v] = true
	}
	return set, err
}
