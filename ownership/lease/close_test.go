package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/memory"
)

// DESIGN 2.6, 5: not held → cancel → drain → release by attempt → the session is
// deleted, last and only then. While the work drains the session is renewed and
// nobody is let in; afterwards nobody has to wait.
func TestCloseInOrder(t *testing.T) {
	scenario(t, func(w *world) {
		p, q := w.process("p"), w.process("q")
		a, b := p.acquire("a"), p.acquire("b")
		id := w.row("a").Session
		sent := p.record()
		go func() {
			<-a.Context().Done()
			if !errors.Is(context.Cause(a.Context()), ownership.ErrClosed) {
				t.Errorf("the work was cancelled because of %v", context.Cause(a.Context()))
			}
			w.wantState(a, ownership.Released)
			w.pass(3 * renewal)
			if q.refused("a"); !w.session(id).Alive() {
				t.Error("the session was not kept while the work drained")
			}
			_ = a.Release(context.Background())
		}()
		go func() {
			<-b.Context().Done()
			_ = b.Release(context.Background())
		}()
		if err := p.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		ops := sent.of(memory.OpRenew, memory.OpRelease, memory.OpEnd)
		var order []string
		for _, r := range ops {
			order = append(order, string(r.Op)+r.Bucket)
		}
		if got := fmt.Sprint(order); got != "[releaseb renew renew renew releasea end]" {
			t.Errorf("Close sent %s", got)
		}
		if w.session(id).Found {
			t.Error("the session was not deleted")
		}
		q.try("a")
	})
}

// DESIGN 5: "otherwise it stops renewing and lets it expire": the work that does not
// end in time keeps what it was told.
func TestCloseOfWorkThatGoesOn(t *testing.T) {
	scenario(t, func(w *world) {
		p, q := w.process("p"), w.process("q")
		stuck := p.acquire("a")
		other := p.acquire("b")
		id := w.row("a").Session
		w.pass(renewal)
		told := stuck.Deadline()
		time.AfterFunc(time.Second, func() { _ = other.Release(context.Background()) })
		err := p.Close(w.within(3 * time.Second))
		if !errors.Is(err, ownership.ErrDraining) || errors.Is(err, ownership.ErrUnknown) {
			t.Errorf("Close: %v; want ErrDraining", err)
		}
		if s := w.session(id); !s.Alive() || w.row("a").Free() || !w.row("b").Free() {
			t.Errorf("the session is %+v, a is %+v, b %+v", s, w.row("a"), w.row("b"))
		}
		renewals := p.count(memory.OpRenew)
		if err := stuck.Release(w.within(time.Minute)); !errors.Is(err, ownership.ErrClosed) || !errors.Is(err, ownership.ErrUnknown) {
			t.Errorf("a release after Close: %v", err)
		}
		q.acquire("a")
		if time.Now().Before(told) {
			t.Errorf("q was let in %v before the deadline that the work was told", time.Until(told))
		}
		if p.count(memory.OpRenew) != renewals || p.count(memory.OpRelease) != 1 {
			t.Error("the process went on after Close")
		}
	})
}

// Close is bounded by Timing.Drain, whatever its context; but work that was told a
// deadline is over when that has passed.
func TestCloseWaitsForTheDeadlineAtMost(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		p.acquire("a") // and forgotten
		began := w.now()
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := w.now() - began; took != usable {
			t.Errorf("Close took %v, want %v", took, usable)
		}
		if !w.row("a").Free() {
			t.Errorf("the row is %+v", w.row("a"))
		}
	})
}

