package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// renew keeps the session alive until it is refused, has gone without proof for
// too long, or is told to stop.
func (s *session) renew() {
	o := s.o
	defer o.goroutines.Done()
	defer close(s.done)
	for {
		s.mu.Lock()
		next := s.sent.Add(o.timing.RenewEvery)
		s.mu.Unlock()
		if !s.sleepUntil(next) {
			return
		}
		if !s.renewOnce() {
			return
		}
	}
}

// sleepUntil waits for an instant of the seam's clock; false: stop.
func (s *session) sleepUntil(t time.Time) bool {
	for {
		wait := s.o.clock.Until(t)
		if wait <= 0 {
			wait = 0
		}
		if !s.sleep(wait) {
			return false
		}
		if !s.o.clock.Now().Before(t) {
			return true
		}
	}
}

func (s *session) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stop:
		return false
	case <-s.over:
		return false
	case <-s.o.background.Done():
		return false
	case <-timer.C:
		select { // both ready: stopping wins
		case <-s.stop:
			return false
		default:
			return true
		}
	}
}

// renewOnce moves the session to its next seq, whatever it takes, and reports
// whether it lives. The deadline always counts from the first send of that seq,
// for that is the copy which may have been applied (DESIGN 5, unknown outcome).
func (s *session) renewOnce() bool {
	o := s.o
	s.mu.Lock()
	target := s.seq + 1
	s.mu.Unlock()
	var (
		first       time.Time // send of the earliest copy that may be applied
		acknowledge ID
		pace        backoff
	)
	for {
		sent := o.clock.Now()
		if _, end, _ := s.deadlines(); !sent.Before(end) {
			s.lose(fmt.Errorf("%w: session %s was not renewed for %v", ownership.ErrExpired, s.id, o.timing.TTL+o.timing.Grace))
			return false
		}
		if first.IsZero() {
			first = sent
		}
		rctx, cancel := o.request(o.background)
		res := o.store.Renew(rctx, Session{ID: s.id, Owner: o.ownerText, Seq: target, TTL: o.timing.TTL, Found: true}, acknowledge)
		cancel()
		row := res.Current
		known := res.Outcome == ownership.NotApplied && res.Err == nil
		if res.Outcome == ownership.Unknown {
			o.unknown("renew", "", res.Err, ownership.Unknown)
			rctx, cancel := o.request(o.background)
			var err error
			row, err = o.store.Session(rctx, s.id)
			cancel()
			known = err == nil
		}
		proven := res.Outcome == ownership.Applied || known && row.Alive() && row.Seq == target
		if proven {
			s.prove(target, first)
			s.report(ownership.Applied, sent, nil)
			if res.Outcome == ownership.Unknown {
				o.unknown("renew", "", nil, ownership.Applied)
			}
			return !s.isOver()
		}
		s.report(res.Outcome, sent, res.Err)
		switch {
		case !known:
			if res.Outcome == ownership.NotApplied && first.Equal(sent) {
				first = time.Time{} // no copy is under way: the next send is the first
			}
		case row.Dead:
			s.lose(fmt.Errorf("%w: session %s was declared dead", ownership.ErrRefused, s.id))
			return false
		case !row.Found:
			s.lose(fmt.Errorf("%w: session %s has expired", ownership.ErrRefused, s.id))
			return false
		case row.Seq != target-1:
			s.lose(fmt.Errorf("%w: session %s stands at renewal %d, which this process did not make", ownership.ErrRefused, s.id, row.Seq))
			return false
		case row.Revoked != acknowledge:
			acknowledge = row.Revoked
			for _, g := range s.carried(acknowledge) {
				g.driver.Lose(ownership.ErrRevoked)
			}
			continue // at once: the session goes on for the others
		}
		if !s.sleep(pace.next(o.timing.RenewEvery / 2)) {
			return false
		}
	}
}

func (s *session) report(outcome ownership.Outcome, sent time.Time, err error) {
	o := s.o
	now := o.clock.Now()
	s.mu.Lock()
	e := ownership.RenewalEvent{
		Session: s.id.String(), Owner: o.owner, Outcome: outcome, Latency: now.Sub(sent),
		Remaining: o.timing.Safe(s.sent).Sub(now), Tenures: s.count, Err: err,
	}
	s.mu.Unlock()
	ownership.Each(o.hooks, func(h ownership.HookRenewal) { h.OnRenewal(e) })
}

// audit looks at every row of ours now and then. Only the session that a row
// names may change it, so a row that says otherwise was edited by hand, truncated
// or restored: that tenure is lost.
func (s *session) audit() {
	o := s.o
	defer o.goroutines.Done()
	for {
		grants := s.carried(ID{})
		if len(grants) == 0 {
			if !s.sleep(o.cfg.AuditEvery) {
				return
			}
			continue
		}
		for _, g := range grants {
			if !s.sleep(o.cfg.AuditEvery / time.Duration(len(grants))) {
				return
			}
			if g.releasing() {
				continue
			}
			s.auditOne(o.background, g)
		}
	}
}

func (s *session) auditOne(ctx context.Context, g *grant) {
	o := s.o
	differs := func(read func(context.Context, string, []string) (Bucket, error)) (Grant, bool) {
		rctx, cancel := o.request(ctx)
		defer cancel()
		state, err := read(rctx, g.bucket, []string{g.resource})
		if err != nil {
			return Grant{}, false
		}
		row, known := state.Row(g.resource)
		return row, known && row.Attempt != g.attempt
	}
	if _, bad := differs(o.store.Peek); !bad {
		return
	}
	row, bad := differs(o.store.Grants) // the plain read may have been old
	if !bad || g.releasing() {
		return
	}
	g.driver.Lose(fmt.Errorf("%w: the row of %s names attempt %s of %q, though only its own session may change it",
		ownership.ErrRefused, g.resource, row.Attempt, row.Owner))
}
