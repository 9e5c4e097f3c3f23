package lease_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// DESIGN 5, takeover: the session is read, declared dead, and only then is its
// grant claimed. The certificate says dead and has seq -1, without which a renewal
// that a coordinator began before the expiry brought a session back.
func TestTakeoverWritesACertificateFirst(t *testing.T) {
	scenario(t, func(w *world) {
		q, p := w.process("q"), w.process("p")
		old := q.acquire("a")
		id := w.row("a").Session
		q.crash()
		w.pass(ttl)
		var ops []memory.Op
		p.view.Observe(func(r memory.Request) {
			if r.Answered && (r.Op == memory.OpSession || r.Op == memory.OpKill || r.Op == memory.OpClaim) {
				ops = append(ops, r.Op)
			}
		})
		fresh := p.try("a")
		if got := fmt.Sprint(ops); got != "[session kill claim]" {
			t.Errorf("the takeover sent %s", got)
		}
		if s := w.session(id); !s.Dead || s.Seq != -1 {
			t.Errorf("after the takeover the old session is %+v, want dead with seq -1", s)
		}
		if fresh.Token() <= old.Token() || old.State() == ownership.Held {
			t.Errorf("token %d after %d, the old tenure is %s", fresh.Token(), old.Token(), old.State())
		}
	})
}

// DESIGN 5, takeover: servers' clocks differ, so "expired" may be one server's
// opinion. A certificate that is refused because the session lives means held.
func TestSessionThatOnlyLooksExpiredIsNotOverrun(t *testing.T) {
	scenario(t, func(w *world) {
		q := w.process("q")
		old := q.acquire("a")
		p := w.alter("p", func(a *altered) {
			a.session = func(_ context.Context, id lease.ID) (lease.Session, error) { return lease.Session{ID: id}, nil }
		})
		if h := p.refused("a"); h.Token != old.Token() || h.Owner != q.Owner() {
			t.Errorf("held by %v, want %v", h, q.Owner())
		}
		w.pass(renewal)
		w.wantState(old, ownership.Held)
	})
}

// DESIGN 5, takeover: "One such write per dead process, not per resource", however
// many wait for it at once.
func TestOneCertificateForADeadProcess(t *testing.T) {
	scenario(t, func(w *world) {
		q, p := w.process("q"), w.process("p")
		names := numbered("r", 60)
		if _, err := q.TryAcquireMany(w.within(time.Minute), names); err != nil {
			t.Fatal(err)
		}
		q.crash()
		w.pass(ttl)
		p.view.Inject(memory.Fault{Op: memory.OpKill, Mode: memory.SlowAnswer, Delay: timeout / 2})
		got, err := p.TryAcquireMany(w.within(time.Minute), names)
		if len(got) != len(names) || err != nil {
			t.Fatalf("%d taken over: %v", len(got), err)
		}
		if kills, reads := p.count(memory.OpKill), p.count(memory.OpSession); kills != 1 || reads != 1 {
			t.Errorf("%d certificates after %d reads of the session, want 1 and 1", kills, reads)
		}
	})
}

// Whoever waits for another's inquiry goes on by itself when that one is given up.
func TestInquiryGivenUpIsTakenOver(t *testing.T) {
	scenario(t, func(w *world) {
		q, p := w.process("q"), w.process("p")
		q.acquire("a")
		q.acquire("b")
		q.crash()
		w.pass(ttl)
		p.view.Inject(memory.Fault{Op: memory.OpSession, Mode: memory.Hang})
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _, _ = p.Acquire(ctx, "a") }()
		time.AfterFunc(timeout/2, cancel)
		time.Sleep(timeout / 4) // b's inquiry finds a's under way
		p.try("b")
	})
}

// DESIGN 5: "dead is looked at first", by claimants and by the owner.
func TestDeadIsLookedAtFirst(t *testing.T) {
	scenario(t, func(w *world) {
		var dead atomic.Bool
		q := w.alter("q", func(a *altered) {
			next := a.Store
			a.renew = func(ctx context.Context, s lease.Session, ack lease.ID) lease.Result[lease.Session] {
				if dead.Load() {
					return lease.Unknown[lease.Session](memory.ErrInjected)
				}
				return next.Renew(ctx, s, ack)
			}
			a.session = func(ctx context.Context, id lease.ID) (lease.Session, error) {
				s, err := next.Session(ctx, id)
				if s.Dead = dead.Load(); s.Dead {
					s.Seq++ // as if the renewal had applied after all
				}
				return s, err
			}
		})
		tenure := q.acquire("a")
		dead.Store(true)
		w.pass(renewal)
		w.wantLost(tenure, ownership.ErrRefused)

		p := w.alter("p", func(a *altered) {
			next := a.Store
			a.session = func(ctx context.Context, id lease.ID) (lease.Session, error) {
				s, err := next.Session(ctx, id)
				s.Dead = true
				return s, err
			}
		})
		p.try("a")
	})
}

