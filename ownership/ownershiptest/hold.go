package ownershiptest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// wide raises the margin, so that doubt begins well before the authority would
// let the lease go, and recovery from it does not depend on a busy machine.
func wide(t *ownership.Timing) {
	t.Margin = t.TTL / 4
	t.RequestTimeout, t.RenewEvery = 0, 0
	*t = t.WithDefaults()
}

// temporal#935, scylladb#14019 (renewals keep all of the lease alive),
// cockroach#131639 (deadline and token never move backwards),
// azure-event-hubs-dotnet#115 (the token is fixed at the grant).
func testStaysHeld(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := a.take(e.name())
	token, deadline, ctx := t.Token(), t.Deadline(), t.Context()
	moved := 0
	e.pass(3*e.timing.TTL, "while it is renewed", func() error {
		if err := t.Ensure(0); err != nil {
			return err
		}
		// Two readings of a wall clock may differ by a little.
		d := t.Deadline()
		if d.Before(deadline.Add(-time.Millisecond)) {
			return fmt.Errorf("the deadline moved back by %v", deadline.Sub(d))
		}
		if d.After(deadline.Add(time.Millisecond)) {
			moved++
		}
		deadline = d
		if t.Token() != token {
			return fmt.Errorf("the token changed from %d to %d", token, t.Token())
		}
		return nil
	})
	if ctx.Err() != nil || ctx != t.Context() {
		e.Error("the context of the work changed though the tenure was held all the time")
	}
	if moved < 3 {
		e.Errorf("the deadline moved %d times in three TTLs", moved)
	}
	b.refused(t)
	if got := a.transitions(t); len(got) != 1 {
		e.Errorf("the tenure went through %v", got)
	}
}

// consul#18271 (a silent transport ends Held within the TTL), curator#980 (work
// never outlives the original deadline), DESIGN 2.3, 2.4, 8.5: nothing but a
// timer says so.
func testCutOff(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := a.take(e.name())
	work := t.Context()
	a.Cut()
	deadline := t.Deadline()
	waiting := make(chan *ownership.Tenure, 1)
	ctx := e.ctx()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		u, err := b.Acquire(ctx, t.Resource())
		if err != nil {
			e.Errorf("Acquire by the successor: %v", err)
		}
		waiting <- u
	})

	cause := e.cause(work)
	late := time.Since(deadline)
	if !errors.Is(cause, ownership.ErrSuspect) || !errors.Is(cause, ownership.ErrExpired) {
		e.Fatalf("the work was cancelled because of %v, want ErrSuspect and ErrExpired", cause)
	}
	if e.h.VirtualTime && late > 10*time.Millisecond || late > e.timing.TTL {
		e.Errorf("the work was cancelled %v after its deadline", late)
	}
	if s := t.State(); s == ownership.Held {
		e.Fatal("Held after its context had ended")
	}
	e.wantNotHeld(t)

	select {
	case <-t.Done():
	case <-ctx.Done():
		e.Fatal("never lost")
	}
	if e.h.VirtualTime {
		if over := time.Since(deadline); over > e.timing.TTL+e.timing.Grace {
			e.Errorf("lost %v after the safe deadline", over)
		}
	}
	e.wantState(t, ownership.Lost)
	e.wantEnded(t, work, ownership.ErrLost)
	u := <-waiting
	if u == nil {
		return
	}
	b.own(u)
	if u.Token() <= t.Token() {
		e.Fatalf("token %d after %d", u.Token(), t.Token())
	}

	// Back in touch, the old process changes nothing (8.3, 8.6).
	a.Heal()
	_ = t.Release(e.ctx())
	e.pass(e.timing.TTL, "while the old owner is back", func() error {
		if s := t.State(); s != ownership.Lost {
			return fmt.Errorf("the old tenure is %s", s)
		}
		return u.Ensure(0)
	})
	a.refused(u)
}

// wantNotHeld checks every view of a tenure that is in doubt or over.
func (e *env) wantNotHeld(t *ownership.Tenure) {
	e.Helper()
	if err := t.Ensure(0); !errors.Is(err, ownership.ErrNotHeld) {
		e.Fatalf("Ensure of a tenure that is %s: %v", t.State(), err)
	}
	if t.Context().Err() == nil {
		e.Fatalf("a tenure that is %s has a context that is alive", t.State())
	}
}

