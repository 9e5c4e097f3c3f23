package lease_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// DESIGN 5, revocation: the operator writes into the session, the owner's next
// renewal is refused by it, that tenure ends and is released, the cell is cleared;
// the session goes on, and with it every other tenure, also one of the same claim.
func TestRevoke(t *testing.T) {
	scenarioOn(t, memory.StoreOptions{Buckets: 1}, func(w *world) {
		p, operator := w.process("p"), w.process("operator")
		got, err := p.TryAcquireMany(w.within(time.Minute), []string{"a", "b"})
		if err != nil || w.row("a").Attempt != w.row("b").Attempt {
			t.Fatal(got, err)
		}
		id := w.row("a").Session
		if err := operator.Revoke(w.within(time.Minute), "a"); err != nil {
			t.Fatal(err)
		}
		w.wantState(got[0], ownership.Held) // until the renewal
		if changed := operator.count(memory.OpRelease, memory.OpClaim, memory.OpKill); changed > 0 || w.row("a").Free() {
			t.Error("the operator touched the grant of a living session")
		}
		w.pass(renewal)
		w.wantLost(got[0], ownership.ErrRevoked)
		w.wantState(got[1], ownership.Held)
		if s := w.session(id); !s.Revoked.IsZero() || s.Seq != 1 {
			t.Errorf("the session is %+v, want renewal 1 and the cell cleared", s)
		}
		w.release(got[0])
		operator.try("a")
	})
}

// A second revocation of one session waits until the first was met.
func TestRevokeTwo(t *testing.T) {
	scenario(t, func(w *world) {
		p, operator := w.process("p"), w.process("operator")
		a, b := p.acquire("a"), p.acquire("b")
		for _, r := range []string{"a", "b"} {
			go func() {
				if err := operator.Revoke(w.within(time.Minute), r); err != nil {
					t.Error(err)
				}
			}()
		}
		w.pass(3 * renewal)
		w.wantLost(a, ownership.ErrRevoked)
		w.wantLost(b, ownership.ErrRevoked)
	})
}

// A revocation names one grant: one that comes late, when the same process has the
// resource again, revokes nothing (docs/decisions/0004).
func TestRevocationThatComesLate(t *testing.T) {
	scenario(t, func(w *world) {
		p, operator := w.process("p"), w.process("operator")
		w.release(p.acquire("a"))
		old := p.acquire("a")
		operator.view.Inject(memory.Fault{Op: memory.OpRevoke, Mode: memory.Late})
		go func() { _ = operator.Revoke(w.within(poll/2), "a") }()
		w.pass(poll)
		w.release(old)
		next := p.acquire("a")
		if n := operator.view.Deliver(); n != 1 {
			t.Fatalf("%d were late", n)
		}
		w.pass(2 * renewal)
		w.wantState(next, ownership.Held)
		if s := w.session(w.row("a").Session); !s.Revoked.IsZero() {
			t.Errorf("the cell was not cleared: %+v", s)
		}
	})
}

// An operator may write an attempt by hand: it ends everything that it won.
func TestRevokeByHand(t *testing.T) {
	scenarioOn(t, memory.StoreOptions{Buckets: 1}, func(w *world) {
		p := w.process("p")
		got, _ := p.TryAcquireMany(w.within(time.Minute), []string{"a", "b"})
		other := p.acquire("c")
		g := w.row("a")
		w.store.Revoke(context.Background(), g.Session, g.Attempt, ttl)
		w.pass(renewal)
		for _, tenure := range got {
			w.wantLost(tenure, ownership.ErrRevoked)
		}
		w.wantState(other, ownership.Held)
	})
}

// The revocation of a grant may reach its owner before the answer to the claim that
// won it. It is not lost.
func TestRevocationOvertakesTheGrant(t *testing.T) {
	scenario(t, func(w *world) {
		p, operator := w.process("p"), w.process("operator")
		other := p.acquire("b")
		w.pass(renewal - timeout/2)
		p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: memory.SlowAnswer, Delay: timeout - poll})
		time.AfterFunc(poll, func() {
			if err := operator.Revoke(w.within(time.Minute), "a"); err != nil {
				t.Error(err)
			}
		})
		if got, err := p.TryAcquire(context.Background(), "a"); got != nil || !errors.Is(err, ownership.ErrRevoked) {
			t.Errorf("TryAcquire: %v, %v", got, err)
		}
		w.pass(renewal)
		w.noGhost("a")
		w.wantState(other, ownership.Held)
	})
}

