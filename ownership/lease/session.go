package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// sessionKeeper has the one session of the process, and opens a new one, under a
// fresh id, when it is needed.
type sessionKeeper struct {
	mu      sync.Mutex
	now     *session
	opening chan struct{} // closed when the attempt under way has ended; nil: none
}

// current returns the session that is open, or nil.
func (k *sessionKeeper) current() *session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// get returns the open session, or opens one.
func (k *sessionKeeper) get(ctx context.Context, o *Ownership) (*session, error) {
	for {
		k.mu.Lock()
		if k.now != nil {
			defer k.mu.Unlock()
			return k.now, nil
		}
		if wait := k.opening; wait != nil {
			k.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		done := make(chan struct{})
		k.opening = done
		k.mu.Unlock()

		s, err := o.openSession(ctx)
		k.mu.Lock()
		k.opening = nil
		if err == nil {
			k.now = s
		}
		k.mu.Unlock()
		close(done)
		if err != nil {
			return nil, err
		}
		s.start()
		return s, nil
	}
}

// drop forgets s, if it is still the current one.
func (k *sessionKeeper) drop(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == s {
		k.now = nil
	}
}

// session is the liveness of this process at the authority. One goroutine renews
// it, and so carries all its grants; another audits them.
type session struct {
	id   ID
	o    *Ownership
	over chan struct{} // closed when it can prove nothing any more
	stop chan struct{} // closed by Close: no further renewal
	done chan struct{} // the renewing goroutine has returned

	mu      sync.Mutex
	seq     int64     // last one known to be applied
	sent    time.Time // when the request that proved it was first sent
	cause   error     // why it is over; nil while it is not
	grants  map[*grant]struct{}
	claims  int           // under way: they may yet bring grants
	revoked []ID          // met while some were, for the grants that they bring
	proven  chan struct{} // closed and replaced at each proof, and at the end
}

// openSession inserts a session. An id whose insert may still be under way is
// never used again (DESIGN 5, open): its row would come back to life under a
// process that has given it up.
func (o *Ownership) openSession(ctx context.Context) (*session, error) {
	var pace backoff
	for {
		s := &session{
			id: NewID(), o: o, grants: map[*grant]struct{}{}, sent: o.clock.Now(),
			over: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}), proven: make(chan struct{}),
		}
		rctx, cancel := o.request(ctx)
		res := o.store.Open(rctx, Session{ID: s.id, Owner: o.ownerText, TTL: o.timing.TTL, Found: true})
		cancel()
		if res.Outcome == ownership.Unknown {
			d := doubt{o: o, op: "open"}
			d.arises(res.Err)
			rctx, cancel := o.request(ctx)
			row, err := o.store.Session(rctx, s.id)
			cancel()
			if err == nil && row.Alive() {
				res = Applied[Session]()
				d.ends(ownership.Applied)
			}
		}
		switch {
		case res.Outcome == ownership.Applied && o.clock.Now().Before(o.timing.Safe(s.sent)):
			return s, nil
		case res.Outcome == ownership.NotApplied && res.Err != nil:
			return nil, fmt.Errorf("opening a session: %w", res.Err)
		}
		if err := pace.pause(ctx, o.timing.RequestTimeout/2); err != nil {
			return nil, fmt.Errorf("opening a session: %w", errors.Join(err, res.Err))
		}
	}
}

// start lets a fresh session be renewed.
func (s *session) start() {
	s.tell(ownership.SessionEvent{Open: true})
	s.o.goroutines.Go(s.renew)
	s.o.goroutines.Go(s.audit)
}

// deadlines returns what the last proof permits, or why there will be no other.
func (s *session) deadlines() (safe, end time.Time, over error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.timing.Safe(s.sent), s.o.timing.End(s.sent), s.cause
}

// proof returns a channel that is closed at the next proof, or at the end.
func (s *session) proof() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proven
}

// ended returns why the session is over, or nil.
func (s *session) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *session) isOver() bool { return s.ended() != nil }

// claimBegins and claimEnds count the claims under way: a revocation may reach
// this process before the answer to the claim that won what it takes away.
func (s *session) claimBegins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims++
}

func (s *session) claimEnds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims--; s.claims == 0 {
		s.revoked = nil
	}
}

// carry adds grants. A session that has ended meanwhile ends them, as does a
// revocation that was faster.
func (s *session) carry(grants []*grant) {
	s.mu.Lock()
	for _, g := range grants {
		s.grants[g] = struct{}{}
	}
	cause, revoked := s.cause, s.revoked
	s.mu.Unlock()
	for _, g := range grants {
		for _, r := range revoked {
			if g.revokedBy(r) {
				g.driver.Lose(ownership.ErrRevoked)
			}
		}
		if cause != nil {
			g.driver.Lose(cause)
		}
	}
}

// discard removes a grant that is gone.
func (s *session) discard(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.grants, g)
}

// carried returns all grants that have not been given back.
func (s *session) carried() []*grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*grant, 0, len(s.grants))
	for g := range s.grants {
		list = append(list, g)
	}
	return list
}

// revoke ends the tenures that a revocation means, those of claims under way too.
func (s *session) revoke(r ID) {
	s.mu.Lock()
	if s.claims > 0 {
		s.revoked = append(s.revoked, r)
	}
	s.mu.Unlock()
	for _, g := range s.carried() {
		if g.revokedBy(r) {
			g.driver.Lose(ownership.ErrRevoked)
		}
	}
}

// prove records that the request first sent at the given instant kept the
// session alive, and tells every tenure.
func (s *session) prove(seq int64, sent time.Time) {
	s.mu.Lock()
	s.seq, s.sent = seq, sent
	s.mu.Unlock()
	safe, end := s.o.timing.Safe(sent), s.o.timing.End(sent)
	for _, g := range s.carried() {
		g.driver.Confirm(safe, end)
	}
	s.signal()
}

// signal wakes whoever waits for a proof, after the tenures know of it.
func (s *session) signal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.proven)
	s.proven = make(chan struct{})
}

// lose ends the session, and every tenure with it. Nothing is sent: a grant left
// in the table names a session that is, or will be, dead.
func (s *session) lose(cause error) {
	s.mu.Lock()
	if s.cause != nil {
		s.mu.Unlock()
		return
	}
	s.cause = cause
	s.mu.Unlock()
	s.o.sessions.drop(s)
	for _, g := range s.carried() {
		g.driver.Lose(cause)
	}
	close(s.over)
	s.signal()
	if cause == ownership.ErrClosed { // alone: an orderly Close
		cause = nil
	}
	s.tell(ownership.SessionEvent{Cause: cause})
}

func (s *session) tell(e ownership.SessionEvent) {
	e.Session, e.Owner = s.id.String(), s.o.owner
	ownership.Each(s.o.hooks, func(h ownership.HookSession) { h.OnSession(e) })
}
