package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/store"
)

const (
	outcomeDone = "done"
	maxAudit    = 500
)

// entry is an audit entry for something that is done, to be written with it. All
// but its detail is in the ledger for good, so that all but its detail is ours:
// targets are ids and fixed words.
func (s *Server) entry(ctx context.Context, actor, action, target, node, owner string) store.AuditEntry {
	now := s.now()
	return store.AuditEntry{
		ID: newID(now), At: now, Actor: actor, Action: action, Target: target, Node: node, Owner: owner,
		Outcome: outcomeDone, Detail: foreign.Line(requestOf(ctx).detail, maxAudit),
	}
}

// trail is what a mutation of the request's principal leaves behind, in the same
// transaction. The guard then writes no second entry.
func (s *Server) trail(ctx context.Context, target string) store.Trail {
	req := requestOf(ctx)
	req.target = target
	return store.Trail{Audit: []store.AuditEntry{s.entry(ctx, req.who.ID, req.op, target, req.node, req.owner)}}
}

// trailed says that the trail was written.
func trailed(ctx context.Context, err error) error {
	if err == nil {
		requestOf(ctx).audited = true
	}
	return err
}

// audit writes the entry of a request that has left none: of one that failed, or
// whose change could not hold it.
func (s *Server) audit(ctx context.Context, req *request, err error) {
	target, node := req.target, req.node
	if _, err := ulid.ParseStrict(node); err != nil {
		node = "" // whatever somebody wrote into the path
	}
	if target == "" && node != "" {
		target = "node:" + node
	}
	e := s.entry(ctx, req.who.ID, req.op, target, node, req.owner)
	if err != nil {
		e.Outcome, e.Detail = "failed", ""
		if r := refusalOf(err); r != nil {
			e.Outcome, e.Detail = fmt.Sprintf("refused %d", r.status), foreign.Line(r.detail, maxAudit)
		}
	}
	// The answer is out, or about to be: its sender may be gone already.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.store.AddAudit(ctx, store.Trail{Audit: []store.AuditEntry{e}}); err != nil {
		s.metrics.add(countAuditLost, 1)
		s.log.Error("could not write an audit entry", "request", req.id, "operation", req.op, "error", err)
	}
}

// rejected notes a request that the guard did not let through: of somebody known in
// the audit log, of others as a count.
func (s *Server) rejected(ctx context.Context, req *request, err error) {
	r := refusalOf(err)
	switch {
	case r == nil: // a fault of ours, which the log has
	case req.who.ID == "":
		s.reject(fmt.Sprintf("%s %d", req.op, r.status))
	case r.status == http.StatusTooManyRequests || !s.auditable(req.who.ID):
		s.reject(fmt.Sprintf("%s %d known", req.op, r.status))
	default:
		s.audit(ctx, req, err)
	}
}

// auditable bounds what one principal can add to the audit log by being refused:
// it is append-only, and nobody may fill it. What is beyond is counted.
func (s *Server) auditable(who string) bool {
	_, ok := s.byAudit.take(who, s.now())
	return ok
}

// rejections are counts of requests of nobody known, by minute and kind. Kinds are
// operations and statuses: nobody can make more of them.
type rejections struct {
	mu     sync.Mutex
	counts map[rejectionKey]int64
}

type rejectionKey struct {
	minute time.Time
	kind   string
}

// reject counts one.
func (s *Server) reject(kind string) {
	s.metrics.reject(kind)
	s.rejects.mu.Lock()
	defer s.rejects.mu.Unlock()
	if s.rejects.counts == nil {
		s.rejects.counts = map[rejectionKey]int64{}
	}
	s.rejects.counts[rejectionKey{s.now().UTC().Truncate(time.Minute), kind}]++
}

// rejectEvery is how often counts are written.
const rejectEvery = 5 * time.Second

// flushRejections writes counts until ctx ends, and once more then.
func (s *Server) flushRejections(ctx context.Context) {
	trouble := s.trouble("write counts of rejected requests")
	tick := time.NewTicker(rejectEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), rejectEvery)
		if err := s.writeRejections(end); err != nil {
			trouble(err)
		}
		cancel()
	}
}

// writeRejections writes what was counted; what could not be written is counted
// on.
func (s *Server) writeRejections(ctx context.Context) error {
	s.rejects.mu.Lock()
	counts := s.rejects.counts
	s.rejects.counts = nil
	s.rejects.mu.Unlock()
	var rows []store.Rejections
	for k, n := range counts {
		rows = append(rows, store.Rejections{Minute: k.minute, Kind: k.kind, Count: n})
	}
	if len(rows) == 0 {
		return nil
	}
	err := s.store.AddRejections(ctx, rows)
	if err != nil {
		s.rejects.mu.Lock()
		defer s.rejects.mu.Unlock()
		if s.rejects.counts == nil {
			s.rejects.counts = map[rejectionKey]int64{}
		}
		for k, n := range counts {
			s.rejects.counts[k] += n
		}
	}
	return err
}