// The cell can lapse between the refusal and the copy that acknowledges it. Nothing
// is revoked then.
func TestRevocationThatLapses(t *testing.T) {
	scenario(t, func(w *world) {
		var refused atomic.Int64
		p := w.alter("p", func(a *altered) {
			next := a.Store
			a.renew = func(ctx context.Context, s lease.Session, ack lease.ID) lease.Result[lease.Session] {
				switch refused.Add(1) {
				case 1:
					return lease.Refused(lease.Session{ID: s.ID, Owner: s.Owner, Seq: s.Seq - 1, TTL: s.TTL, Found: true, Revoked: lease.NewID()})
				case 2:
					if ack.IsZero() {
						t.Error("the revocation is not acknowledged")
					}
					return lease.Refused(lease.Session{ID: s.ID, Owner: s.Owner, Seq: s.Seq - 1, TTL: s.TTL, Found: true})
				}
				return next.Renew(ctx, s, ack)
			}
		})
		a, b := p.acquire("a"), p.acquire("b")
		w.pass(2 * ttl)
		w.wantState(a, ownership.Held)
		w.wantState(b, ownership.Held)
		if n := refused.Load(); n < 3 {
			t.Fatalf("%d renewals", n)
		}
	})
}

// DESIGN 7: whether the revocation was written is unknown, and called so, however
// the reads fare that come after it.
func TestRevokeUnknown(t *testing.T) {
	for name, revoke := range map[string]func(p *process, ctx context.Context) error{
		"Revoke":      func(p *process, ctx context.Context) error { return p.Revoke(ctx, "a") },
		"RevokeForce": func(p *process, ctx context.Context) error { return p.RevokeForce(ctx, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				p, operator := w.process("p"), w.process("operator")
				p.acquire("a")
				operator.view.Observe(func(r memory.Request) {
					if r.Answered && (r.Op == memory.OpRevoke || r.Op == memory.OpKill) {
						operator.view.Inject(memory.Fault{Mode: memory.Lose, Times: -1})
					}
				})
				operator.view.Inject(memory.Fault{Op: memory.OpRevoke, Mode: memory.Lose})
				operator.view.Inject(memory.Fault{Op: memory.OpKill, Mode: memory.Lose})
				err := revoke(operator, w.within(3*timeout))
				if !errors.Is(err, ownership.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v; want ErrUnknown", err)
				}
			})
			scenario(t, func(w *world) { // and one that was never sent is not unknown
				p, operator := w.process("p"), w.process("operator")
				p.acquire("a")
				operator.view.Inject(memory.Fault{Op: memory.OpRevoke, Mode: memory.Reject, Times: -1})
				operator.view.Inject(memory.Fault{Op: memory.OpKill, Mode: memory.Reject, Times: -1})
				if err := revoke(operator, w.within(timeout)); err == nil || errors.Is(err, ownership.ErrUnknown) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// What nobody holds needs no revocation: vacant, or of a session that is gone.
func TestRevokeOfWhatNobodyHolds(t *testing.T) {
	scenario(t, func(w *world) {
		p, operator := w.process("p"), w.process("operator")
		for _, revoke := range []func(context.Context, string) error{operator.Revoke, operator.RevokeForce} {
			if err := revoke(w.within(time.Minute), "nobody"); err != nil {
				t.Error(err)
			}
			if err := revoke(w.within(time.Minute), ""); !errors.Is(err, ownership.ErrInvalid) {
				t.Error(err)
			}
		}
		p.acquire("a")
		p.crash()
		w.pass(ttl)
		if err := operator.Revoke(w.within(time.Minute), "a"); err != nil {
			t.Error(err)
		}
		if n := operator.count(memory.OpRevoke, memory.OpKill); n > 0 {
			t.Errorf("%d changes were sent", n)
		}
	})
}

// DESIGN 5: "By force: a certificate": every tenure of the session ends at its next
// renewal, and a renewal in between does not save it.
func TestRevokeByForce(t *testing.T) {
	scenario(t, func(w *world) {
		p, operator := w.process("p"), w.process("operator")
		a, b := p.acquire("a"), p.acquire("b")
		w.pass(renewal - timeout/2)
		operator.view.Inject(memory.Fault{Op: memory.OpKill, Mode: memory.Slow, Delay: timeout - poll}) // p renews first
		if err := operator.RevokeForce(w.within(time.Minute), "a"); err != nil {
			t.Fatal(err)
		}
		if n := operator.count(memory.OpKill); n != 2 {
			t.Errorf("%d certificates were tried, want a second one with the new seq", n)
		}
		w.pass(renewal)
		w.wantLost(a, ownership.ErrRefused)
		w.wantLost(b, ownership.ErrRefused)
	})
}