// Whatever the store does, and whatever the process is doing, Close returns when
// its context ends, every call of a user returns, and no goroutine is left: the
// bubble does not end otherwise (sarama#3491, franz-go#1500).
func TestCloseAtAnyTime(t *testing.T) {
	ctx := context.Background()
	doing := map[string]func(w *world, p, q *process){
		"Nothing":  func(*world, *process, *process) {},
		"Opening":  func(_ *world, p, _ *process) { _, _ = p.Acquire(ctx, "x") },
		"Trying":   func(w *world, p, _ *process) { _, _ = p.TryAcquire(ctx, "x") },
		"Many":     func(w *world, p, _ *process) { _, _ = p.TryAcquireMany(ctx, numbered("r", 50)) },
		"Waiting":  func(w *world, p, _ *process) { _, _ = p.Acquire(ctx, "held") },
		"Queueing": func(w *world, p, _ *process) { _, _ = p.Acquire(ctx, "mine") },
		"Revoking": func(w *world, p, _ *process) { _ = p.Revoke(ctx, "held") },
		"Forcing":  func(w *world, p, _ *process) { _ = p.RevokeForce(ctx, "held") },
		"Looking":  func(w *world, p, _ *process) { _, _ = p.Holder(ctx, "held") },
		"Watching": func(w *world, p, _ *process) {
			var last error
			for _, last = range p.Watch(ctx, "held") {
			}
			if !errors.Is(last, ownership.ErrClosed) {
				w.Errorf("the watch ended with %v", last)
			}
		},
		"Releasing": func(w *world, p, _ *process) {
			if tenure, err := p.Acquire(ctx, "x"); err == nil {
				_ = tenure.Release(ctx)
			}
		},
		"Forgetting": func(_ *world, p, _ *process) { _, _ = p.Acquire(ctx, "x") },
		"Abandoning": func(w *world, p, _ *process) {
			ctx, cancel := context.WithTimeout(ctx, poll)
			defer cancel()
			_, _ = p.Acquire(ctx, "x")
		},
	}
	states := map[string]func(p *process){
		"Sound":   func(*process) {},
		"Cut":     func(p *process) { p.view.Cut() },
		"Rejects": func(p *process) { p.view.Inject(memory.Fault{Mode: memory.Reject, Times: -1}) },
		"Slow":    func(p *process) { p.view.Inject(memory.Fault{Mode: memory.Slow, Delay: timeout / 2, Times: -1}) },
		"Forgets": func(p *process) { p.view.Inject(memory.Fault{Mode: memory.LoseAnswer, Times: -1}) },
		"ClaimsHang": func(p *process) {
			p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: memory.Hang, Times: -1})
		},
		"ReleasesHang": func(p *process) {
			p.view.Inject(memory.Fault{Op: memory.OpRelease, Mode: memory.Hang, Times: -1})
		},
	}
	for what, do := range doing {
		for state, set := range states {
			for _, patience := range []time.Duration{0, poll / 2, 3 * timeout} {
				t.Run(fmt.Sprintf("%s/%s/%v", what, state, patience), func(t *testing.T) {
					scenario(t, func(w *world) {
						p, q := w.process("p"), w.process("q")
						p.acquire("mine")
						q.acquire("held")
						set(p)
						returned := make(chan struct{})
						go func() {
							defer close(returned)
							do(w, p, q)
						}()
						time.Sleep(2 * poll)
						began := w.now()
						err := p.Close(w.within(patience))
						if took := w.now() - began; took > max(patience, 0) {
							t.Errorf("Close took %v, its context ended after %v", took, patience)
						}
						if err == nil {
							t.Error("a tenure was not released, and Close is content")
						}
						<-returned
						if again := p.Close(context.Background()); !errors.Is(again, err) {
							t.Errorf("a second Close: %v, after %v", again, err)
						}
						if _, err := p.TryAcquire(ctx, "y"); !errors.Is(err, ownership.ErrClosed) {
							t.Errorf("TryAcquire after Close: %v", err)
						}
					})
				})
			}
		}
	}
}

// controller-runtime#2719: closing while acquiring never gives a tenure away that
// nobody ends.
func TestCloseWhileAcquiring(t *testing.T) {
	for delay := time.Duration(0); delay < 5*poll; delay += poll / 4 {
		scenario(t, func(w *world) {
			p := w.process("p")
			p.view.Inject(memory.Fault{Mode: memory.SlowAnswer, Delay: poll, Times: -1})
			got := make(chan *ownership.Tenure, 1)
			go func() {
				tenure, err := p.Acquire(context.Background(), "a")
				if err != nil && !errors.Is(err, ownership.ErrClosed) {
					t.Errorf("Acquire: %v", err)
				}
				if tenure != nil {
					go func() { _ = tenure.Release(context.Background()) }()
				}
				got <- tenure
			}()
			time.Sleep(delay)
			if err := p.Close(context.Background()); err != nil {
				t.Errorf("Close after %v: %v", delay, err)
			}
			if tenure := <-got; tenure != nil && tenure.State() != ownership.Released {
				t.Errorf("after Close at %v the tenure is %s", delay, tenure.State())
			}
			if !w.row("a").Free() {
				t.Errorf("after Close at %v the row is %+v", delay, w.row("a"))
			}
		})
	}
}

// kubernetes#112023: Close resolves a renewal of its own that is under way, and
// deletes the session by the seq that it came to.
func TestCloseResolvesTheRenewalFirst(t *testing.T) {
	for _, mode := range []memory.Mode{memory.LoseAnswer, memory.SlowAnswer, memory.Slow, memory.Late} {
		t.Run(string(mode), func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p")
				tenure := p.acquire("a")
				id := w.row("a").Session
				w.release(tenure)
				p.view.Inject(memory.Fault{Op: memory.OpRenew, Mode: mode, Delay: timeout / 2})
				p.view.Inject(memory.Fault{Op: memory.OpSession, Mode: memory.Reject})
				time.Sleep(renewal + time.Millisecond) // its outcome is not known yet
				if err := p.Close(context.Background()); err != nil {
					t.Errorf("Close: %v", err)
				}
				w.pass(timeout)
				if s := w.session(id); s.Found {
					t.Errorf("the session is %+v", s)
				}
			})
		})
	}
}

// Whoever never claimed anything has sent nothing, and has nothing to close.
func TestCloseWithoutASession(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if n := p.count(changes...); n > 0 || p.Session() != "" {
			t.Errorf("%d changes were sent", n)
		}
	})
}

// A session that cannot be deleted is said to be left, and expires by itself.
func TestCloseThatCannotDeleteTheSession(t *testing.T) {
	for mode, unknown := range map[memory.Mode]bool{memory.Hang: true, memory.Reject: false} {
		scenario(t, func(w *world) {
			p, q := w.process("p"), w.process("q")
			w.release(p.acquire("a"))
			p.view.Inject(memory.Fault{Op: memory.OpEnd, Mode: mode, Times: -1})
			if err := p.Close(w.within(2 * timeout)); err == nil || errors.Is(err, ownership.ErrUnknown) != unknown {
				t.Errorf("%s: Close: %v", mode, err)
			}
			q.try("a") // which nobody holds
		})
	}
}
