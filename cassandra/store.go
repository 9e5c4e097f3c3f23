package cassandra

import (
	"context"
	"fmt"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// store is a [lease.Store] on lightweight transactions. Every change is one
// conditional statement, or one conditional batch of one partition, sent once.
type store struct {
	*client
	keyspace string
	buckets  Buckets
	texts    texts
}

var _ lease.Store = (*store)(nil)

// granularity is by how much a TTL can end early: the server counts in whole
// seconds and rounds the writing's time down.
const granularity = time.Second

// maxBatch keeps a claim's statement small and quick; larger batches gained
// nothing.
const maxBatch = 250

// certificateTTL is how long a death certificate lasts: longer than any request
// that was under way when it was written.
const certificateTTL = 24 * 60 * 60

// NewStore returns the [lease.Store] alone, for those who build their own
// [lease.Ownership]. It checks cfg but asks the cluster nothing: see [New],
// which does, and which most want instead.
func NewStore(session *gocql.Session, cfg Config) (lease.Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validateStore(session); err != nil {
		return nil, fmt.Errorf("cassandra.NewStore: %w", err)
	}
	return newStore(session, cfg), nil
}

func newStore(session *gocql.Session, cfg Config) *store {
	return &store{client: newClient(session, cfg.Serial), keyspace: cfg.Keyspace, buckets: cfg.Buckets, texts: newTexts(cfg.Keyspace)}
}

// Limits implements [lease.Store].
func (s *store) Limits() lease.Limits {
	return lease.Limits{Granularity: granularity, WholeTTL: time.Second, MaxBatch: maxBatch, KeepsRows: !s.buckets.perResource()}
}

// Bucket implements [lease.Store].
func (s *store) Bucket(resource string) string { return s.buckets.of(resource) }

func (s *store) toSession(id lease.ID) route { return route{keyspace: s.keyspace, key: id[:]} }

func (s *store) changeSession(ctx context.Context, id lease.ID, stmt statement) lease.Result[lease.Session] {
	a, err := change(ctx, s.client, s.toSession(id), (*sessionRow).destinations, stmt)
	return result(a.applied, err, func() lease.Session { return sessionOf(id, a.rows) })
}

// result maps an answer to its three values.
func result[T any](applied bool, err error, current func() T) lease.Result[T] {
	switch {
	case err != nil && classify(err) == ownership.NotApplied:
		return lease.NotSent[T](explain(err))
	case err != nil:
		return lease.Unknown[T](explain(err))
	case applied:
		return lease.Applied[T]()
	}
	return lease.Refused(current())
}

// sessionOf reads a session's row; rows is empty where there is none.
func sessionOf(id lease.ID, rows []sessionRow) lease.Session {
	s := lease.Session{ID: id}
	if len(rows) == 0 {
		return s
	}
	r := rows[0]
	s.Owner, s.Revoked = orZero(r.owner), lease.ID(orZero(r.revoked))
	if r.seq != nil {
		s.Found, s.Seq = true, *r.seq
	}
	s.Dead = orZero(r.dead) || s.Seq < 0
	length := time.Duration(orZero(r.ttl)) * time.Second
	if s.Dead {
		s.Wait = length
	} else {
		s.TTL = length
	}
	return s
}

// Open implements [lease.Store].
func (s *store) Open(ctx context.Context, n lease.Session) lease.Result[lease.Session] {
	ttl, err := wholeSeconds(n.TTL)
	if err != nil {
		return lease.NotSent[lease.Session](err)
	}
	return s.changeSession(ctx, n.ID, s.texts.open.bind(values{
		"id": gocql.UUID(n.ID), "owner": n.Owner, "seq": n.Seq, "ttl": ttl, ttlParam: ttl,
	}))
}

// Renew implements [lease.Store].
func (s *store) Renew(ctx context.Context, n lease.Session, acknowledge lease.ID) lease.Result[lease.Session] {
	ttl, err := wholeSeconds(n.TTL)
	if err != nil {
		return lease.NotSent[lease.Session](err)
	}
	v := values{
		"id": gocql.UUID(n.ID), "owner": n.Owner, "seq": n.Seq, "ttl": ttl, ttlParam: ttl,
		"expected": n.Seq - 1, "acknowledged": nil,
	}
	if !acknowledge.IsZero() {
		v["acknowledged"] = gocql.UUID(acknowledge)
	}
	return s.changeSession(ctx, n.ID, s.texts.renew.bind(v))
}

// Kill implements [lease.Store].
func (s *store) Kill(ctx context.Context, id lease.ID, expect *int64, wait time.Duration) lease.Result[lease.Session] {
	v := values{"id": gocql.UUID(id), "expected": nil, "ttl": secondsUp(wait), ttlParam: certificateTTL}
	if expect != nil {
		v["expected"] = *expect
	}
	return s.changeSession(ctx, id, s.texts.kill.bind(v))
}

// Revoke implements [lease.Store].
func (s *store) Revoke(ctx context.Context, id, attempt lease.ID, ttl time.Duration) lease.Result[lease.Session] {
	seconds, err := wholeSeconds(ttl)
	if err != nil {
		return lease.NotSent[lease.Session](err)
	}
	return s.changeSession(ctx, id, s.texts.revoke.bind(values{
		"id": gocql.UUID(id), "revoked": gocql.UUID(attempt), ttlParam: seconds,
	}))
}

// End implements [lease.Store].
func (s *store) End(ctx context.Context, n lease.Session) lease.Result[lease.Session] {
	return s.changeSession(ctx, n.ID, s.texts.end.bind(values{"id": gocql.UUID(n.ID), "expected": n.Seq}))
}

// Session implements [lease.Store].
func (s *store) Session(ctx context.Context, id lease.ID) (lease.Session, error) {
	return s.readSession(ctx, id, gocql.Consistency(s.serial))
}

// PeekSession implements [lease.Store].
func (s *store) PeekSession(ctx context.Context, id lease.ID) (lease.Session, error) {
	return s.readSession(ctx, id, s.commit)
}

func (s *store) readSession(ctx context.Context, id lease.ID, level gocql.Consistency) (lease.Session, error) {
	a, err := read(ctx, s.client, s.toSession(id), level, (*sessionRow).destinations,
		s.texts.session.bind(values{"id": gocql.UUID(id)}))
	return sessionOf(id, a.rows), explain(err)
}