// DESIGN 5, revocation by force: the certificate carries the lease of an owner that
// does not know yet, and every claimant waits that out, from its own first sight.
func TestForcedCertificateIsWaitedOut(t *testing.T) {
	scenario(t, func(w *world) {
		q, p, operator := w.process("q"), w.process("p"), w.process("operator")
		old := q.acquire("a")
		if err := operator.RevokeForce(w.within(time.Minute), "a"); err != nil {
			t.Fatal(err)
		}
		killed := w.now()
		q.crash() // so it goes on in good faith
		if h := p.refused("a"); h.Owner != q.Owner() {
			t.Errorf("held by %v", h)
		}
		got := make(chan *ownership.Tenure)
		go func() { got <- p.acquire("a") }()
		w.pass(usable)
		if old.State() == ownership.Held {
			t.Error("the old tenure is held past its safe deadline")
		}
		fresh := <-got
		if waited := w.now() - killed; waited < ttl+skew || waited > ttl+2*skew {
			t.Errorf("granted %v after the certificate, want %v: TTL and skew", waited, ttl+skew)
		}
		w.wantState(fresh, ownership.Held)
	})
}

// A refusal may leave out what nobody decides by, the id among it. What a
// certificate asks to wait must not be mixed up with another session's.
func TestCertificatesAreToldApart(t *testing.T) {
	scenario(t, func(w *world) {
		first, second, operator := w.process("first"), w.process("second"), w.process("operator")
		first.acquire("a")
		first.crash()
		w.pass(ttl)
		w.release(operator.acquire("a"))
		w.stray("a", w.deadSession())
		second.acquire("b")
		if err := operator.RevokeForce(w.within(time.Minute), "b"); err != nil {
			t.Fatal(err)
		}
		second.crash()
		p := w.alter("p", func(a *altered) {
			next := a.Store
			a.session = func(_ context.Context, id lease.ID) (lease.Session, error) { return lease.Session{ID: id}, nil }
			a.kill = func(ctx context.Context, id lease.ID, expect *int64, wait time.Duration) lease.Result[lease.Session] {
				res := next.Kill(ctx, id, expect, wait)
				res.Current.ID, res.Current.Owner = lease.ID{}, ""
				return res
			}
		})
		p.try("a")
		if h := p.refused("b"); h.Owner != second.Owner() {
			t.Errorf("held by %v", h)
		}
	})
}

// deadSession makes a session with an ordinary certificate.
func (w *world) deadSession() lease.ID {
	w.Helper()
	id := lease.NewID()
	if res := w.store.Kill(context.Background(), id, nil, 0); res.Outcome != ownership.Applied {
		w.Fatalf("%+v", res)
	}
	return id
}

// DESIGN 5, optional lock-delay: after a crash nobody is let in for that long; a
// release is no crash.
func TestLockDelay(t *testing.T) {
	const delay = 30 * time.Second
	scenario(t, func(w *world) {
		q := w.process("q")
		p := w.process("p", func(c *lease.Config) { c.LockDelay = delay })
		w.release(q.acquire("a"))
		began := w.now()
		tenure := p.acquire("a")
		if waited := w.now() - began; waited > poll {
			t.Errorf("after a release the resource took %v to get", waited)
		}
		w.release(tenure)

		q.acquire("a")
		q.crash()
		w.pass(ttl)
		began = w.now()
		p.refused("a")
		p.acquire("a")
		if waited := w.now() - began; waited < delay || waited > delay+time.Second {
			t.Errorf("after a crash the resource was free for %v, want %v", waited, delay)
		}
	})
}

// A claim replaces exactly the row that was judged: whoever came since is not
// overrun (DESIGN 5, claim).
func TestClaimReplacesTheJudgedRowOnly(t *testing.T) {
	for name, opts := range stores {
		t.Run(name, func(t *testing.T) {
			scenarioOn(t, opts, func(w *world) {
				q, p, faster := w.process("q"), w.process("p"), w.process("faster")
				q.acquire("a")
				q.crash()
				w.pass(ttl)
				var rival *ownership.Tenure
				var once atomic.Bool
				p.view.Observe(func(r memory.Request) {
					if r.Op == memory.OpClaim && !r.Answered && once.CompareAndSwap(false, true) {
						rival = faster.try("a")
					}
				})
				if h := p.refused("a"); h.Owner != faster.Owner() || h.Token != rival.Token() {
					t.Errorf("held by %v, want %v", h, faster.Owner())
				}
				w.wantState(rival, ownership.Held)
			})
		})
	}
}

// DESIGN 8.3, 8.5, 8.6 and etcd#22082: an owner that slept through its lease finds
// out by itself, and nothing that it still sends touches the next tenure.
func TestOwnerThatWakesUpLate(t *testing.T) {
	scenario(t, func(w *world) {
		q, p := w.process("q"), w.process("p")
		old := q.acquire("a")
		work := old.Context()
		q.view.Inject(memory.Fault{Op: memory.OpRenew, Mode: memory.Late}) // under way while q sleeps
		w.pass(renewal)
		q.crash()
		w.pass(usable)
		if w.wantState(old, ownership.Suspect); work.Err() == nil {
			t.Fatal("in doubt, and the work goes on")
		}
		fresh := p.acquire("a")
		q.view.Heal()
		q.view.Deliver()
		w.pass(2 * timeout)
		w.wantLost(old, ownership.ErrRefused)
		if err := old.Release(w.within(time.Minute)); err != nil {
			t.Errorf("a release after the loss: %v", err)
		}
		w.pass(renewal)
		w.wantState(fresh, ownership.Held)
		if g := w.row("a"); g.Token != fresh.Token() || g.Owner != p.Owner().String() {
			t.Errorf("the row is %+v", g)
		}
	})
}

// numbered returns n names.
func numbered(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%04d", prefix, i)
	}
	return list
}
