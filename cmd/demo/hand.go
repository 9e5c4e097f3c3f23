package main

import (
	"context"
	"sync"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// memo remembers what the lease code sent last, so that a worker can send it by
// hand once more: a lease code that has learned of its loss does not.
type memo struct {
	lease.Store

	mu      sync.Mutex
	session lease.Session // as the last applied request left it
	claim   lease.Claim
}

func (m *memo) Open(ctx context.Context, s lease.Session) lease.Result[lease.Session] {
	r := m.Store.Open(ctx, s)
	m.note(r.Outcome, func() { m.session = s })
	return r
}

func (m *memo) Renew(ctx context.Context, s lease.Session, acknowledge lease.ID) lease.Result[lease.Session] {
	r := m.Store.Renew(ctx, s, acknowledge)
	m.note(r.Outcome, func() { m.session = s })
	return r
}

func (m *memo) Claim(ctx context.Context, c lease.Claim) lease.Result[lease.Bucket] {
	r := m.Store.Claim(ctx, c)
	m.note(r.Outcome, func() { m.claim = c })
	return r
}

// note keeps what was, or may have been, applied.
func (m *memo) note(o ownership.Outcome, keep func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o != ownership.NotApplied {
		keep()
	}
}

func (m *memo) last() (lease.Session, lease.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session, m.claim
}

// renewByHand sends the renewal that was due when the worker was frozen.
func (w *worker) renewByHand(ctx context.Context) {
	s, _ := w.memo.last()
	s.Seq++
	outcome, err := settle(ctx, w.timing, func(ctx context.Context) (ownership.Outcome, error) {
		r := w.store.Renew(ctx, s, lease.ID{})
		if r.Outcome == ownership.NotApplied && r.Err == nil && r.Current.Alive() && r.Current.Seq == s.Seq {
			r.Outcome = ownership.Applied // by an earlier copy of it
		}
		return r.Outcome, r.Err
	})
	w.report(sent(event{What: evRenewed}, outcome, err))
}

// freeByHand sends the release of the grant.
func (w *worker) freeByHand(ctx context.Context) {
	_, c := w.memo.last()
	grant := lease.Grant{Resource: resource, Found: true, Token: c.Next, Session: c.Session, Attempt: c.Attempt, Owner: c.Owner}
	outcome, err := settle(ctx, w.timing, func(ctx context.Context) (ownership.Outcome, error) {
		r := w.store.Release(ctx, c.Bucket, []lease.Grant{grant})
		return r.Outcome, r.Err
	})
	w.report(sent(event{What: evFreed}, outcome, err))
}

// settle repeats a request until the authority has said yes or no.
func settle(ctx context.Context, t ownership.Timing, send func(context.Context) (ownership.Outcome, error)) (ownership.Outcome, error) {
	for {
		rctx, cancel := context.WithTimeout(ctx, t.RequestTimeout)
		outcome, err := send(rctx)
		cancel()
		if outcome == ownership.Applied || outcome == ownership.NotApplied && err == nil || ctx.Err() != nil {
			return outcome, err
		}
		select {
		case <-time.After(t.RequestTimeout / 4):
		case <-ctx.Done():
		}
	}
}

func sent(e event, o ownership.Outcome, err error) event {
	e.Outcome = o.String()
	if err != nil {
		e.Error = err.Error()
	}
	return e
}
