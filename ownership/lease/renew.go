package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// renew keeps the session alive until it is refused, has gone without proof for
// too long, or is told to stop.
func (s *session) renew() {
	defer close(s.done)
	for {
		s.mu.Lock()
		next := s.sent.Add(s.o.timing.RenewEvery)
		s.mu.Unlock()
		if !s.sleepUntil(next) || !s.renewOnce() {
			return
		}
	}
}

// sleepUntil waits for an instant of the seam's clock; false: stop.
func (s *session) sleepUntil(t time.Time) bool {
	for {
		if !s.sleep(max(0, s.o.clock.Until(t))) {
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
// whether it lives.
func (s *session) renewOnce() bool {
	o := s.o
	r := &renewal{session: s, doubt: doubt{o: o, op: "renew"}}
	s.mu.Lock()
	r.target = s.seq + 1
	s.mu.Unlock()
	var pace backoff
	for {
		sent := o.clock.Now()
		if _, end, _ := s.deadlines(); !sent.Before(end) {
			s.lose(fmt.Errorf("%w: session %s was not renewed for %v", ownership.ErrExpired, s.id, o.timing.TTL+o.timing.Grace))
			return false
		}
		a := r.send(sent)
		if a.outcome == ownership.Applied {
			s.prove(r.target, r.first)
		}
		s.report(a, sent)
		switch {
		case a.outcome == ownership.Applied:
			r.doubt.ends(ownership.Applied)
			return !s.isOver()
		case a.refusal != nil:
			r.doubt.ends(ownership.NotApplied)
			s.lose(fmt.Errorf("%w: session %s %w", ownership.ErrRefused, s.id, a.refusal))
			return false
		case a.revoked != r.acknowledge:
			if r.acknowledge = a.revoked; !a.revoked.IsZero() { // zero: it has lapsed
				s.revoke(a.revoked)
			}
			continue // at once: the session goes on for the others
		}
		if !s.sleep(pace.next(o.timing.RenewEvery / 2)) {
			return false
		}
	}
}

// renewal is the way of one session to one seq. All its copies say the same, but
// for what they acknowledge, so at most one of them applies.
type renewal struct {
	session *session
	target  int64
	// first is when the earliest copy was sent that may be applied. Deadlines
	// count from there, for it may be that one which did (DESIGN 5, unknown
	// outcome). Zero: none is under way.
	first       time.Time
	acknowledge ID
	doubt       doubt
}

// answer is what one copy of a renewal came to.
type answer struct {
	outcome ownership.Outcome
	err     error
	refusal error // not nil: it can never apply, and the session is over
	revoked ID    // by an operator, as far as is known
}

// send sends a copy and, if its outcome is unknown, reads back. Both together take
// no longer than RenewEvery if the copy alone does not: Timing promises that two
// copies can be lost and the third is still in time. What the next copy is
// answered tells as much as a read.
func (r *renewal) send(sent time.Time) answer {
	s, o := r.session, r.session.o
	if r.first.IsZero() {
		r.first = sent
	}
	rctx, cancel := o.request(o.background)
	res := o.store.Renew(rctx, Session{ID: s.id, Owner: o.ownerText, Seq: r.target, TTL: o.timing.TTL, Found: true}, r.acknowledge)
	cancel()
	a := answer{outcome: res.Outcome, err: res.Err, revoked: r.acknowledge}
	switch {
	case res.Outcome == ownership.Applied:
		return a
	case res.Outcome == ownership.NotApplied && res.Err == nil:
		r.judge(res.Current, &a)
	case res.Outcome == ownership.NotApplied:
		if r.first.Equal(sent) {
			r.first = time.Time{} // no copy is under way: the next is the first
		}
	default:
		r.doubt.arises(res.Err)
		left := min(o.timing.RequestTimeout, o.clock.Until(sent.Add(o.timing.RenewEvery)))
		if left <= 0 {
			break
		}
		rctx, cancel := context.WithTimeout(o.background, left)
		row, err := o.store.Session(rctx, s.id)
		cancel()
		if err == nil {
			r.judge(row, &a)
		}
	}
	return a
}

// judge reads the outcome from the session's row.
func (r *renewal) judge(row Session, a *answer) {
	switch {
	case row.Dead:
		a.refusal = errors.New("was declared dead")
	case !row.Found:
		a.refusal = errors.New("has expired")
	case row.Seq == r.target:
		*a = answer{outcome: ownership.Applied}
	case row.Seq != r.target-1:
		a.refusal = fmt.Errorf("stands at renewal %d, which this process did not make", row.Seq)
	default:
		a.revoked = row.Revoked
	}
}

func (s *session) report(a answer, sent time.Time) {
	o := s.o
	now := o.clock.Now()
	s.mu.Lock()
	e := ownership.RenewalEvent{
		Session: s.id.String(), Owner: o.owner, Outcome: a.outcome, Latency: now.Sub(sent),
		Remaining: o.timing.Safe(s.sent).Sub(now), Tenures: len(s.grants), Err: a.err,
	}
	s.mu.Unlock()
	ownership.Each(o.hooks, func(h ownership.HookRenewal) { h.OnRenewal(e) })
}