// DESIGN 2.1, 2.3: proven again in time, it is Held under the same token, with a
// new context; the old one stays cancelled.
func testRecoversInTime(e *env) {
	a, b := e.process("alice", wide), e.process("bob")
	t := a.take(e.name())
	old := t.Context()
	a.Cut()
	e.cause(old)
	e.wantState(t, ownership.Suspect)
	a.Heal()
	e.eventually("it is held again", func() bool {
		if s := t.State(); s.Terminal() {
			e.Fatalf("healed in time, it is %s: %v", s, t.Err())
		}
		return t.State() == ownership.Held
	})
	e.wantHeld(t)
	if old.Err() == nil || t.Context() == old {
		e.Error("the context of an earlier period came back to life")
	}
	b.refused(t)
}

// etcd#15247, redsync and others: a process that slept reads "not held" from its
// first call on, before anything is sent or received (DESIGN 2.4, 8.5).
func testSuspended(e *env) {
	a := e.process("alice")
	for _, first := range []func(*ownership.Tenure, context.Context) error{
		func(t *ownership.Tenure, _ context.Context) error {
			if s := t.State(); s != ownership.Suspect {
				return fmt.Errorf("the state is %s", s)
			}
			return nil
		},
		func(t *ownership.Tenure, _ context.Context) error {
			if err := t.Ensure(0); !errors.Is(err, ownership.ErrSuspect) {
				return fmt.Errorf("the answer of Ensure is %v", err)
			}
			return nil
		},
		func(_ *ownership.Tenure, work context.Context) error {
			if work.Err() == nil {
				return errors.New("the context of the work has no error")
			}
			if !errors.Is(context.Cause(work), ownership.ErrSuspect) {
				return fmt.Errorf("the cause is %v", context.Cause(work))
			}
			return nil
		},
		func(t *ownership.Tenure, _ context.Context) error {
			if t.Context().Err() == nil {
				return errors.New("the context is alive")
			}
			return nil
		},
	} {
		t := a.take(e.name())
		work := t.Context()
		// Nothing gets through while the first question is asked, so only the
		// clock can answer it.
		a.Cut()
		a.Suspend(e.timing.Usable())
		if err := first(t, work); err != nil {
			e.Fatalf("the first call after waking: %v", err)
		}
		a.Heal()
		// The authority's time did not move: the lease can still be proven.
		e.eventually("it is held again", func() bool {
			if s := t.State(); s.Terminal() {
				e.Fatalf("it is %s: %v", s, t.Err())
			}
			return t.State() == ownership.Held
		})
		if work.Err() == nil {
			e.Error("the context of an earlier period came back to life")
		}
		a.release(t)
	}
}

// DESIGN 2.2, 2.3, 8.6: slept past the end, it is lost at the first call, for good.
func testSuspendedPastEnd(e *env) {
	a := e.process("alice")
	t := a.take(e.name())
	work := t.Context()
	a.Suspend(e.timing.TTL + e.timing.Grace)
	e.wantState(t, ownership.Lost)
	e.wantEnded(t, work, ownership.ErrLost, ownership.ErrExpired)
	e.pass(e.timing.TTL, "while the process goes on", func() error {
		if s := t.State(); s != ownership.Lost {
			return fmt.Errorf("it is %s", s)
		}
		return nil
	})
	if n := a.entered(t, ownership.Lost); n != 1 {
		e.Errorf("lost %d times", n)
	}
	_ = t.Release(e.ctx())
	u := a.acquire(t.Resource())
	if u.Token() <= t.Token() {
		e.Fatalf("token %d after %d", u.Token(), t.Token())
	}
}

