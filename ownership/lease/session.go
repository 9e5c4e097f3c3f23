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
		o.start(s)
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
// it, and so carries all its grants.
type session struct {
	id   ID
	o    *Ownership
	over chan struct{} // closed when it can prove nothing any more
	stop chan struct{} // closed by Close: no further renewal
	done chan struct{} // the renewing goroutine has returned

	mu     sync.Mutex
	seq    int64     // last one known to be applied
	sent   time.Time // when the request that proved it was first sent
	cause  error     // why it is over
	grants map[ID]map[string]*grant
	count  int
	proven chan struct{} // closed and replaced at each proof, and at the end
}

// openSession inserts a session. An id whose insert may still be under way is
// never used again (DESIGN 5, open): its row would come back to life under a
// process that has given it up.
func (o *Ownership) openSession(ctx context.Context) (*session, error) {
	var pace backoff
	for {
		s := &session{
			id: NewID(), o: o,
			over: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}), proven: make(chan struct{}),
			grants: map[ID]map[string]*grant{},
		}
		s.sent = o.clock.Now()
		rctx, cancel := o.request(ctx)
		res := o.store.Open(rctx, Session{ID: s.id, Owner: o.ownerText, TTL: o.timing.TTL, Found: true})
		cancel()
		if res.Outcome == ownership.Unknown {
			o.unknown("open", "", res.Err, ownership.Unknown)
			rctx, cancel := o.request(ctx)
			row, err := o.store.Session(rctx, s.id)
			cancel()
			if err == nil && row.Alive() && row.Seq == 0 {
				o.unknown("open", "", nil, ownership.Applied)
				res = Applied[Session]()
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
func (o *Ownership) start(s *session) {
	ownership.Each(o.hooks, func(h ownership.HookSession) {
		h.OnSession(ownership.SessionEvent{Session: s.id.String(), Owner: o.owner, Open: true})
	})
	o.goroutines.Add(2)
	go s.renew()
	go s.audit()
}

// deadlines returns what the last proof permits; ok is false once it is over.
func (s *session) deadlines() (safe, end time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.timing.Safe(s.sent), s.o.timing.End(s.sent), s.cause == nil
}

// proof returns a channel that is closed at the next proof, or at the end.
func (s *session) proof() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proven
}

func (s *session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// carry adds grants. A session that has ended meanwhile ends them.
func (s *session) carry(grants []*grant) {
	s.mu.Lock()
	for _, g := range grants {
		if s.grants[g.attempt] == nil {
			s.grants[g.attempt] = map[string]*grant{}
		}
		s.grants[g.attempt][g.resource] = g
		s.count++
	}
	cause := s.cause
	s.mu.Unlock()
	if cause != nil {
		for _, g := range grants {
			g.driver.Lose(cause)
		}
	}
}

// discard removes a grant that is gone.
func (s *session) discard(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.grants[g.attempt]; of[g.resource] == g {
		delete(of, g.resource)
		s.count--
		if len(of) == 0 {
			delete(s.grants, g.attempt)
		}
	}
}

// carried returns the grants, of one attempt or, with the zero ID, of all.
func (s *session) carried(attempt ID) []*grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*grant
	for a, of := range s.grants {
		if attempt.IsZero() || a == attempt {
			for _, g := range of {
				list = append(list, g)
			}
		}
	}
	return list
}

// prove records that the request first sent at the given instant kept the
// session alive, and tells every tenure.
func (s *session) prove(seq int64, sent time.Time) {
	s.mu.Lock()
	s.seq, s.sent = seq, sent
	safe, end := s.o.timing.Safe(sent), s.o.timing.End(sent)
	s.mu.Unlock()
	for _, g := range s.carried(ID{}) {
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
	for _, g := range s.carried(ID{}) {
		g.driver.Lose(cause)
	}
	close(s.over)
	s.signal()
	ownership.Each(s.o.hooks, func(h ownership.HookSession) {
		e := ownership.SessionEvent{Session: s.id.String(), Owner: s.o.owner, Cause: cause}
		if errors.Is(cause, ownership.ErrClosed) {
			e.Cause = nil
		}
		h.OnSession(e)
	})
}
