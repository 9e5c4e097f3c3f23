package faults

import (
	"context"
	"slices"
	"time"

	"github.com/tenure-go/tenure/ownership/lease"
)

// Limits implements [lease.Store].
func (s *Store) Limits() lease.Limits { return s.inner.Limits() }

// Bucket implements [lease.Store].
func (s *Store) Bucket(resource string) string { return s.inner.Bucket(resource) }

// Open implements [lease.Store].
func (s *Store) Open(ctx context.Context, n lease.Session) lease.Result[lease.Session] {
	return change(ctx, s, Request{Op: OpOpen, Session: n.ID, Seq: n.Seq}, func(ctx context.Context) lease.Result[lease.Session] {
		return s.inner.Open(ctx, n)
	})
}

// Renew implements [lease.Store].
func (s *Store) Renew(ctx context.Context, n lease.Session, acknowledge lease.ID) lease.Result[lease.Session] {
	return change(ctx, s, Request{Op: OpRenew, Session: n.ID, Seq: n.Seq}, func(ctx context.Context) lease.Result[lease.Session] {
		return s.inner.Renew(ctx, n, acknowledge)
	})
}

// Kill implements [lease.Store].
func (s *Store) Kill(ctx context.Context, id lease.ID, expect *int64, wait time.Duration) lease.Result[lease.Session] {
	if expect != nil {
		seq := *expect // a late delivery must not see what the caller does with it
		expect = &seq
	}
	return change(ctx, s, Request{Op: OpKill, Session: id}, func(ctx context.Context) lease.Result[lease.Session] {
		return s.inner.Kill(ctx, id, expect, wait)
	})
}

// Revoke implements [lease.Store].
func (s *Store) Revoke(ctx context.Context, id, attempt lease.ID, ttl time.Duration) lease.Result[lease.Session] {
	return change(ctx, s, Request{Op: OpRevoke, Session: id, Attempt: attempt}, func(ctx context.Context) lease.Result[lease.Session] {
		return s.inner.Revoke(ctx, id, attempt, ttl)
	})
}

// End implements [lease.Store].
func (s *Store) End(ctx context.Context, n lease.Session) lease.Result[lease.Session] {
	return change(ctx, s, Request{Op: OpEnd, Session: n.ID, Seq: n.Seq}, func(ctx context.Context) lease.Result[lease.Session] {
		return s.inner.End(ctx, n)
	})
}

// Session implements [lease.Store].
func (s *Store) Session(ctx context.Context, id lease.ID) (lease.Session, error) {
	return read(ctx, s, Request{Op: OpSession, Session: id}, func(ctx context.Context) (lease.Session, error) {
		return s.inner.Session(ctx, id)
	})
}

// PeekSession implements [lease.Store].
func (s *Store) PeekSession(ctx context.Context, id lease.ID) (lease.Session, error) {
	return read(ctx, s, Request{Op: OpPeekSession, Session: id}, func(ctx context.Context) (lease.Session, error) {
		return s.inner.PeekSession(ctx, id)
	})
}

// Claim implements [lease.Store].
func (s *Store) Claim(ctx context.Context, c lease.Claim) lease.Result[lease.Bucket] {
	c.Rows = slices.Clone(c.Rows)
	resources := make([]string, len(c.Rows))
	for i, r := range c.Rows {
		resources[i] = r.Resource
	}
	req := Request{Op: OpClaim, Session: c.Session, Bucket: c.Bucket, Resources: resources, Attempt: c.Attempt, Token: c.Next}
	return change(ctx, s, req, func(ctx context.Context) lease.Result[lease.Bucket] { return s.inner.Claim(ctx, c) })
}

// Release implements [lease.Store].
func (s *Store) Release(ctx context.Context, bucket string, grants []lease.Grant) lease.Result[lease.Bucket] {
	grants = slices.Clone(grants)
	req := Request{Op: OpRelease, Bucket: bucket}
	for _, g := range grants {
		req.Resources = append(req.Resources, g.Resource)
		req.Session, req.Attempt, req.Token = g.Session, g.Attempt, g.Token
	}
	return change(ctx, s, req, func(ctx context.Context) lease.Result[lease.Bucket] { return s.inner.Release(ctx, bucket, grants) })
}

// Grants implements [lease.Store].
func (s *Store) Grants(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	return read(ctx, s, Request{Op: OpGrants, Bucket: bucket, Resources: resources}, func(ctx context.Context) (lease.Bucket, error) {
		return s.inner.Grants(ctx, bucket, resources)
	})
}

// Peek implements [lease.Store].
func (s *Store) Peek(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	return read(ctx, s, Request{Op: OpPeek, Bucket: bucket, Resources: resources}, func(ctx context.Context) (lease.Bucket, error) {
		return s.inner.Peek(ctx, bucket, resources)
	})
}