// redsync#72, DESIGN 2, Time: time that passes before the answer counts against
// the lease, of a claim and of a renewal; an answer from too long ago is no
// licence to work (history looks at that).
func testSlowAnswer(e *env) {
	a := e.process("alice")
	slow := e.timing.RenewEvery / 2
	// slowNext lets the machine sleep for d between the next change and its answer.
	slowNext := func(d time.Duration) *atomic.Int64 {
		var answers atomic.Int64
		a.Observe(func(r Request) {
			if r.Change && r.Answered && answers.Add(1) == 1 {
				a.Suspend(d)
			}
		})
		return &answers
	}
	atMost := func(t *ownership.Tenure, most time.Duration) error {
		if remaining := time.Until(t.Deadline()); remaining > most {
			return fmt.Errorf("the lease is good for another %v; at most %v can be proven", remaining, most)
		}
		return nil
	}
	slowNext(slow)
	t := a.take(e.name())
	if err := atMost(t, e.timing.Usable()-slow); err != nil {
		e.Fatalf("after an answer to the claim that took %v: %v", slow, err)
	}
	answers := slowNext(slow)
	e.eventually("a renewal was answered", func() bool { return answers.Load() > 0 })
	e.pass(slow/2, fmt.Sprintf("after an answer to a renewal that took %v", slow), func() error {
		return atMost(t, e.timing.Usable()-slow)
	})
	answers = slowNext(e.timing.Usable() + e.timing.Margin)
	e.eventually("a renewal was answered too late", func() bool { return answers.Load() > 0 })
	e.eventually("it was noticed", func() bool { return a.entered(t, ownership.Suspect) > 0 })
	e.eventually("it is held again", func() bool { return t.State() == ownership.Held })
}

// reaper#285; Timing: two renewals in a row may be lost, answers included, and
// nobody is in doubt.
func testTwoLostRenewals(e *env) {
	modes := []Failure{LoseRequest, LoseAnswer, Late, Reject}
	if e.h.VirtualTime {
		modes = append(modes, Hang) // takes a request's whole time: too close for a busy machine
	}
	for _, mode := range modes {
		a := e.process("alice")
		t := a.take(e.name())
		var changes atomic.Int64
		a.Fail(mode, 2)
		a.Observe(func(r Request) {
			if r.Change && r.Answered {
				changes.Add(1)
			}
		})
		e.eventually("some renewals were made", func() bool { return changes.Load() >= 4 })
		a.Observe(nil)
		e.wantHeld(t)
		if got := a.transitions(t); len(got) != 1 {
			e.Errorf("two times %q: the tenure went through %v", mode, got)
		}
		a.release(t)
	}
}

// etcd#15247 (the store drops the lease early: lost on the next renewal),
// kubernetes#23731 (a rival means lost, signalled exactly once), Nomad's
// LockLeaser (a conflict cancels the work), DESIGN 8.3.
func testSessionDropped(e *env) {
	c := e.process("carol") // dropped without a rival: the renewal alone tells
	alone := c.take(e.name())
	if err := c.Drop(e.ctx()); err != nil {
		e.Fatalf("Drop: %v", err)
	}
	if cause := e.cause(alone.Context()); !errors.Is(cause, ownership.ErrLost) || !errors.Is(cause, ownership.ErrRefused) {
		e.Fatalf("the work was cancelled because of %v, want ErrLost and ErrRefused", cause)
	}

	a, b := e.process("alice"), e.process("bob")
	t, other := a.take(e.name()), a.take(e.name())
	work := t.Context()
	e.history.giveAwayEarly()
	if err := a.Drop(e.ctx()); err != nil {
		e.Fatalf("Drop: %v", err)
	}
	u := b.acquire(t.Resource())
	if u.Token() <= t.Token() {
		e.Fatalf("token %d after %d", u.Token(), t.Token())
	}
	if cause := e.cause(work); !errors.Is(cause, ownership.ErrLost) || !errors.Is(cause, ownership.ErrRefused) {
		e.Fatalf("the work was cancelled because of %v, want ErrLost and ErrRefused", cause)
	}
	e.eventually("the other tenure is lost, too", func() bool { return other.State() == ownership.Lost })
	e.wantEnded(t, work, ownership.ErrLost, ownership.ErrRefused)
	e.pass(e.timing.TTL, "after the loss", func() error { return u.Ensure(0) })
	for _, x := range []*ownership.Tenure{t, other} {
		if n := a.entered(x, ownership.Lost); n != 1 {
			e.Errorf("%s was lost %d times", x.Resource(), n)
		}
	}
	a.release(t)
	e.wantHeld(u)
	a.refused(u)
	a.release(other)
	// The row still names alice, of a session that is gone: a claim that was lost
	// must not take it for its own (DESIGN 5: never accept by owner name).
	a.Fail(LoseRequest, 1)
	again := a.acquire(other.Resource())
	e.wantState(again, ownership.Held)
	h, err := b.Holder(e.ctx(), other.Resource())
	if err != nil || h.Owner != again.Owner() || h.Token != again.Token() {
		e.Fatalf("Holder: %v, %v; want %v under token %d", h, err, again.Owner(), again.Token())
	}
}

// DESIGN 5, Revocation: one tenure ends, the others go on, and the resource is
// free once the work has ended, not before.
func testRevoked(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t, other := a.take(e.name()), a.take(e.name())
	work := t.Context()
	if err := b.Revoke(e.ctx(), t.Resource()); err != nil {
		e.Fatalf("Revoke: %v", err)
	}
	if cause := e.cause(work); !errors.Is(cause, ownership.ErrLost) || !errors.Is(cause, ownership.ErrRevoked) {
		e.Fatalf("the work was cancelled because of %v, want ErrLost and ErrRevoked", cause)
	}
	e.wantEnded(t, work, ownership.ErrRevoked)
	a.release(t)
	u := b.acquire(t.Resource())
	if u.Token() <= t.Token() {
		e.Fatalf("token %d after %d", u.Token(), t.Token())
	}
	e.pass(e.timing.TTL, "after the revocation", func() error { return errors.Join(other.Ensure(0), u.Ensure(0)) })
	if got := a.transitions(other); len(got) != 1 {
		e.Errorf("the other tenure went through %v", got)
	}
	b.release(u)
	if err := a.Revoke(e.ctx(), t.Resource()); err != nil {
		e.Errorf("Revoke of a vacant resource: %v", err)
	}
}

// DESIGN 2, Zombies: stuck work does not stay in office, and takes nobody along.
func testStalled(e *env) {
	stall := func(t *ownership.Timing) { t.Stall = max(t.RenewEvery, t.TTL/2) }
	a, b := e.process("alice", stall), e.process("bob")
	stuck, busy := a.take(e.name()), a.take(e.name())
	work := stuck.Context()
	e.eventually("the stuck one is lost", func() bool {
		busy.Progress()
		return stuck.State() == ownership.Lost
	})
	if cause := e.cause(work); !errors.Is(cause, ownership.ErrStalled) {
		e.Fatalf("the work was cancelled because of %v, want ErrStalled", cause)
	}
	e.wantEnded(stuck, work, ownership.ErrLost, ownership.ErrStalled)
	e.wantHeld(busy)
	// Nobody said that the work has ended: it follows when the deadline that the
	// work was told has passed, while the session goes on.
	deadline := stuck.Deadline()
	var u *ownership.Tenure
	e.eventually("the resource is free", func() bool {
		busy.Progress()
		t, err := b.TryAcquire(e.ctx(), stuck.Resource())
		if err == nil {
			u = t
		}
		return err == nil
	})
	b.own(u)
	if early := time.Until(deadline); early > 0 {
		e.Errorf("given away %v before the deadline that the work was told", early)
	}
	e.wantHeld(busy)
}

// DESIGN 2.1: Run starts the body anew under the same token after doubt.
func testRunStartsAnew(e *env) {
	a := e.process("alice")
	var tokens []ownership.Token
	err := ownership.Run(e.ctx(), a, e.name(), func(ctx context.Context, t *ownership.Tenure) error {
		tokens = append(tokens, t.Token())
		if len(tokens) > 1 {
			return nil
		}
		a.Suspend(e.timing.Usable())
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ownership.ErrSuspect) {
			e.Errorf("the body was cancelled because of %v", context.Cause(ctx))
		}
		return ctx.Err()
	})
	if err != nil || len(tokens) != 2 || tokens[0] != tokens[1] {
		e.Fatalf("Run: %v, under tokens %v; want two bodies under one token", err, tokens)
	}
}
